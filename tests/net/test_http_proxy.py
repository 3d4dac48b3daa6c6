"""Through a proxy the client behaves as it does without one."""

from __future__ import annotations

import asyncio
import importlib
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest
import trustme

from aish.errors import BadResponse, ConnectFailed, ConnectionLost, TooLarge, WireError, WireTimeout
from aish.net.http.client import HttpBounds, HttpClient, ProxySettings, Timeouts
from support.raw_server import DEADLINE_S, Peer, RawServer, nothing_left, raw_server

URL = "http://model.test/v1/chat?key=hunter2"
HELLO = b"HTTP/1.1 200 OK\r\nx-a: 1\r\nX-A: 2\r\ncontent-length: 5\r\n\r\nhello"


@pytest.fixture(autouse=True)
async def leaks() -> AsyncIterator[None]:
    async with nothing_left():
        yield


def through(proxy: RawServer, **more: object) -> HttpClient:
    return HttpClient(proxies=ProxySettings(http=proxy.url, https=proxy.url), **more)  # type: ignore[arg-type]


async def test_a_plain_request_asks_the_proxy_for_the_whole_url() -> None:
    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(HELLO)

    async with raw_server(script) as proxy, through(proxy) as client:
        for _ in range(2):
            async with client.request("POST", URL, headers={"x-key": "k"}, body=b"{}") as response:
                assert (response.status, response.reason) == (200, "OK")
                assert [value for name, value in response.headers if name == "x-a"] == ["1", "2"]
                assert await response.read() == b"hello"
        assert len(proxy.peers) == 1
        request = proxy.requests[0]
        assert (request.method, request.path, request.body) == ("POST", URL, b"{}")
        assert request.headers["host"] == "model.test"
        assert request.headers["x-key"] == "k"
        assert request.headers["accept-encoding"] == "identity"
        assert "user-agent" not in request.headers
        assert "content-type" not in request.headers


async def test_pieces_come_as_they_arrive_and_leaving_early_is_seen_by_the_proxy() -> None:
    departures: list[str] = []

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n")
        departures.append(await peer.left())

    async with raw_server(script) as proxy, through(proxy) as client:
        async with client.request("GET", URL) as response:
            assert await anext(response) == b"one"
        await proxy.scripts_ended()
        assert departures


async def test_a_rest_that_is_not_missed_ends_where_it_fails() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhel")
        await peer.left()

    async with raw_server(script) as proxy, through(proxy) as client, client.request("GET", URL) as response:
        assert await response.next_piece() == b"hel"
        response.make_rest_optional(0.03)
        assert await response.next_piece() == b""


async def test_cancelling_while_waiting_is_seen_by_the_proxy() -> None:
    asked, departures = asyncio.Event(), list[str]()

    async def script(peer: Peer) -> None:
        await peer.request()
        asked.set()
        departures.append(await peer.left())

    async with raw_server(script) as proxy, through(proxy) as client:

        async def ask() -> None:
            async with client.request("GET", URL):
                pass

        task = asyncio.create_task(ask())
        await asyncio.wait_for(asked.wait(), DEADLINE_S)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await proxy.scripts_ended()
        assert departures


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


async def test_https_is_tunnelled_and_verified_end_to_end() -> None:
    authority = trustme.CA()
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("model.test").configure_cert(serving)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)

    async def greet(peer: Peer) -> None:
        await peer.request()
        await peer.send(HELLO)
        await peer.left()

    async with raw_server(greet, tls=serving) as upstream:

        async def tunnel(peer: Peer) -> None:
            await peer.request()
            reader, writer = await asyncio.open_connection("127.0.0.1", int(upstream.url.rpartition(":")[2]))
            await peer.send(b"HTTP/1.1 200 Connected\r\n\r\n")
            try:
                await asyncio.gather(_pump(reader, peer.writer), _pump(peer.reader, writer))
            finally:
                writer.close()

        async with raw_server(tunnel) as proxy:
            async with through(proxy, ssl_context=trusting) as client:
                async with client.request("GET", "https://model.test/x") as response:
                    assert await response.read() == b"hello"
                assert proxy.requests[0].method == "CONNECT"
                assert proxy.requests[0].path == "model.test:443"
                assert upstream.requests[0].path == "/x"
            async with through(proxy) as client:
                with pytest.raises(ConnectFailed, match="certificate is not accepted"):
                    async with client.request("GET", "https://model.test/x"):
                        pass


