"""Answers as servers send them: whole, in bytes, framed in every way, cut short, and wrong."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish.errors import BadResponse, ConnectionLost, TooLarge, WireError
from aish.net.http.client import HttpBounds, HttpClient
from aish.net.http.connection import ResponseParser
from support.raw_server import Peer, Script, nothing_left, raw_server

LENGTH = b"HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\nhello world"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n0\r\n\r\n"
TRAILERS = CHUNKED[:-2] + b"x-sum: 1\r\nx-more: 2\r\n\r\n"
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + LENGTH
UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\n\r\nhello world"
OLD = b"HTTP/1.0 200 OK\r\nx-empty:\r\n\r\nhello world"
USUAL = HttpBounds()
FRAMED = [LENGTH, CHUNKED, TRAILERS, INTERIM]


@pytest.fixture(autouse=True)
async def leaks() -> AsyncIterator[None]:
    async with nothing_left():
        yield


def answering(data: bytes, *, bytewise: bool = False) -> Script:
    """Answers once; a connection that is kept shows as a second request, which is answered as well."""

    async def script(peer: Peer) -> None:
        for _ in range(2):
            await peer.request()
            await (peer.send_bytewise(data) if bytewise else peer.send(data))
            if b"HTTP/1.0" in data or data == UNTIL_CLOSE:
                return

    return script


async def fetch(data: bytes, *, bounds: HttpBounds = USUAL, bytewise: bool = False) -> bytes:
    async with (
        raw_server(answering(data, bytewise=bytewise)) as server,
        HttpClient(bounds=bounds) as client,
        client.request("GET", server.url) as response,
    ):
        return await response.read()


@pytest.mark.parametrize("data", [*FRAMED, UNTIL_CLOSE, OLD])
@pytest.mark.parametrize("bytewise", [False, True])
async def test_the_body_arrives_however_it_is_framed_and_cut(data: bytes, bytewise: bool) -> None:  # noqa: FBT001
    assert await fetch(data, bytewise=bytewise) == b"hello world"


@pytest.mark.parametrize("data", FRAMED)
async def test_a_framed_answer_keeps_its_connection(data: bytes) -> None:
    async with raw_server(answering(data)) as server, HttpClient() as client:
        for _ in range(2):
            async with client.request("GET", server.url) as response:
                assert await response.read() == b"hello world"
        assert len(server.peers) == 1


async def test_the_chunks_of_one_read_come_as_one_piece() -> None:
    async with (
        raw_server(answering(CHUNKED)) as server,
        HttpClient() as client,
        client.request("GET", server.url) as response,
    ):
        assert [piece async for piece in response] == [b"hello world"]


@pytest.mark.parametrize(
    ("method", "head"),
    [
        ("GET", b"HTTP/1.1 204 No Content\r\n\r\n"),
        ("GET", b"HTTP/1.1 304 Not Modified\r\ncontent-length: 10\r\n\r\n"),
        ("HEAD", b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n"),
        ("HEAD", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"),
    ],
)
async def test_answers_without_a_body_end_with_their_head(method: str, head: bytes) -> None:
    async with raw_server(answering(head)) as server, HttpClient() as client:
        for _ in range(2):
            async with client.request(method, server.url) as response:
                assert await response.read() == b""
        assert len(server.peers) == 1


async def test_one_connection_carries_answers_of_every_framing() -> None:
    answers = [*FRAMED, *reversed(FRAMED)]

    async def script(peer: Peer) -> None:
        for data in answers:
            await peer.request()
            await peer.send(data)
        await peer.left()

    async with raw_server(script) as server, HttpClient() as client:
        for _ in answers:
            async with client.request("GET", server.url) as response:
                assert (response.status, await response.read()) == (200, b"hello world")
        assert len(server.peers) == 1


async def test_an_answer_that_was_left_has_ended_whatever_comes_on_its_connection() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(LENGTH)
        await peer.request()
        await peer.send(CHUNKED[:-5])
        await peer.left()

    async with raw_server(script) as server, HttpClient() as client:
        async with client.request("GET", server.url) as first:
            assert await anext(first) == b"hello world"
        async with client.request("GET", server.url) as second:
            assert await anext(second) == b"hello world"
            assert await first.read() == b""
        assert len(server.peers) == 1


async def test_redirects_are_returned_as_they_are() -> None:
    data = b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n"
    async with (
        raw_server(answering(data)) as server,
        HttpClient() as client,
        client.request("GET", server.url) as response,
    ):
        assert (response.status, response.headers["location"]) == (302, "http://127.0.0.1:1/")


@pytest.mark.parametrize("data", [LENGTH[:-1], CHUNKED[:-2], CHUNKED[:-8], TRAILERS[:-4]])
async def test_a_body_cut_short_is_a_lost_connection_after_what_did_arrive(data: bytes) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(data)

    async with raw_server(script) as server, HttpClient() as client, client.request("GET", server.url) as response:
        pieces: list[bytes] = []
        with pytest.raises(ConnectionLost, match="in the middle of its answer"):
            async for piece in response:
                pieces += [piece]
        assert b"hello world".startswith(b"".join(pieces))
        assert pieces


async def test_a_reset_in_the_middle_is_a_lost_connection_even_without_framing() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(UNTIL_CLOSE)
        peer.reset()

    async with raw_server(script) as server, HttpClient() as client:
        with pytest.raises(ConnectionLost):
            async with client.request("GET", server.url) as response:
                await response.read()


@pytest.mark.parametrize(
    "data",
    [
        b"<!doctype html><html>hi</html>",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/9.9 200 OK\r\n\r\n",
        b"\x15\x03\x01\x00\x02\x02\x50",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 200 OK\r\nno colon here\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
    ],
)
async def test_what_is_not_http_is_a_bad_response_without_its_bytes_in_the_message(data: bytes) -> None:
    with pytest.raises(BadResponse) as caught:
        await fetch(data)
    assert "127.0.0.1" in caught.value.message
    assert "doctype" not in caught.value.message


async def test_a_bad_chunk_after_good_ones_comes_after_them() -> None:
    data = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n"
    async with (
        raw_server(answering(data)) as server,
        HttpClient() as client,
        client.request("GET", server.url) as response,
    ):
        assert await anext(response) == b"hello"
        with pytest.raises(BadResponse):
            await anext(response)


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\nx: " + b"a" * 5000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"a" * 5000 + b"\r\ncontent-length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nx: " + b"a" * 5000,
        b"HTTP/1.1 200 " + b"a" * 5000,
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 1000,
        b"HTTP/1.1 100 Continue\r\n\r\n" * 1000,
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: " + b"a" * 5000,
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n" + b"a: b\r\n" * 1000,
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;" + b"a" * 5000,
    ],
    ids=[
        "value",
        "value and body",
        "endless value",
        "reason",
        "many",
        "interim",
        "trailer",
        "trailers",
        "chunk extension",
    ],
)
@pytest.mark.parametrize("size", [1, 700, 100_000])
def test_everything_that_is_not_body_is_bounded(data: bytes, size: int) -> None:
    parser = ResponseParser("origin", max_header_bytes=1024)
    parser.begin(head_only=False)
    for start in range(0, len(data), size):
        parser.feed(data[start : start + size])
        if parser.error is not None:
            break
    assert isinstance(parser.error, TooLarge)


async def test_headers_past_the_bound_close_the_connection() -> None:
    with pytest.raises(TooLarge, match="headers are larger than 1024 bytes"):
        await fetch(b"HTTP/1.1 200 OK\r\nx: " + b"a" * 5000, bounds=HttpBounds(max_header_bytes=1024))


Outcome = tuple[int, str, list[tuple[str, str]], bool, bool, type[WireError] | None, bytes]


def parse(pieces: list[bytes], *, head_only: bool = False) -> Outcome:
    parser = ResponseParser("origin", max_header_bytes=65536)
    parser.begin(head_only=head_only)
    body = b""
    for piece in pieces:
        body += parser.feed(piece)
        if parser.error is not None:
            break
    kind = None if parser.error is None else type(parser.error)
    return parser.status, parser.reason, list(parser.headers), parser.complete, parser.keep_alive, kind, body


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % len(data) for place in places)})
    return [data[start:end] for start, end in itertools.pairwise(edges)]


@given(
    data=st.sampled_from(
        [*FRAMED, UNTIL_CLOSE, OLD, LENGTH + LENGTH, CHUNKED + b"x", LENGTH[:-3], b"<html>hello</html>"]
    ),
    places=st.lists(st.integers(0, 10_000), max_size=20),
    head_only=st.booleans(),
)
def test_any_split_of_an_answer_is_the_same_answer(data: bytes, places: list[int], head_only: bool) -> None:  # noqa: FBT001
    assert parse(cut(data, places), head_only=head_only) == parse([data], head_only=head_only)


@given(
    pieces=st.lists(
        st.one_of(st.binary(max_size=40), st.sampled_from([*FRAMED, b"HTTP/1.1 200 OK\r\n", b"\r\n", b"0\r\n"]))
    )
)
def test_no_bytes_at_all_make_the_parser_raise(pieces: list[bytes]) -> None:
    parse(pieces)
