"""One request and its answer: takes a connection, sends, waits, holds what has arrived, hands out the body.

Entered by its caller, who gets it back as the response once the head has arrived; over when the caller leaves. Bytes
are parsed in the protocol's own callback, and the one waiter is woken by a future: no task and no queue between. Where
a piece can be taken at once, in the callback itself, the waiter is not even woken.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import NoReturn

from aish.errors import ConnectionLost, UsageError, WireError
from aish.net.http.connection import Connection
from aish.net.http.deadlines import Watchdog
from aish.net.http.message import HttpBounds, Response, Timeouts
from aish.net.http.pool import Pool
from aish.net.http.response import AnswerParser
from aish.net.http.target import Target

_SLICE_BYTES = 64 * 1024  # asyncio's own write high-water mark: more at once would only be copied into its buffer


class Exchange(Response):
    # From entering on, and anew for a second try.
    _watch: Watchdog
    _loop: asyncio.AbstractEventLoop
    _connection: Connection
    _parser: AnswerParser

    def __init__(
        self,
        pool: Pool,
        bounds: HttpBounds,
        target: Target,
        method: str,
        head: bytes,
        body: bytes,
        timeouts: Timeouts,
    ) -> None:
        self._pool = pool
        self._bounds = bounds
        self._target = target
        self._method = method
        self._head = head
        self._body = body
        self._timeouts = timeouts
        self._put_at = -1  # how often the outbox had been flushed when the request was put there
        self._touched = False  # whether any byte has come back
        self._complete = False  # the whole answer has
        self._is_spared = False  # what is still to come is not missed
        self._waiter: asyncio.Future[bytes] | None = None  # is handed the piece that comes, or b"" for other news
        self._take: Callable[[bytes], bool] | None = None  # is offered it before
        self._raised: Exception | None = None  # by that
        self._error: WireError | None = None
        self._sent = False
        self._pieces: deque[bytes] = deque()
        self._held_bytes = 0
        self._paused = False

    @property
    def waiting(self) -> bool:
        return self._waiter is not None and not self._waiter.done()

    @property
    def at_end(self) -> bool:
        return self._complete and not self._pieces and self._error is None

    # What the caller's side does.

    async def __aenter__(self) -> Response:
        pool, target = self._pool, self._target
        self._loop = pool.loop
        self._watch = watch = Watchdog(pool.loop, pool.sweep, self._timeouts, target.origin)
        connection = pool.find_idle(target) or await pool.obtain(target, watch)
        reused = connection.reused
        try:
            return await self._ask(connection)
        except ConnectionLost:
            # The peer may close an idle connection just as we use it. A request on a new one has no such excuse.
            if not reused or self._touched:
                raise
        return await self._ask(await pool.obtain(target, watch))

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    async def _ask(self, connection: Connection) -> Response:
        self._connection, self._error, self._sent = connection, None, False
        self._parser = parser = connection.parser
        parser.begin(head_only=self._method == "HEAD")
        connection.borrower = self
        try:
            if not connection.usable:  # lost between being handed over and now, when nobody was there to be told
                self.peer_left(None)
            if len(self._body) <= _SLICE_BYTES:
                self._watch.watch(self, "first_byte")
                self._put_at = connection.outbox.flushed
                connection.write_together(self._head + self._body)
                self._sent = True
            else:
                await self._send_slices(memoryview(self._body))
            while not parser.headed:
                if self._error is not None:
                    raise self._error
                self._waiter = self._loop.create_future()
                self._put_back(await self._waiter)
        except BaseException:
            self._leave()
            raise
        self.status, self.reason, self.headers = parser.status, parser.reason, parser.headers
        if self._complete:  # whoever reads it now may take any time
            self._watch.stop()
        else:
            self._watch.enter("idle")
        return self

    async def _send_slices(self, body: memoryview) -> None:
        """No faster than the peer takes it. Stops when the answer comes before the end of it."""
        connection = self._connection
        self._watch.watch(self, "send")
        connection.write(self._head)
        for start in range(0, len(body), _SLICE_BYTES):
            connection.write(body[start : start + _SLICE_BYTES])
            while connection.write_paused and not self._answered():
                self._waiter = self._loop.create_future()
                self._put_back(await self._waiter)
            if self._answered():
                return
        self._sent = True
        self._watch.enter("first_byte")

    def _answered(self) -> bool:
        return self._parser.headed or self._error is not None

    async def next_piece(self) -> bytes:
        while not self._pieces:
            if self._raised is not None:
                self._raise_what_was_raised()
            if self._error is not None:
                if self._is_spared:
                    return b""
                raise self._error
            if self._complete:
                return b""
            if self._waiter is not None:
                raise UsageError("two tasks read one answer at the same time")
            self._watch.stamp = self._loop.time()
            waiter: asyncio.Future[bytes] = self._loop.create_future()
            self._waiter = waiter
            try:
                if piece := await waiter:
                    return piece
            except asyncio.CancelledError:
                if self._waiter is waiter:
                    self._waiter = None
                if not waiter.cancelled():  # too late: it is kept for whoever reads on
                    self._put_back(waiter.result())
                raise
        piece = self._pieces.popleft()
        self._held_bytes -= len(piece)
        if self._paused and self._held_bytes <= self._bounds.high_water_bytes // 2:
            self._paused = False
            self._connection.resume_reading()
        return piece

    def offer_to(self, take: Callable[[bytes], bool]) -> None:
        self._take = take

    def limit_silence(self, seconds: float) -> None:
        if not self._complete:  # then there is nothing to wait for
            self._watch.limit_silence(seconds)

    def spare_rest(self, seconds: float) -> None:
        if not self._complete:
            self._is_spared = True
            self._watch.limit_rest(seconds)

    def _leave(self) -> None:
        """End it, wherever it stands."""
        self._watch.stop()
        self._take = self._raised = None  # which lead back here
        if self._paused:
            self._paused = False
            self._connection.resume_reading()
        if not self._complete:
            # Another than was raised: that one leads back here by the way it came.
            self._error = ConnectionLost(f"{self._target.origin}: the answer was left before its end")
        reusable = self._complete and self._sent and self._parser.keep_alive
        self._pool.release(self._connection, reusable=reusable)

    def _raise_what_was_raised(self) -> NoReturn:
        raised, self._raised = self._raised, None
        try:
            assert raised is not None
            raise raised
        finally:
            raised = None  # it leads back here

    def _put_back(self, piece: bytes) -> None:
        """Before whatever has come since it was handed over."""
        if piece:
            self._pieces.appendleft(piece)
            self._held_bytes += len(piece)

    # What the connection's side does.

    def feed(self, data: bytes) -> None:
        if not self._touched:
            if self._put_at == self._connection.outbox.flushed:
                self.fail(ConnectionLost(f"{self._target.origin}: it answers before it is asked"))
                return
            self._touched = True
        parser = self._parser
        piece = parser.feed(data)
        self._complete = parser.complete
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            try:
                if self._take is None or not piece or self._complete or not self._take(piece):
                    self._hand_over(piece, waiter)
                else:
                    self._watch.has_heard = True
            except Exception as exc:  # is no matter of the event loop, which calls us, but of whoever reads
                self._raised = exc
                self._hand_over(b"", waiter)
        elif piece:
            self._hold(piece)
        if parser.error is not None:
            self.fail(parser.error)

    def _hand_over(self, piece: bytes, waiter: asyncio.Future[bytes]) -> None:
        self._waiter = None
        waiter.set_result(piece)

    def _hold(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._held_bytes += len(piece)
        if self._held_bytes > self._bounds.high_water_bytes and not self._paused:
            self._paused = True
            self._connection.pause_reading()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(b"")

    def write_resumed(self) -> None:
        self._watch.stamp = self._loop.time()
        self._wake()

    def fail(self, error: WireError) -> None:
        """Nothing more will come. What has arrived can still be read, then `error` is raised."""
        if self._error is None and not self._complete:
            self._error = error
        self._connection.abort()
        self._wake()

    def peer_left(self, cause: Exception | None) -> None:
        if cause is None:
            self._parser.end()
            self._complete = self._parser.complete
        if not self._complete and self._error is None:
            when = "in the middle of its answer" if self._touched else "before it answered"
            self._error = ConnectionLost(f"{self._target.origin}: the connection was closed {when}")
            self._error.__cause__ = cause
        self._wake()
