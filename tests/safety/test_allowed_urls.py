"""Which URLs somebody else may have us connect to."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish.safety.allowed_urls import find_allowed, find_url_fault, is_public

LIST = ("https://mcp.example.com/*", "http://127.0.0.1:*", "https://*.good.org/mcp")


@pytest.mark.parametrize(
    ("url", "names_host"),
    [
        ("https://mcp.example.com", True),
        ("https://MCP.example.com/a/b?c=d", True),
        ("https://mcp.example.com:443/a", True),
        ("http://127.0.0.1", True),
        ("http://127.0.0.1:8080/mcp", True),
        ("https://a.good.org/mcp", False),
    ],
)
def test_a_url_on_the_list_is_allowed(url, names_host):
    allowed = find_allowed(url, LIST)
    assert allowed is not None
    assert allowed.names_host is names_host


@pytest.mark.parametrize(
    "url",
    [
        "http://mcp.example.com/",
        "https://mcp.example.com:8443/",
        "https://mcp.example.com.evil.example/",
        "https://evil.example/https://mcp.example.com/",
        "https://evil.example/#https://mcp.example.com/",
        "https://a.good.org/mcp/more",
        "https://evil.example/.good.org/mcp",
        "https://evil.example?.good.org/mcp",
        "https://evil.example\\.good.org/mcp",
        "https://mcp.example.com@evil.example/",
        "https://user:secret@mcp.example.com/",
        "https://mcp.example.com/a/../../b",
        "https://mcp.example.com/%2E%2e/b",
        "https://mcp.example.com/%252e%252e/b",
        "https://mcp.example.com/a;/../b",
        "https://mcp.example.com/?token=abc",
        "https://mcp.example.com/a b",
        "https://mcp.example.com/\n",
        "https://mcp.example.com:99999/",
        "https://mcp.example.com./",
        "ftp://127.0.0.1/",
        "unix:///run/x.sock:/mcp",
        "file:///etc/passwd",
        "",
        "https://mcp.example.com/" + "a" * 3000,
    ],
)
def test_whatever_is_not_surely_on_the_list_is_refused(url):
    assert find_allowed(url, LIST) is None


def test_an_empty_list_allows_nothing():
    assert find_allowed("https://mcp.example.com/", ()) is None


@given(st.text(st.characters(max_codepoint=0x17F), max_size=40))
def test_what_is_allowed_leads_to_the_host_the_list_has_however_it_is_written(tail):
    """The list and whoever connects must read a URL alike."""
    for url in (f"https://mcp.example.com{tail}", f"https://{tail}.good.org/mcp", f"http://127.0.0.1{tail}"):
        if find_allowed(url, LIST) is not None:
            parts = urlsplit(url)
            assert parts.hostname in ("mcp.example.com", "127.0.0.1") or parts.hostname.endswith(".good.org")
            assert parts.username is None
            assert not find_url_fault(url)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "64:ff9b::808:808"])
def test_addresses_of_the_internet_are_public(address):
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.0.0.1", "192.168.1.1", "172.16.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
        "255.255.255.255", "::1", "::", "fe80::1%eth0", "fd00::1", "ff02::1", "::ffff:10.0.0.1", "64:ff9b::a00:1",
        "2002:7f00:1::", "not an address", "",
    ],
)  # fmt: skip
def test_private_addresses_are_not_public_however_they_are_wrapped(address):
    assert not is_public(address)
