"""What a model says one word at a time goes from its connection to the client's in one breath; nothing else changes."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from aish.frontends.http.openai.chat.encoder import ChatStreamEncoder
from aish.frontends.http.server.reply_stream import ReplyStream
from aish.net.http.client import HttpClient
from aish.providers.endpoint import Endpoint
from aish.providers.openai.provider import OpenAIProvider
from support.engines import Bench
from support.eventually import eventually
from support.garbage import left_to_the_collector
from support.http_face import Face, face
from support.http_listening import client, listening
from support.raw_server import Peer, raw_server

MESSAGES = [{"role": "user", "content": "tell me"}]
APIS = {
    "/v1/chat/completions": {"messages": MESSAGES},
    "/v1/responses": {"input": "tell me"},
    "/v1/messages": {"messages": MESSAGES, "max_tokens": 500},
}
EACH_API = pytest.mark.parametrize("path", APIS)
WORDS = ["Once ", "upon ", "a \n", "time \u2026 ", "there ", "was ", "one."]
HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
LEARNED = 2  # of the first words it is learned how the upstream writes them
LAST = b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'


def event(word: str) -> bytes:
    return b'data: {"choices": [{"delta": {"content": %b}}]}\n\n' % json.dumps(word).encode()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def begun(peer: Peer) -> bytes:
    """Asked for an answer; whatever else is asked for is not there."""
    while (asked := await peer.request()).method == "GET":
        await peer.send(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
    await peer.send(HEAD)
    return asked.body


class Upstream:
    """Sends each piece when the client has had what came before it, or all at once."""

    def __init__(self, pieces: Sequence[bytes], *, paced: bool = True) -> None:
        self.pieces = pieces
        self.told = asyncio.Semaphore(0)
        self.asked: list[bytes] = []
        self._paced = paced

    async def script(self, peer: Peer) -> None:
        self.asked.append(await begun(peer))
        for piece in self.pieces:
            await peer.send(chunk(piece))
            for _ in range(20):  # or what follows would be read with it
                await asyncio.sleep(0)
            if self._paced:
                async with asyncio.timeout(10):
                    await self.told.acquire()
        await peer.send(chunk(LAST) + b"0\r\n\r\n")


@asynccontextmanager
async def serving(upstream: Upstream, **serve: object) -> AsyncIterator[tuple[int, Face, set[Any]]]:
    async with raw_server(upstream.script) as backend, HttpClient() as http:
        provider = OpenAIProvider("up", Endpoint(url=backend.url, models=("m",)), http)
        async with face(Bench(provider=provider), **serve) as made, listening(made.app) as (port, state):
            yield port, made, state.connections


def request(path: str, **fields: object) -> bytes:
    body = json.dumps({"model": "up:m", "stream": True, **APIS[path], **fields}).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    return head.encode() + body


@pytest.fixture
def straight(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What went the short way."""
    heard: list[str] = []
    write = ReplyStream.write

    def noted(watch: ReplyStream, text: str) -> None:
        write(watch, text)
        heard.append(text)

    monkeypatch.setattr(ReplyStream, "write", noted)
    return heard


async def told(upstream: Upstream, path: str, **fields: object) -> bytes:
    """The whole reply. The upstream goes on when a word has reached the client."""
    async with serving(upstream) as (port, _, _), client(port) as (reader, writer):
        writer.write(request(path, **fields))
        reply = b""
        while data := await reader.read(65536):
            reply += data
            for _ in range(said_in(reply) - said_in(reply[: -len(data)])):
                upstream.told.release()
    return reply


def said_in(reply: bytes) -> int:
    return len(re.findall(rb'"content":"(?!")|"type":"text_delta"|event: response.output_text.delta', reply))


def alike(reply: bytes) -> list[bytes]:
    """Its events, without what is new in every reply: ids, times, and where the chunks of HTTP were cut."""
    body = reply.partition(b"\r\n\r\n")[2]
    joined = b""
    while body:
        size, _, rest = body.partition(b"\r\n")
        joined, body = joined + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
    joined = re.sub(rb'"(id|item_id|created|created_at|completed_at)":("[^"]*"|[0-9.]+)', rb'"\1":0', joined)
    return joined.split(b"\n\n")


