"""An OpenAI-compatible model server for tests: it says what a test wrote down, and keeps what it was asked.

    with recording_upstream() as upstream:
        upstream.reply(call("everything__echo", {"message": "hi"}), when=offers("everything__echo"))
        upstream.reply(text("Done", "."))
        ... a client or a gateway talks to upstream.url ...
        assert [seen.body["model"] for seen in upstream.requests] == ["m", "m"]

Each request takes the oldest reply that fits it; replies are used once unless `times` says more. A request that nothing
fits is answered in a few words and noted in `unscripted`, so that no client retries for ever; leaving the context with
such a request is an error. One reply is told to chat completions and to responses alike, streamed or whole.

Time is in the hands of the test: `Hold(gate)` stops the stream until `gate.open()`; `gate.reached()` waits until it has
stopped there. It lives in a thread with a loop of its own, so that tests may be plain functions.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import struct
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from support.recorded_replies import (
    Call,
    ChatShape,
    Cut,
    Hold,
    Part,
    Reply,
    ResponsesShape,
    Shape,
    Text,
    Thought,
    error_body,
    whole_chat,
    whole_response,
)
from support.recorded_replies import (
    Gate as Gate,
)

VECTOR = (0.5, -1.25, 3.0)  # exact in 32 bits

Json = dict[str, Any]


_numbers = itertools.count(1)


def text(*pieces: str, usage: tuple[int, int] = (12, 5), finish: str = "") -> Reply:
    return Reply(tuple(map(Text, pieces)), usage=usage, finish=finish)


def call(name: str, arguments: Json | str, *, before: str = "", id: str = "", fragments: int = 3) -> Reply:
    return calls((name, arguments), before=before, ids=(id,) if id else (), fragments=fragments)


def calls(*made: tuple[str, Json | str], before: str = "", ids: tuple[str, ...] = (), fragments: int = 3) -> Reply:
    """Several calls of one step."""
    parts: list[Part] = [Text(before)] if before else []
    for at, (name, arguments) in enumerate(made):
        written = arguments if isinstance(arguments, str) else json.dumps(arguments)
        parts.append(Call(name, written, ids[at] if at < len(ids) else f"call_{next(_numbers)}", fragments))
    return Reply(tuple(parts))


def failure(status: int, message: str, *, code: str | None = None, kind: str = "") -> Reply:
    """With the usual type for its status: opencode retries whatever says `server_error`, a 402 too."""
    usual = "server_error" if status >= 500 else "invalid_request_error"
    return Reply(status=status, message=message, code=code, kind=kind or usual)


# What was asked.


@dataclass
class Seen:
    number: int
    method: str
    path: str
    headers: dict[str, str]  # names in lower case
    raw: bytes
    left_early: bool = False  # the client went before the end

    @property
    def body(self) -> Json:
        return json.loads(self.raw) if self.raw else {}

    @property
    def messages(self) -> list[Json]:
        return self.body.get("messages") or self.body.get("input") or []

    @property
    def offered(self) -> list[str]:
        tools = self.body.get("tools") or []
        return [tool.get("function", tool).get("name", "") for tool in tools]


Matcher = Callable[[Seen], bool]


def anything(seen: Seen) -> bool:
    return True


def offers(name: str) -> Matcher:
    return lambda seen: name in seen.offered


def offers_nothing(seen: Seen) -> bool:
    """Opencode's request for a title, which comes at the same time as the real one."""
    return not seen.offered


def ends_with_role(role: str) -> Matcher:
    return lambda seen: bool(seen.messages) and seen.messages[-1].get("role") == role


@dataclass
class _Scripted:
    reply: Reply
    when: Matcher
    times: float


@dataclass
class RecordingUpstream:
    url: str = ""  # with /v1
    models: tuple[str, ...] = ("some-model",)
    seen: list[Seen] = field(default_factory=list)
    unscripted: list[Seen] = field(default_factory=list)
    gone: threading.Event = field(default_factory=threading.Event)  # a client left before its end
    _script: list[_Scripted] = field(default_factory=list)

    def reply(self, *replies: Reply, when: Matcher = anything, times: float = 1) -> None:
        self._script += [_Scripted(reply, when, times) for reply in replies]

    def always(self, reply: Reply, when: Matcher = anything) -> None:
        self.reply(reply, when=when, times=float("inf"))

    @property
    def requests(self) -> list[Seen]:
        """Of models, in the order they came."""
        return [seen for seen in self.seen if seen.path.endswith(("/chat/completions", "/responses"))]

    @property
    def with_tools(self) -> list[Seen]:
        return [seen for seen in self.requests if seen.offered]

    def next_reply(self, seen: Seen) -> Reply:
        for scripted in self._script:
            if scripted.when(seen):
                scripted.times -= 1
                if scripted.times <= 0:
                    self._script.remove(scripted)
                return scripted.reply
        self.unscripted.append(seen)
        return text("(nothing was scripted for this)")


