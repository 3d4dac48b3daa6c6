"""URLs taken apart, and which of them go through a proxy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish.errors import UsageError
from aish.net.http.message import ProxySettings, find_proxy, parse_url


@pytest.mark.parametrize(
    ("url", "host", "port", "path", "origin", "host_header"),
    [
        ("http://a.test", "a.test", 80, "/", "http://a.test:80", "a.test"),
        ("https://a.test/x?y=1#z", "a.test", 443, "/x?y=1", "https://a.test:443", "a.test"),
        ("http://A.test:8080/x", "a.test", 8080, "/x", "http://a.test:8080", "a.test:8080"),
        ("http://[::1]:81/", "::1", 81, "/", "http://[::1]:81", "[::1]:81"),
        ("http://a.test?q", "a.test", 80, "/?q", "http://a.test:80", "a.test"),
        ("unix:///run/a.sock:/v1?x=1", "", 0, "/v1?x=1", "unix:///run/a.sock", "localhost"),
        ("unix:///run/a.sock", "", 0, "/", "unix:///run/a.sock", "localhost"),
    ],
)
def test_a_url_is_taken_apart(url: str, host: str, port: int, path: str, origin: str, host_header: str) -> None:
    target = parse_url(url)
    assert (target.host, target.port, target.path) == (host, port, path)
    assert (target.origin, target.host_header) == (origin, host_header)


@pytest.mark.parametrize(
    "url",
    [
        "http://a.test/\r\nx: y",
        "http://a.test/a b",
        "http://a.test/\0",
        "http://a.test/ü",
        "http://user:hunter2@a.test/",
        "http://hunter2@a.test/",
        "http://a.test:99999/",
        "http://a.test:x/",
        "http://[::1/",
        "http:///x",
        "ftp://a.test/",
        "a.test",
        "",
        "unix://relative.sock:/x",
    ],
)
def test_a_url_that_cannot_be_asked_for_is_refused_without_being_repeated(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_url(url)
    assert "hunter2" not in str(caught.value)


@given(st.text(max_size=60))
def test_any_text_is_a_target_or_a_usage_error(text: str) -> None:
    for url in (text, f"http://{text}", f"unix://{text}"):
        try:
            target = parse_url(url)
        except UsageError:
            continue
        assert not any(char.isspace() or not char.isascii() for char in target.path + target.host_header)


PROXIES = ProxySettings(
    http="http://proxy.test:3128",
    https="http://proxy.test:3129",
    no_proxy=("inner.test", ".corp.test", "*.star.test", "10.0.0.0/8", "port.test:81", "192.0.2.7", "bad/net", ""),
)


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("http://far.test/", "http://proxy.test:3128"),
        ("https://far.test/", "http://proxy.test:3129"),
        ("http://notinner.test/", "http://proxy.test:3128"),
        ("http://port.test:82/", "http://proxy.test:3128"),
        ("http://11.0.0.1/", "http://proxy.test:3128"),
        ("http://inner.test/", None),
        ("http://a.inner.test/", None),
        ("http://a.corp.test/", None),
        ("http://a.star.test/", None),
        ("http://10.1.2.3/", None),
        ("http://192.0.2.7/", None),
        ("http://port.test:81/", None),
        ("http://localhost:11434/", None),
        ("http://a.localhost/", None),
        ("http://127.0.0.5/", None),
        ("http://[::1]/", None),
        ("unix:///x.sock", None),
    ],
)
def test_a_proxy_is_chosen_by_scheme_and_host(url: str, proxy: str | None) -> None:
    assert find_proxy(parse_url(url), PROXIES) == proxy


def test_no_proxy_means_no_proxy() -> None:
    assert find_proxy(parse_url("http://far.test"), None) is None
    assert find_proxy(parse_url("http://far.test"), ProxySettings(https="http://p.test")) is None
    assert find_proxy(parse_url("http://far.test"), ProxySettings(http="http://p.test", no_proxy=("*",))) is None


def test_a_password_of_the_proxy_does_not_show() -> None:
    assert "hunter2" not in repr(ProxySettings(http="http://u:hunter2@p.test"))
