"""uvicorn's connection, with some things changed.

A request has a bounded time to say what it wants: or a client that sends a header now and then holds a connection for
ever. One that does not read what it is sent is dropped, for the same reason. The head of a reply goes out together with
the first of its body, which saves a system call and a wake-up of the client, most of what a small reply costs. Whoever
answers is told at once when the client goes away. And the application is told when connections are to end: a worker has
no other way to learn it, and a stream without an end would hold it up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from aish.faces.asgi import CONNECTION, Scope
from aish.wire.reads import read_little
from aish.wire.sweep import sweep_of

# For a whole head to arrive. A slow phone takes a second.
HEAD_S = 20.0
# Requests that wait for the one before them, and are still read: only who reads learns that the client has gone.
_MOST_WAITING = 16
# For a client to read what it was sent, where the application does not say.
_SEND_S = 30.0


class Connection(HttpToolsProtocol):
    """In the scope of its requests as `CONNECTION`: `on_gone` is called when the client has gone."""

    on_gone: Callable[[], None] | None = None
    is_gone = False
    _head_due_s: float | None = None
    _full_since_s: float | None = None  # more is waiting to be sent than is kept
    _answered: RequestResponseCycle | None = None  # `cycle` is the newest, which may have to wait for this one

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        read_little(transport)
        super().connection_made(transport)
        self.transport = cast(asyncio.Transport, _HeadWithBody(transport, self.loop))
        self._time = self.loop.time
        self._sweep = sweep_of(self.loop)
        self._idle = _Idle()
        self.loop = cast(asyncio.AbstractEventLoop, _Loop(self.loop, self._idle))
        self._head_due_s = self._time() + HEAD_S
        self._sweep.add(self)

    @property
    def has_whole_body(self) -> bool:
        return self._answered is not None and not self._answered.more_body

    def data_received(self, data: bytes) -> None:
        if self._head_due_s is None and (self.cycle is None or self.cycle.response_complete):
            self._head_due_s = self._time() + HEAD_S
        super().data_received(data)

    def on_headers_complete(self) -> None:
        self._head_due_s = None
        cast(Scope, self.scope)[CONNECTION] = self
        super().on_headers_complete()
        if 0 < len(self.pipeline) <= _MOST_WAITING:
            self.flow.resume_reading()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answered = cycle
        super()._start_asgi_task(cycle, app)

    def connection_lost(self, exc: Exception | None) -> None:
        self._sweep.discard(self)
        self.is_gone = True
        super().connection_lost(exc)
        if self._answered is not None and not self._answered.response_complete:
            self._answered.disconnected = True  # uvicorn tells the newest alone
            self._answered.message_event.set()
        if self.on_gone is not None:
            self.on_gone()

    def pause_writing(self) -> None:
        self._full_since_s = self._time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._full_since_s = None
        super().resume_writing()

    def shutdown(self) -> None:
        if (drain := getattr(self.app, "drain", None)) is not None:
            drain()
        super().shutdown()

    def look(self, now_s: float) -> None:
        if self._head_due_s is not None and now_s >= self._head_due_s:
            self._head_due_s = None
            self.transport.write(b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            self.transport.close()
        if self._full_since_s is not None and now_s - self._full_since_s >= getattr(
            self.app, "send_timeout_s", _SEND_S
        ):
            self.transport.abort()
        self._idle.look(now_s)


class _Idle:
    """The timer of a connection that is kept open between requests: set and taken back with each of them."""

    def __init__(self) -> None:
        self._due_s: float | None = None
        self._close: Callable[[], None] | None = None

    def set(self, due_s: float, close: Callable[[], None]) -> _Idle:
        self._due_s, self._close = due_s, close
        return self

    def cancel(self) -> None:
        self._due_s = None

    def look(self, now_s: float) -> None:
        if self._due_s is not None and self._close is not None and now_s >= self._due_s:
            self._due_s = None
            self._close()


class _Loop:
    """What uvicorn's connection asks of its loop: tasks, and the one timer."""

    def __init__(self, loop: asyncio.AbstractEventLoop, idle: _Idle) -> None:
        self._loop = loop
        self._idle = idle

    def create_task(self, work: Coroutine[Any, Any, None], **options: Any) -> asyncio.Task[None]:
        return self._loop.create_task(work, **options)

    def call_later(self, seconds: float, close: Callable[[], None]) -> _Idle:
        return self._idle.set(self._loop.time() + seconds, close)


class _HeadWithBody:
    """A transport that keeps the head of a reply back for the rest of this round of the loop."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._call_soon = loop.call_soon
        self._head = b""

    def write(self, data: bytes) -> None:
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(b"HTTP/1.1 "):
            self._head = data
            self._call_soon(self._flush)
            return
        self._transport.write(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def _flush(self) -> None:
        head, self._head = self._head, b""
        if head:
            self._transport.write(head)

    def abort(self) -> None:
        self._transport.abort()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._transport.set_protocol(protocol)