@contextmanager
def recording_upstream(*, models: tuple[str, ...] = ("some-model",)) -> Iterator[RecordingUpstream]:
    upstream = RecordingUpstream(models=models)
    loop = asyncio.new_event_loop()
    ready = threading.Event()
    stop = asyncio.Event()

    def live() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(_serve(upstream, ready, stop))
        loop.close()

    thread = threading.Thread(target=live, name="recording-upstream", daemon=True)
    thread.start()
    try:
        assert ready.wait(10), "the upstream did not start"
        yield upstream
        told = [(seen.path, seen.messages[-1:]) for seen in upstream.unscripted]
        assert told == [], f"requests that nothing was scripted for: {told}"
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        assert not thread.is_alive()


async def _serve(upstream: RecordingUpstream, ready: threading.Event, stop: asyncio.Event) -> None:
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(_Connection(upstream, reader, writer).live())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0, limit=1 << 20)
    upstream.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    ready.set()
    await stop.wait()
    server.close()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class _Left(Exception):
    """The client went."""


@dataclass
class _Connection:
    upstream: RecordingUpstream
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def live(self) -> None:
        try:
            while True:
                seen = await self.request()
                self.upstream.seen.append(seen)
                await self.answer(seen)
        except (_Left, ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.writer.transport.abort()

    async def request(self) -> Seen:
        head = await self.reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
        method, path, _ = first.split(" ", 2)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if "100-continue" in headers.get("expect", ""):
            self.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        return Seen(len(self.upstream.seen) + 1, method, path.partition("?")[0], headers, body)

    async def answer(self, seen: Seen) -> None:
        if seen.path.endswith("/embeddings"):
            await self.whole(200, _embeddings(seen.body))
        elif seen.path.endswith("/models"):
            cards = [{"id": name, "object": "model", "created": 1, "owned_by": "test"} for name in self.upstream.models]
            await self.whole(200, {"object": "list", "data": cards})
        elif seen.path.endswith("/chat/completions"):
            await self.told(seen, ChatShape(seen.body), whole_chat)
        elif seen.path.endswith("/responses"):
            await self.told(seen, ResponsesShape(seen.body), whole_response)
        else:
            await self.whole(404, error_body("no such path", "invalid_request_error", None))

    async def told(self, seen: Seen, shape: Shape, as_whole: Callable[[Json, Reply], Json]) -> None:
        reply = self.upstream.next_reply(seen)
        if reply.status != 200:
            return await self.whole(reply.status, error_body(reply.message, reply.kind, reply.code))
        if not seen.body.get("stream"):
            for part in reply.parts:
                if isinstance(part, Hold):
                    await self.unless_left(seen, part.gate.passed())
                elif isinstance(part, Cut):
                    raise _Left
            return await self.whole(200, as_whole(seen.body, reply))
        return await self.streamed(seen, shape, reply)

    async def streamed(self, seen: Seen, shape: Shape, reply: Reply) -> None:
        if reply.parts and isinstance(reply.parts[0], Cut):
            raise _Left
        self.writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        async for event in self.events(seen, shape, reply):
            piece = event.encode()
            self.writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await self.writer.drain()
            await asyncio.sleep(0)
            if self.reader.at_eof() or self.writer.is_closing():
                self.left(seen)
        self.writer.write(b"0\r\n\r\n")

    async def events(self, seen: Seen, shape: Shape, reply: Reply) -> AsyncIterator[str]:
        for event in shape.opening():
            yield event
        for part in reply.parts:
            match part:
                case Hold(gate):
                    await self.unless_left(seen, gate.passed())
                case Cut():
                    raise _Left
                case Text(said):
                    for event in shape.text(said):
                        yield event
                case Thought(said):
                    for event in shape.thought(said):
                        yield event
                case Call():
                    for event in shape.call(part.name, part.id, part.pieces()):
                        yield event
        for event in shape.closing(reply.reason, reply.usage):
            yield event

    async def unless_left(self, seen: Seen, waiting: Any) -> None:
        """Waits, and notices a client that goes meanwhile."""
        waiter = asyncio.ensure_future(waiting)
        gone = asyncio.ensure_future(self.reader.read(1))
        await asyncio.wait({waiter, gone}, return_when=asyncio.FIRST_COMPLETED)
        if gone.done():
            waiter.cancel()
            self.left(seen)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        await waiter

    def left(self, seen: Seen) -> None:
        seen.left_early = True
        self.upstream.gone.set()
        raise _Left

    async def whole(self, status: int, value: Json) -> None:
        body = json.dumps(value).encode()
        head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        self.writer.write(head.encode() + body)
        await self.writer.drain()


def _embeddings(body: Json) -> Json:
    texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
    vectors = [(float(len(one)), *VECTOR) for one in texts]
    if body.get("encoding_format") == "base64":
        coded: list[Any] = [base64.b64encode(struct.pack(f"<{len(v)}f", *v)).decode() for v in vectors]
    else:
        coded = [list(vector) for vector in vectors]
    rows = [{"object": "embedding", "index": at, "embedding": one} for at, one in enumerate(coded)]
    usage = {"prompt_tokens": 3, "total_tokens": 3}
    return {"object": "list", "data": rows, "model": body["model"], "usage": usage}
