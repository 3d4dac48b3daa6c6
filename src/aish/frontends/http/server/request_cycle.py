"""One request on a connection and its reply, as ASGI has them: a body in, a head and pieces of a body out.

The head of a reply goes out together with the first piece of its body. That saves a system call and a wake-up of the
client, which is most of what a small reply costs. Pieces are written at once unless the client is slow; a complete
reply is written at the end of the event loop's round, together with others.
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
_join_header = b": ".join

log = logging.getLogger(__name__)


class CycleConnection(Protocol):
    """What the connection does for the request being answered."""

    @property
    def done(self) -> Awaitable[None]:
        """Completed: returned where there is nothing to wait for."""

    @property
    def is_full(self) -> bool:
        """Whether the client is slow and the write buffer is full."""

    async def drain(self) -> None: ...

    def write(self, data: bytes) -> None: ...

    def write_batched(self, data: bytes) -> None:
        """Writes at the end of this round of the event loop, together with other replies."""

    def flush_soon(self, cycle: RequestCycle) -> None:
        """Calls `cycle.flush` at the end of this round of the event loop."""

    def continue_reading(self) -> None:
        """There is room for more of the body."""

    def reply_finished(self, cycle: RequestCycle) -> None:
        """The reply is complete. Closes the connection unless `keep_alive`."""

    def task_ended(self, cycle: RequestCycle) -> None:
        """The task of the request has ended."""

    def close(self) -> None: ...


class RequestCycle:
    """A request and its reply. The scope has it as `CONNECTION`; `on_gone` is called once when the client has gone."""

    __slots__ = (
        "_body", "_body_left", "_chunked", "_connection", "_has_news", "_head", "_is_head", "_waiter", "complete",
        "expects_continue", "is_gone", "keep_alive", "more_body", "on_gone", "scope", "started", "task",
    )  # fmt: skip

    def __init__(self, connection: CycleConnection, scope: Scope) -> None:
        self._connection = connection
        self.task: asyncio.Task[None] | None = None
        self.scope = scope
        self.keep_alive = True
        self.expects_continue = False  # the client waits for "100 Continue" before it sends its body
        self.more_body = True
        self.started = self.complete = self.is_gone = False
        self.on_gone: Callable[[], None] | None = None
        self._body: bytes | bytearray = b""
        self._has_news = False  # more of the body has come, or its end
        self._waiter: asyncio.Future[None] | None = None
        self._head = b""
        self._is_head = scope["method"] == "HEAD"
        self._chunked = False
        self._body_left: int | None = 0  # of the announced body; None: no length was announced

    async def run(self, app: App) -> None:
        status = 500
        try:
            try:
                await app(self.scope, self.receive, self.send)
            except asyncio.CancelledError:  # the server stops and does not wait any longer
                status = 503
            except Exception as exc:
                log.error("a request failed by a defect of aish", exc_info=exc)
            if not self.complete and not self.is_gone:
                self._abort_reply(status)
        finally:
            self.scope, self.on_gone = {}, None  # breaks reference cycles, so the memory is freed at once
            self._connection.task_ended(self)

    def _abort_reply(self, status: int) -> None:
        """Ends a reply that the application did not finish."""
        self.keep_alive = False
        if self.started:
            self.flush()
            self._connection.close()
            return
        phrase = http.HTTPStatus(status).phrase.encode()
        self._prepare_head(status, ((b"content-type", b"text/plain"), (b"content-length", b"%d" % len(phrase))))
        self._write_piece(phrase, more=False)

    def take_body(self) -> bytes:
        """The part of the body that has arrived since the last call."""
        body, self._body, self._has_news = self._body, b"", False
        return bytes(body)

    def add_body(self, data: bytes) -> int:
        """Returns how many bytes wait to be taken."""
        if not self._body:
            self._body = data
        elif isinstance(self._body, bytearray):
            self._body += data
        else:  # a body may come in chunks of one byte, thousands at once
            self._body = bytearray(self._body + data)
        self._has_news = True
        if self._waiter is not None:
            self._wake()
        return len(self._body)

    def end_body(self) -> None:
        self.more_body, self._has_news = False, True
        if self._waiter is not None:
            self._wake()

    def client_left(self) -> None:
        """The client has gone."""
        if not self.complete and not self.is_gone:
            self.is_gone = True
            if self._waiter is not None:
                self._wake()
            if self.on_gone is not None:
                self.on_gone()

    async def receive(self) -> dict[str, Any]:
        if self.expects_continue and not self.started and not self.is_gone:
            self.expects_continue = False
            self._connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        while not (self._has_news or self.is_gone or self.complete):
            self._connection.continue_reading()
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
        connection = self._connection
        if self.is_gone:
            return connection.done
        if connection.is_full:
            return self._send_when_writable(lambda: self.send_head(status, headers, at_once=at_once))
        if self.started:
            raise RuntimeError("a reply is one head and its body")
        self._prepare_head(status, headers)
        if not at_once:
            connection.flush_soon(self)
        return connection.done

    def send_piece(self, data: bytes, *, last: bool = False) -> Awaitable[None]:
        """Not a coroutine, because every piece of every reply comes through here."""
        connection = self._connection
        if self.is_gone:
            return connection.done
        if connection.is_full:
            return self._send_when_writable(lambda: self.send_piece(data, last=last))
        if not self.started or self.complete:
            raise RuntimeError("a reply is one head and its body")
        if self._chunked and data and not last and not self._head:  # nearly all of a stream
            connection.write(b"%x\r\n%b\r\n" % (len(data), data))
        else:
            self._write_piece(data, more=not last)
        return connection.done

    def send_whole(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> Awaitable[None]:
        connection = self._connection
        if self.is_gone:
            return connection.done
        if connection.is_full:
            return self._send_when_writable(lambda: self.send_whole(status, headers, body))
        if self.started:
            raise RuntimeError("a reply is one head and its body")
        self._prepare_head(status, headers)
        self._write_piece(body, more=False, write=connection.write_batched)
        return connection.done

    def is_open(self) -> bool:
        return self.started and not (self._connection.is_full or self._head or self.complete or self.is_gone)

    def send_now(self, data: bytes) -> None:
        if self._chunked:
            self._connection.write(b"%x\r\n%b\r\n" % (len(data), data))
        else:
            self._write_piece(data, more=True)

    async def _send_when_writable(self, send: Callable[[], Awaitable[None]]) -> None:
        """Sends after the client has read some of what waits."""
        await self._connection.drain()
        await send()

    def _prepare_head(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        pairs = [*headers]
        names = dict(pairs)
        if self.expects_continue and self.more_body:  # it may send its body or leave it out: what follows is unclear
            self.keep_alive = False
        if b"connection" in names and _CLOSE in pairs:
            self.keep_alive = False
            pairs = [pair for pair in pairs if pair != _CLOSE]
        framed = self._is_head or status in _NO_BODY
        if (length := names.get(b"content-length")) is not None:
            self._body_left, framed = int(length), True
        if not framed and self.scope["http_version"] == "1.0":  # HTTP/1.0 has no chunks
            self._body_left = None
        elif not framed:
            pairs.append(_CHUNKED)
        if not self.keep_alive:
            pairs.append(_CLOSE)
        head = b"\r\n".join([_STATUS_LINES.get(status) or b"HTTP/1.1 %d " % status, *map(_join_header, pairs)])
        ends = len(pairs)
        if head.count(b"\n") != ends or head.count(b"\r") != ends or b"\0" in head:
            raise RuntimeError("a header holds the end of a connection")
        self.started, self.expects_continue = True, False
        self._chunked = not framed and self._body_left is not None
        self._head = head + b"\r\n\r\n"

    def flush(self) -> None:
        """Writes a head that waits for its body."""
        head, self._head = self._head, b""
        if head and not self.is_gone:
            self._connection.write(head)

    def _write_piece(self, body: bytes, *, more: bool, write: Callable[[bytes], None] | None = None) -> None:
        head, self._head = self._head, b""
        if self._chunked:
            if body:
                head = b"%b%x\r\n%b\r\n" % (head, len(body), body)
            if not more:
                head += b"0\r\n\r\n"
        elif self._is_head:
            self._body_left = 0
        else:
            if self._body_left is not None:
                self._body_left -= len(body)
                if self._body_left < 0 or (self._body_left and not more):
                    self._head = head
                    raise RuntimeError("the body is not as long as its head says")
            head += body
        if head:
            (write or self._connection.write)(head)
        if not more:
            self.complete = True
            if self._waiter is not None:
                self._wake()
            self._connection.reply_finished(self)

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
