"""One request and its answer on a connection: sends, waits, holds what has arrived, hands out the body.

Born when a connection is taken; over when the answer is complete, when the connection fails, or when its caller leaves.
Bytes are parsed in the protocol's own callback, and the one waiter is woken by a future: no task and no queue between.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Protocol

from aish.errors import ConnectionLost, UsageError, WireError
from aish.wire.http_answer import AnswerParser
from aish.wire.http_deadlines import Watchdog
from aish.wire.http_message import HttpBounds, Response
from aish.wire.http_target import Target

_SLICE_BYTES = 64 * 1024  # asyncio's own write high-water mark: more at once would only be copied into its buffer


class Link(Protocol):
    """What an exchange needs of its connection."""

    write_paused: bool

    def write(self, data: bytes | memoryview) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def abort(self) -> None: ...


class Exchange(Response):
    def __init__(
        self,
        target: Target,
        link: Link,
        watch: Watchdog,
        bounds: HttpBounds,
        *,
        head_only: bool,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(target, bounds)
        self.touched = False  # whether any byte has come back
        self._link = link
        self._watch = watch
        self._loop = loop
        self._parser = AnswerParser(target.origin, max_header_bytes=bounds.max_header_bytes, head_only=head_only)
        self._waiter: asyncio.Future[None] | None = None
        self._reader: asyncio.Future[bytes] | None = None  # who waits for a piece is handed it
        self._error: WireError | None = None
        self._sent = False
        self._pieces: deque[bytes] = deque()
        self._held_bytes = 0
        self._paused = False

    @property
    def waiting(self) -> bool:
        return _waits(self._waiter) or _waits(self._reader)

    # What the caller's side does.

    async def send(self, head: bytes, body: bytes) -> None:
        """Write the request, no faster than the peer takes it. Stops when the answer comes before the end of it."""
        self._watch.watch(self)
        if len(body) <= _SLICE_BYTES:
            self._link.write(head + body)
        elif not await self._send_slices(head, memoryview(body)):
            return
        self._sent = True
        self._watch.enter("first_byte")

    async def _send_slices(self, head: bytes, body: memoryview) -> bool:
        self._watch.enter("send")
        self._link.write(head)
        for start in range(0, len(body), _SLICE_BYTES):
            self._link.write(body[start : start + _SLICE_BYTES])
            while self._link.write_paused and not self._answered():
                await self._news()
            if self._answered():
                return False
        return True

    def _answered(self) -> bool:
        return self._parser.headed or self._error is not None

    async def wait_for_head(self) -> None:
        parser = self._parser
        while not parser.headed:
            if self._error is not None:
                raise self._error
            await self._news()
        self.status, self.reason, self.headers = parser.status, parser.reason, parser.headers
        self._watch.enter("idle")

    async def __anext__(self) -> bytes:
        while not self._pieces:
            if self._error is not None:
                raise self._error
            if self._parser.complete:
                raise StopAsyncIteration
            if self._reader is not None:
                raise UsageError("two tasks read one answer at the same time")
            self._watch.stamp = self._loop.time()
            reader: asyncio.Future[bytes] = self._loop.create_future()
            self._reader = reader
            try:
                if piece := await reader:
                    return piece
            except asyncio.CancelledError:
                if self._reader is reader:
                    self._reader = None
                if not reader.cancelled() and reader.result():  # too late: it is kept for whoever reads on
                    self._pieces.appendleft(reader.result())
                    self._held_bytes += len(reader.result())
                raise
        piece = self._pieces.popleft()
        self._held_bytes -= len(piece)
        if self._paused and self._held_bytes <= self._bounds.high_water_bytes // 2:
            self._paused = False
            self._link.resume_reading()
        return piece

    def limit_silence(self, seconds: float) -> None:
        if not self._parser.complete:  # then there is nothing to wait for
            self._watch.limit_silence(seconds)

    def limit_rest(self, seconds: float) -> None:
        if not self._parser.complete:
            self._watch.limit_rest(seconds)

    def finish(self) -> bool:
        """End it, wherever it stands. Returns whether the connection may carry another request."""
        self._watch.stop()
        self._parser.release()
        if self._paused:
            self._paused = False
            self._link.resume_reading()
        if self._parser.complete:
            return self._sent and self._parser.keep_alive
        # Another than was raised: that one leads back here by the way it came.
        self._error = ConnectionLost(f"{self._target.origin}: the answer was left before its end")
        return False

    def _news(self) -> asyncio.Future[None]:
        """Done when something has come."""
        self._waiter = self._loop.create_future()
        return self._waiter

    # What the connection's side does.

    def feed(self, data: bytes) -> None:
        self.touched = True
        piece = self._parser.feed(data)
        reader, self._reader = self._reader, None
        if reader is not None and not reader.done():
            reader.set_result(piece)
        elif piece:
            self._hold(piece)
        if self._parser.error is not None:
            self.fail(self._parser.error)
        if self._waiter is not None:
            self.wake()

    def _hold(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._held_bytes += len(piece)
        if self._held_bytes > self._bounds.high_water_bytes and not self._paused:
            self._paused = True
            self._link.pause_reading()

    def wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
        reader, self._reader = self._reader, None
        if reader is not None and not reader.done():
            reader.set_result(b"")

    def write_resumed(self) -> None:
        self._watch.stamp = self._loop.time()
        self.wake()

    def fail(self, error: WireError) -> None:
        """Nothing more will come. What has arrived can still be read, then `error` is raised."""
        if self._error is None and not self._parser.complete:
            self._error = error
        self._link.abort()
        self.wake()

    def peer_left(self, cause: Exception | None) -> None:
        """The connection is gone: in an orderly way, or because of `cause`."""
        if cause is None:
            self._parser.end()
        if not self._parser.complete and self._error is None:
            self._error = self._lost()
            self._error.__cause__ = cause
        self.wake()

    def _lost(self) -> ConnectionLost:
        when = "in the middle of its answer" if self.touched else "before it answered"
        return ConnectionLost(f"{self._target.origin}: the connection was closed {when}")


def _waits(future: asyncio.Future[Any] | None) -> bool:
    return future is not None and not future.done()