@EACH_API
async def test_words_that_come_one_by_one_go_the_short_way_and_read_the_same(path: str, straight: list[str]):
    events = [event(word) for word in WORDS]
    reply = await told(Upstream(events), path)
    assert len(straight) == len(WORDS) - LEARNED
    straight.clear()
    at_once = await told(Upstream([b"".join(events)], paced=False), path)
    assert straight == []
    assert alike(reply) == alike(at_once)


WHOLE = b"".join(event(word) for word in WORDS)
BETWEEN = [WHOLE.index(event(word)) for word in WORDS[1:]]
CUTS = st.lists(st.sampled_from(BETWEEN) | st.integers(1, len(WHOLE) - 1), max_size=8)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(list(APIS)), CUTS)
@example("/v1/chat/completions", BETWEEN)
async def test_however_the_upstream_cuts_its_answer_the_client_reads_the_same(
    straight: list[str], path: str, cuts: list[int]
):
    straight.clear()
    places = sorted({0, *cuts, len(WHOLE)})
    pieces = [WHOLE[start:end] for start, end in pairwise(places)]
    cut, uncut = await told(Upstream(pieces, paced=False), path), await told(Upstream([WHOLE], paced=False), path)
    assert alike(cut) == alike(uncut)
    assert cuts != BETWEEN or straight


async def test_what_belongs_to_an_event_that_has_begun_is_not_taken_for_one(straight: list[str]):
    """An event may have several lines of data, which are one text."""
    pieces = [*(event(word) for word in WORDS), b"data: [\n", event("no event")]
    cut = await told(Upstream(pieces, paced=False), "/v1/chat/completions")
    uncut = await told(Upstream([b"".join(pieces)], paced=False), "/v1/chat/completions")
    assert straight and alike(cut) == alike(uncut)


