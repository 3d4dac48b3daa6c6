"""One HTTP request and its reply over ASGI: a bounded body in; JSON, or a stream once there is news, out."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import suppress
from typing import Any

from aish.errors import ConnectionLost
from aish.faces.mcp.headers import Headers

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Pairs = Iterable[tuple[bytes, bytes]]

_BODY_S = 30.0  # for a body to arrive whole; a few megabytes on a slow line
_PING_S = 15.0  # proxies drop a stream that is silent for a minute or so
_END_S = 15.0  # more than the engine gives a tool that is cancelled
_MAX_NOTES = 256  # for a client that does not read; more are dropped
_JSON = (b"content-type", b"application/json")
_STREAM_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


class HttpRefusal(Exception):
    """Answered with this status before it was even read."""

    def __init__(self, status: int, why: str, headers: Pairs = ()) -> None:
        super().__init__(why)
        self.status = status
        self.headers = tuple(headers)


class Exchange:
    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        self.headers = Headers(scope["headers"])
        self._receive = receive
        self._send = send

    @property
    def takes_stream(self) -> bool:
        accept = self.headers.get("accept") or ""
        return "text/event-stream" in accept.lower() or "*/*" in accept

    async def body(self, max_bytes: int) -> bytes:
        """HttpRefusal if it is too large or too slow, ConnectionLost if it never ends."""
        announced = self.headers.get("content-length") or "0"
        if announced.isdigit() and (len(announced) > 18 or int(announced) > max_bytes):
            raise HttpRefusal(413, f"a message may have {max_bytes} bytes")
        try:
            async with asyncio.timeout(_BODY_S):
                return await self._whole_body(max_bytes)
        except TimeoutError:
            raise HttpRefusal(408, "the body did not arrive in time") from None

    async def _whole_body(self, max_bytes: int) -> bytes:
        pieces: list[bytes] = []
        size = 0
        while True:
            event = await self._receive()
            if event["type"] != "http.request":
                raise ConnectionLost("the client went away")
            pieces.append(event.get("body", b""))
            size += len(pieces[-1])
            if size > max_bytes:
                raise HttpRefusal(413, f"a message may have {max_bytes} bytes")
            if not event.get("more_body"):
                return b"".join(pieces)

    async def gone(self) -> None:
        """Returns when the client has closed the connection. Only after the body was read."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def reply(self, status: int, body: bytes = b"", headers: Pairs = ()) -> None:
        described = [(b"content-length", b"%d" % len(body)), *([_JSON] if body else []), *headers]
        await self._send({"type": "http.response.start", "status": status, "headers": described})
        await self._send({"type": "http.response.body", "body": body})

    async def start_stream(self, headers: Pairs = ()) -> None:
        await self._send({"type": "http.response.start", "status": 200, "headers": [*_STREAM_HEADERS, *headers]})

    async def send_piece(self, data: bytes, *, last: bool = False) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": not last})


class Relay:
    """Waits for an answer while its client is there. Notes on the way turn the reply into a stream."""

    def __init__(self, exchange: Exchange, *, ping_s: float = _PING_S) -> None:
        self._exchange = exchange
        self._ping_s = ping_s
        self._notes: deque[bytes] = deque()
        self._news = asyncio.Event()
        self.streaming = False

    def note(self, message: bytes) -> None:
        if self._exchange.takes_stream and len(self._notes) < _MAX_NOTES:
            self._notes.append(message)
            self._news.set()

    async def run(self, work: asyncio.Future[Any]) -> bool:
        """Until `work` is done. False: the client has gone, and `work` with it."""
        gone = asyncio.ensure_future(self._exchange.gone())
        for future in (work, gone):
            future.add_done_callback(lambda _: self._news.set())
        try:
            while not gone.done():
                finished = work.done()
                await self._pass_on()
                if finished:
                    return True
                await self._wait()
            return False
        finally:
            for future in (work, gone):
                future.cancel()
            await asyncio.wait({work, gone}, timeout=_END_S)

    async def finish(self, message: bytes) -> None:
        """The last event of a stream; empty for none."""
        await self._exchange.send_piece(_event(message) if message else b"", last=True)

    async def _pass_on(self) -> None:
        self._news.clear()
        while self._notes:
            if not self.streaming:
                self.streaming = True
                await self._exchange.start_stream()
            await self._exchange.send_piece(_event(self._notes.popleft()))

    async def _wait(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._ping_s):
                await self._news.wait()
                return
        if self.streaming:
            await self._exchange.send_piece(b": ping\n\n")


def _event(message: bytes) -> bytes:
    return b"event: message\ndata: " + message + b"\n\n"
