"""One request on a connection and its reply, as ASGI has them: a body in, a head and pieces out.

Knows how a reply is framed, and that its head goes out with the first of its body: that saves a system call and a
wake-up of the client, most of what a small reply costs. What is sent is written at once unless the client is slow; a
whole reply at the end of the loop's round, with those of others.
"""

from __future__ import annotations

import asyncio
import http
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol

from aish.frontends.asgi import App, Scope

_NO_BODY = (204, 304)
_STATUS_LINES = {status.value: b"HTTP/1.1 %d %b" % (status, status.phrase.encode()) for status in http.HTTPStatus}
_CLOSE = (b"connection", b"close")
_CHUNKED = (b"transfer-encoding", b"chunked")
_as_line = b": ".join

log = logging.getLogger(__name__)


class Line(Protocol):
    """What a connection does for the request that is being answered on it."""

    @property
    def done(self) -> Awaitable[None]:
        """Nothing has to be waited for."""

    @property
    def is_full(self) -> bool:
        """More is waiting to be sent than is kept."""

    async def drain(self) -> None: ...

    def write(self, data: bytes) -> None: ...

    def write_together(self, data: bytes) -> None:
        """With what others write in this round of the loop, at its end."""

    def write_soon(self, served: Served) -> None:
        """Has it flushed at the end of this round of the loop."""

    def read_on(self) -> None:
        """There is room for more of the body."""

    def answered(self, served: Served) -> None:
        """It is over. The line is closed unless `keep_alive`."""

    def ended(self, served: Served) -> None:
        """And so is whatever was done for it."""

    def close(self) -> None: ...