async def failure(answer: bytes, timeouts: Timeouts = Timeouts(connect_s=5), url: str = URL) -> WireError:  # noqa: B008
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer)
        if b"stay" in answer or not answer:
            await peer.left()

    async with raw_server(script) as proxy, through(proxy, bounds=HttpBounds(max_header_bytes=2048)) as client:
        with pytest.raises(WireError) as caught:
            async with client.request("GET", url, timeouts=timeouts) as response:
                await response.read()
    assert "hunter2" not in caught.value.message
    assert "model.test" in caught.value.message
    return caught.value


async def test_failures_are_translated() -> None:
    assert isinstance(await failure(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello"), ConnectionLost)
    assert isinstance(await failure(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhel"), ConnectionLost)
    assert isinstance(await failure(b"<html>no</html>\r\n\r\n"), BadResponse)
    assert isinstance(await failure(b"HTTP/1.1 200 OK\r\nx: " + b"a" * 5000 + b"\r\n\r\n"), TooLarge)
    refused = await failure(b"HTTP/1.1 407 Auth\r\ncontent-length: 0\r\n\r\n", url="https://model.test/")
    assert isinstance(refused, ConnectFailed)
    assert "407" in refused.message


async def test_deadlines_hold_behind_a_proxy() -> None:
    tiny = 0.05
    late = await failure(b"", Timeouts(connect_s=tiny, first_byte_s=tiny))
    assert isinstance(late, WireTimeout)
    assert late.phase == "first_byte"
    silent = await failure(b"HTTP/1.1 200 OK\r\nx: stay\r\ncontent-length: 9\r\n\r\nhello", Timeouts(idle_s=tiny))
    assert isinstance(silent, WireTimeout)
    assert silent.phase == "idle"
    long = await failure(b"HTTP/1.1 200 OK\r\nx: stay\r\ncontent-length: 9\r\n\r\nhello", Timeouts(total_s=tiny))
    assert isinstance(long, WireTimeout)
    assert long.phase == "total"


async def test_a_proxy_that_is_not_there_is_a_failure_to_connect() -> None:
    proxies = ProxySettings(http="http://user:hunter2@127.0.0.1:1")
    async with HttpClient(proxies=proxies) as client:
        with pytest.raises(ConnectFailed) as caught:
            async with client.request("GET", URL):
                pass
    assert "hunter2" not in caught.value.message + caught.value.hint


async def test_a_proxy_address_that_makes_no_sense_is_a_failure_to_connect() -> None:
    async with HttpClient(proxies=ProxySettings(http="not a url")) as client:
        with pytest.raises(ConnectFailed):
            async with client.request("GET", URL):
                pass


async def test_this_machine_is_never_reached_through_the_proxy() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(HELLO)

    async with (
        raw_server(script) as server,
        HttpClient(proxies=ProxySettings(http="http://127.0.0.1:1")) as client,
        client.request("GET", server.url) as response,
    ):
        assert await response.read() == b"hello"


async def test_a_closed_client_says_so() -> None:
    client = HttpClient(proxies=ProxySettings(http="http://127.0.0.1:1"))
    await client.aclose()
    with pytest.raises(ConnectFailed, match="the client is closed"):
        async with client.request("GET", URL):
            pass


async def test_without_aiohttp_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    importlib.import_module("aish.net.http.proxy")  # the one to be put back afterwards, whichever test runs first
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    monkeypatch.delitem(sys.modules, "aish.net.http.proxy")
    async with HttpClient(proxies=ProxySettings(http="http://127.0.0.1:1")) as client:
        with pytest.raises(ConnectFailed) as caught:
            async with client.request("GET", URL):
                pass
    assert "pip install 'aish-runtime[proxy]'" in caught.value.hint


def test_aiohttp_is_not_loaded_without_a_proxy() -> None:
    code = "import sys, aish.net.http.client; sys.exit('aiohttp' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
