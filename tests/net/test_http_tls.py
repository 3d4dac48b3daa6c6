"""TLS: verified against the authority and the host name, and cancelled as readily as plain TCP."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator

import pytest
import trustme

from aish.errors import ConnectFailed, ConnectionLost
from aish.net.http.client import HttpClient
from support.raw_server import Peer, nothing_left, raw_server

HELLO = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"


@pytest.fixture(autouse=True)
async def leaks() -> AsyncIterator[None]:
    async with nothing_left():
        yield


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def serving(authority: trustme.CA, name: str) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(name).configure_cert(context)
    return context


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


async def greet_forever(peer: Peer) -> None:
    while True:
        await peer.request()
        await peer.send(HELLO)


async def test_a_trusted_certificate_is_accepted_and_the_connection_kept(authority: trustme.CA) -> None:
    async with (
        raw_server(greet_forever, tls=serving(authority, "localhost")) as server,
        HttpClient(ssl_context=trusting(authority)) as client,
    ):
        for _ in range(3):
            async with client.request("GET", server.url) as response:
                assert await response.read() == b"hello"
        assert len(server.peers) == 1


async def test_the_server_name_is_sent(authority: trustme.CA) -> None:
    names: list[str | None] = []
    context = serving(authority, "localhost")
    context.sni_callback = lambda _sock, name, _context: names.append(name)
    async with (
        raw_server(greet_forever, tls=context) as server,
        HttpClient(ssl_context=trusting(authority)) as client,
        client.request("GET", server.url) as response,
    ):
        await response.read()
    assert names == ["localhost"]


async def test_an_untrusted_certificate_is_refused_by_default(authority: trustme.CA) -> None:
    async with raw_server(greet_forever, tls=serving(authority, "localhost")) as server, HttpClient() as client:
        with pytest.raises(ConnectFailed, match="certificate is not accepted") as caught:
            async with client.request("GET", f"{server.url}/?key=hunter2"):
                pass
    assert "hunter2" not in caught.value.message
    assert caught.value.hint
    assert isinstance(caught.value.__cause__, ssl.SSLCertVerificationError)
    assert not server.requests


async def test_a_certificate_for_another_host_is_refused(authority: trustme.CA) -> None:
    async with (
        raw_server(greet_forever, tls=serving(authority, "elsewhere.test")) as server,
        HttpClient(ssl_context=trusting(authority)) as client,
    ):
        with pytest.raises(ConnectFailed, match=r"certificate is not accepted.*localhost"):
            async with client.request("GET", server.url):
                pass
    assert not server.requests


async def test_https_to_a_plain_server_says_so() -> None:
    async def script(peer: Peer) -> None:
        await peer.reader.read(1)
        await peer.send(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")

    async with raw_server(script) as server, HttpClient() as client:
        with pytest.raises(ConnectFailed, match="TLS handshake failed") as caught:
            async with client.request("GET", server.url.replace("http:", "https:")):
                pass
    assert "http rather than https" in caught.value.hint


async def test_a_server_that_hangs_up_in_the_handshake_is_a_failure_to_connect() -> None:
    async def script(peer: Peer) -> None:
        await peer.reader.read(1)
        peer.reset()

    async with raw_server(script) as server, HttpClient() as client:
        with pytest.raises(ConnectFailed):
            async with client.request("GET", server.url.replace("http:", "https:")):
                pass


async def test_leaving_early_is_seen_by_the_server_under_tls_too(authority: trustme.CA) -> None:
    departures: list[str] = []

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nhello")
        departures.append(await peer.left())

    async with (
        raw_server(script, tls=serving(authority, "localhost")) as server,
        HttpClient(ssl_context=trusting(authority)) as client,
    ):
        async with client.request("GET", server.url) as response:
            assert await anext(response) == b"hello"
        await server.scripts_ended()
        assert departures


async def test_a_body_cut_short_under_tls_is_a_lost_connection(authority: trustme.CA) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nhello")

    async with (
        raw_server(script, tls=serving(authority, "localhost")) as server,
        HttpClient(ssl_context=trusting(authority)) as client,
    ):
        with pytest.raises(ConnectionLost):
            async with client.request("GET", server.url) as response:
                await response.read()


async def test_a_large_body_goes_both_ways_under_tls(authority: trustme.CA) -> None:
    big = bytes(3_000_000)

    async def script(peer: Peer) -> None:
        request = await peer.request()
        assert request.body == big
        await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(big), big)

    async with (
        raw_server(script, tls=serving(authority, "localhost")) as server,
        HttpClient(ssl_context=trusting(authority)) as client,
        client.request("POST", server.url, body=big) as response,
    ):
        assert await asyncio.wait_for(response.read(), 10) == big