class Served:
    """In the scope of its request as `CONNECTION`: `on_gone` is called once when the client has gone."""

    __slots__ = (
        "_body", "_chunked", "_head", "_is_head", "_left", "_line", "_news", "_waiter", "complete", "expects",
        "is_gone", "keep_alive", "more_body", "on_gone", "scope", "started", "task",
    )  # fmt: skip

    def __init__(self, line: Line, scope: Scope) -> None:
        self._line = line
        self.task: asyncio.Task[None] | None = None
        self.scope = scope
        self.keep_alive = True
        self.expects = False  # to be told to go on before it sends its body
        self.more_body = True
        self.started = self.complete = self.is_gone = False
        self.on_gone: Callable[[], None] | None = None
        self._body: bytes | bytearray = b""
        self._news = False  # more of the body, or its end
        self._waiter: asyncio.Future[None] | None = None
        self._head = b""
        self._is_head = scope["method"] == "HEAD"
        self._chunked = False
        self._left: int | None = 0  # of the body that the head has announced; None: as much as comes until the end

    async def run(self, app: App) -> None:
        status = 500
        try:
            try:
                await app(self.scope, self.receive, self.send)
            except asyncio.CancelledError:  # the server ends, and does not wait any longer
                status = 503
            except Exception as exc:
                log.error("a request failed by a defect of aish", exc_info=exc)
            if not self.complete and not self.is_gone:
                self._give_up(status)
        finally:
            self.scope, self.on_gone = {}, None  # which both lead back here: memory does not wait for the collector
            self._line.ended(self)

    def _give_up(self, status: int) -> None:
        """What was begun cannot be ended well."""
        self.keep_alive = False
        if self.started:
            self.flush()
            self._line.close()
            return
        said = http.HTTPStatus(status).phrase.encode()
        self._start(status, ((b"content-type", b"text/plain"), (b"content-length", b"%d" % len(said))))
        self._piece(said, more=False)

    def take_body(self) -> bytes:
        """What there is of it."""
        body, self._body, self._news = self._body, b"", False
        return bytes(body)

    def add_body(self, data: bytes) -> int:
        """How much of it waits to be taken."""
        if not self._body:
            self._body = data
        elif isinstance(self._body, bytearray):
            self._body += data
        else:  # a body may come in chunks of one byte, thousands at once
            self._body = bytearray(self._body + data)
        self._news = True
        if self._waiter is not None:
            self._wake()
        return len(self._body)

    def end_body(self) -> None:
        self.more_body, self._news = False, True
        if self._waiter is not None:
            self._wake()

    def leave(self) -> None:
        """The client has gone."""
        if not self.complete and not self.is_gone:
            self.is_gone = True
            if self._waiter is not None:
                self._wake()
            if self.on_gone is not None:
                self.on_gone()

    async def receive(self) -> dict[str, Any]:
        if self.expects and not self.started and not self.is_gone:
            self.expects = False
            self._line.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        while not (self._news or self.is_gone or self.complete):
            self._line.read_on()
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if self.is_gone or self.complete:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": self.take_body(), "more_body": self.more_body}

    def send(self, message: Any) -> Awaitable[None]:
        match message["type"]:
            case "http.response.start":
                return self.send_head(message["status"], map(tuple, message["headers"]))
            case "http.response.body":
                return self.send_piece(message["body"], last=not message.get("more_body", False))
            case _:
                raise RuntimeError("a reply is one head and its body")

    def send_head(
        self, status: int, headers: Iterable[tuple[bytes, bytes]], *, at_once: bool = False
    ) -> Awaitable[None]:
        line = self._line
        if self.is_gone:
            return line.done
        if line.is_full:
            return self._later(lambda: self.send_head(status, headers, at_once=at_once))
        if self.started:
            raise RuntimeError("a reply is one head and its body")
        self._start(status, headers)
        if not at_once:
            line.write_soon(self)
        return line.done

    def send_piece(self, data: bytes, *, last: bool = False) -> Awaitable[None]:
        """Not a coroutine: every piece of every answer comes through here."""
        line = self._line
        if self.is_gone:
            return line.done
        if line.is_full:
            return self._later(lambda: self.send_piece(data, last=last))
        if not self.started or self.complete:
            raise RuntimeError("a reply is one head and its body")
        if self._chunked and data and not last and not self._head:  # nearly all of a stream
            line.write(b"%x\r\n%b\r\n" % (len(data), data))
        else:
            self._piece(data, more=not last)
        return line.done

    def send_whole(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> Awaitable[None]:
        line = self._line
        if self.is_gone:
            return line.done
        if line.is_full:
            return self._later(lambda: self.send_whole(status, headers, body))
        if self.started:
            raise RuntimeError("a reply is one head and its body")
        self._start(status, headers)
        self._piece(body, more=False, write=line.write_together)
        return line.done

    def is_open(self) -> bool:
        return self.started and not (self._line.is_full or self._head or self.complete or self.is_gone)

    def send_now(self, data: bytes) -> None:
        if self._chunked:
            self._line.write(b"%x\r\n%b\r\n" % (len(data), data))
        else:
            self._piece(data, more=True)

    async def _later(self, send: Callable[[], Awaitable[None]]) -> None:
        """When the client has taken some of what waits."""
        await self._line.drain()
        await send()

    def _start(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        pairs = [*headers]
        names = dict(pairs)
        if self.expects and self.more_body:  # it may leave the body out now, or send it: what follows cannot be told
            self.keep_alive = False
        if b"connection" in names and _CLOSE in pairs:
            self.keep_alive = False
            pairs = [pair for pair in pairs if pair != _CLOSE]
        framed = self._is_head or status in _NO_BODY
        if (length := names.get(b"content-length")) is not None:
            self._left, framed = int(length), True
        if not framed and self.scope["http_version"] == "1.0":  # it knows of no chunks
            self._left = None
        elif not framed:
            pairs.append(_CHUNKED)
        if not self.keep_alive:
            pairs.append(_CLOSE)
        head = b"\r\n".join([_STATUS_LINES.get(status) or b"HTTP/1.1 %d " % status, *map(_as_line, pairs)])
        ends = len(pairs)
        if head.count(b"\n") != ends or head.count(b"\r") != ends or b"\0" in head:
            raise RuntimeError("a header holds the end of a line")
        self.started, self.expects = True, False
        self._chunked = not framed and self._left is not None
        self._head = head + b"\r\n\r\n"

    def flush(self) -> None:
        """The head does not wait any longer."""
        head, self._head = self._head, b""
        if head and not self.is_gone:
            self._line.write(head)

    def _piece(self, body: bytes, *, more: bool, write: Callable[[bytes], None] | None = None) -> None:
        head, self._head = self._head, b""
        if self._chunked:
            if body:
                head = b"%b%x\r\n%b\r\n" % (head, len(body), body)
            if not more:
                head += b"0\r\n\r\n"
        elif self._is_head:
            self._left = 0
        else:
            if self._left is not None:
                self._left -= len(body)
                if self._left < 0 or (self._left and not more):
                    self._head = head
                    raise RuntimeError("the body is not as long as its head says")
            head += body
        if head:
            (write or self._line.write)(head)
        if not more:
            self.complete = True
            if self._waiter is not None:
                self._wake()
            self._line.answered(self)

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