class Line:
    """An exchange that is open, and what was sent by it."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.started = True
        self.taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def is_open(self) -> bool:
        return True

    def send_piece(self, data: bytes) -> asyncio.Future[None]:
        self.sent.append(data)
        return self.taken

    def send_now(self, data: bytes) -> None:
        self.sent.append(data)


async def test_words_are_a_sign_of_life_and_do_not_overtake_one():
    line: Any = Line()
    encoder = ChatStreamEncoder("id", "m", 1, (), usage=False, trace=False)
    watch = ReplyStream(line, encoder, heartbeat_s=10, encode_word=str.encode)
    now_s = asyncio.get_running_loop().time()
    assert watch.is_open()
    watch.write("word")
    watch.check_deadlines(now_s + 11)
    assert line.sent == [b"word"] and watch.is_open()
    watch.check_deadlines(now_s + 22)
    assert not watch.is_open()
    assert line.sent == [b"word", b": ping\n\n"]
    line.taken.set_result(None)
    assert watch.is_open()


async def test_what_was_said_the_short_way_is_recorded(straight: list[str]):
    upstream = Upstream([event(word) for word in WORDS])
    async with serving(upstream) as (port, made, _), client(port) as (reader, writer):
        for _ in WORDS:
            upstream.told.release()
        writer.write(request("/v1/chat/completions", session_id="mine"))
        reply = await reader.read(-1)
        shown = (await made.ask("GET", "/v1/sessions/mine")).json
        (turn,) = shown["turns"]
        trace = (await made.ask("GET", f"/v1/traces/{turn['id']}")).json
    assert b"[DONE]" in reply
    assert "".join(WORDS) in json.dumps(trace, ensure_ascii=False).replace("\\n", "\n")


async def test_a_response_that_was_said_the_short_way_is_gone_on_from(straight: list[str]):
    upstream = Upstream([event(word) for word in WORDS])
    async with serving(upstream) as (port, made, _), client(port) as (reader, writer):
        writer.write(request("/v1/responses"))
        for word in WORDS:
            await reader.readuntil(json.dumps(word, ensure_ascii=False).encode())
            upstream.told.release()
        reply = await reader.read(-1)
        (response,) = set(re.findall(rb'"id":"(resp_[^"]+)"', reply))
        items = (await made.ask("GET", f"/v1/responses/{response.decode()}")).json["output"]
        for _ in WORDS:
            upstream.told.release()
        more = {"model": "up:m", "input": "and then?", "previous_response_id": response.decode()}
        await made.ask("POST", "/v1/responses", more)
    assert len(straight) == len(WORDS) - LEARNED
    assert items[-1]["content"][0]["text"] == "".join(WORDS)
    assert [message["content"] for message in json.loads(upstream.asked[-1])["messages"]] == [
        "tell me",
        "".join(WORDS),
        "and then?",
    ]


@EACH_API
async def test_what_went_the_short_way_leaves_nothing_to_the_collector(path: str, straight: list[str]):
    upstream = Upstream([event(word) for word in WORDS])
    async with serving(upstream) as (port, _, _):

        async def ask() -> None:
            async with client(port) as (reader, writer):
                writer.write(request(path))
                for word in WORDS:
                    await reader.readuntil(json.dumps(word, ensure_ascii=False).encode())
                    upstream.told.release()
                await reader.read(-1)

        await ask()  # what is made once is made
        with left_to_the_collector() as found:
            await ask()
    assert len(straight) == 2 * (len(WORDS) - LEARNED)
    assert {type(thing).__name__ for thing in found} <= {"ClientConnection", "RequestCycle"}  # as in `test_memory`


async def test_what_follows_the_end_is_heard_by_nobody(straight: list[str]):
    """The rest of an answer is read, so that the connection can be used again; it is not said."""

    async def script(peer: Peer) -> None:
        await begun(peer)
        for word in WORDS:
            await peer.send(chunk(event(word)))
            async with asyncio.timeout(10):
                await upstream.told.acquire()
        for piece in (chunk(LAST), chunk(event("after the end")), b"0\r\n\r\n"):
            await peer.send(piece)
            for _ in range(20):
                await asyncio.sleep(0)

    upstream = Upstream([])
    upstream.script = script  # type: ignore[method-assign]
    reply = await told(upstream, "/v1/chat/completions")
    assert len(straight) == len(WORDS) - LEARNED
    assert b"after the end" not in reply and b"[DONE]" in reply


async def test_a_client_that_does_not_read_is_not_written_to_without_end(straight: list[str]):
    """Who is behind is waited for: the upstream is read no further than it is written on."""
    count = 4000
    upstream = Upstream([event(f"{number} " + "x" * 1000) for number in range(count)], paced=False)
    async with serving(upstream) as (port, _, connections), client(port) as (reader, writer):
        writer.transport.pause_reading()
        writer.write(request("/v1/chat/completions"))
        await eventually(lambda: any(connection.is_full for connection in connections))
        writer.transport.resume_reading()
        reply = await reader.read(-1)
    numbers = [int(found) for found in re.findall(rb'"content":"(\d+) x', reply)]
    assert numbers == list(range(count)) and b"[DONE]" in reply


async def test_a_client_that_leaves_stops_the_upstream(straight: list[str]):
    async def script(peer: Peer) -> None:
        await begun(peer)
        for word in ("one ", "two ", "three "):
            await peer.send(chunk(event(word)))
            async with asyncio.timeout(10):
                await read.acquire()
        await peer.left()
        left.set()

    read, left, upstream = asyncio.Semaphore(0), asyncio.Event(), Upstream([])
    upstream.script = script  # type: ignore[method-assign]
    async with serving(upstream) as (port, _, _):
        async with client(port) as (reader, writer):
            writer.write(request("/v1/chat/completions"))
            for word in (b"one ", b"two ", b"three "):
                await reader.readuntil(word)
                read.release()
        async with asyncio.timeout(10):
            await left.wait()
    assert len(straight) == 1


async def test_silence_after_words_is_filled_and_words_after_that_go_on(
    straight: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("aish.net.event_loop.PERIOD_S", 0.02)
    upstream = Upstream([event(word) for word in WORDS])
    async with serving(upstream, heartbeat_s=0.1) as (port, _, _), client(port) as (reader, writer):
        writer.write(request("/v1/chat/completions"))
        for word in WORDS:
            before = await reader.readuntil(json.dumps(word, ensure_ascii=False).encode())
            before += await reader.readuntil(b": ping\n\n")
            assert said_in(before) == 1
            upstream.told.release()
        assert b"[DONE]" in await reader.read(-1)
    assert len(straight) == len(WORDS) - LEARNED


async def test_who_asks_with_a_key_to_ask_again_is_answered_the_long_way(straight: list[str]):
    """The reply is kept as it is made, and nothing goes past that."""
    upstream = Upstream([event(word) for word in WORDS], paced=False)
    async with serving(upstream) as (port, _, _), client(port) as (reader, writer):
        asked = request("/v1/chat/completions").replace(b"\r\n\r\n", b"\r\nidempotency-key: k\r\n\r\n", 1)
        writer.write(asked)
        assert b"[DONE]" in await reader.read(-1)
    assert straight == []
