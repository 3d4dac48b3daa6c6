"""Turns that run in tasks of their own, whether or not a client follows them.

The output of a turn is buffered in numbered pieces, within bounds, so a follower may come late or come back. What is no
longer buffered is made again by `refill`, where the turn has one. A follower that leaves ends nothing; `cancel` does.

`BackgroundTurns` is opened with the server. Closing it ends every turn that still runs.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any

import msgspec

from aish.frontends.http.server.http_errors import HttpProblem

log = logging.getLogger(__name__)

# Some minutes of a fast model's stream. Older output is read from the store.
BUFFER_BYTES = 1024 * 1024
# Each holds its conversation in memory and keeps a model busy.
MAX_TURNS = 1024
# For turns to record their end when the server closes.
_CLOSING_S = 10.0

Refill = Callable[[int, int], Awaitable[bytes]]  # events from this number up to, not with, that one


class NotBuffered(Exception):
    """The requested events are no longer buffered and cannot be made again."""


class _Piece(msgspec.Struct, frozen=True):
    first: int
    end: int  # the number after its last event
    data: bytes

    def after(self, number: int) -> bytes:
        """Without the events before `number`."""
        skip = number - self.first
        return self.data if skip <= 0 else self.data.split(b"\n\n", skip)[-1]


class BackgroundTurn:
    """One turn and its buffer. Events are numbered from 0 and end with an empty line; a piece may hold several."""

    def __init__(self, id: str, *, buffer_bytes: int = BUFFER_BYTES, refill: Refill | None = None) -> None:
        self.id = id
        self.ended = False
        self._buffer_bytes = buffer_bytes
        self._refill = refill
        self._pieces: deque[_Piece] = deque()
        self._size = 0
        self._next_number = 0
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._has_begun = self._is_stopped = False

    @property
    def next_number(self) -> int:
        return self._next_number

    def push(self, data: bytes, count: int = 1) -> None:
        """Adds `count` events. The last piece stays buffered, however large."""
        if not data:
            return
        self._pieces.append(_Piece(self._next_number, self._next_number + count, data))
        self._next_number += count
        self._size += len(data)
        while self._size > self._buffer_bytes and len(self._pieces) > 1:
            self._size -= len(self._pieces.popleft().data)
        self._notify()

    def buffered_from(self, number: int) -> bytes | None:
        """The events from `number` on; None if the first of them is no longer buffered."""
        if number < self._next_number and self._pieces[0].first > number:
            return None
        return b"".join(piece.after(number) for piece in self._pieces if piece.end > number)

    async def follow(self, number: int = 0) -> AsyncGenerator[bytes, None]:
        """Yields the events from `number` on, to the end. Raises NotBuffered."""
        while True:
            changed = self._changed
            while number < self._next_number:
                data, number = await self._read_from(number)
                yield data
            if self.ended:
                return
            await changed.wait()

    async def cancel(self) -> None:
        """Returns when the turn has ended."""
        if self._task is not None and not self._task.done():
            self.stop()
            await asyncio.wait({self._task}, timeout=_CLOSING_S)

    def stop(self) -> None:
        """Cancels the task. A task that has not begun yet must begin first, because its work has things to close."""
        if self._has_begun and self._task is not None:
            self._task.cancel()
        self._is_stopped = True

    def run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        self._task = asyncio.create_task(self._run(work))
        return self._task

    async def _run(self, work: Coroutine[Any, Any, None]) -> None:
        self._has_begun = True
        if self._is_stopped and (task := asyncio.current_task()) is not None:
            task.cancel()
        try:
            await work
        except asyncio.CancelledError:
            pass
        except Exception:
            log.exception("a turn failed by a defect of aish")
        finally:
            self.ended = True
            self._notify()

    async def _read_from(self, number: int) -> tuple[bytes, int]:
        """The events from `number` on, and the number of the next one."""
        first, upto = self._pieces[0].first, self._next_number
        buffered = self.buffered_from(max(number, first)) or b""
        if number >= first:
            return buffered, upto
        if self._refill is None:
            raise NotBuffered
        return await self._refill(number, first) + buffered, upto

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


class BackgroundTurns:
    def __init__(self, max_turns: int = MAX_TURNS) -> None:
        self._max_turns = max_turns
        self._turns: dict[str, BackgroundTurn] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.closing = False

    async def __aenter__(self) -> BackgroundTurns:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.closing = True
        for turn in self._turns.values():
            turn.stop()
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=_CLOSING_S)

    def find(self, id: str) -> BackgroundTurn | None:
        """A turn that still runs."""
        return self._turns.get(id)

    def check_room(self) -> None:
        if len(self._turns) >= self._max_turns:
            raise HttpProblem(503, "too many turns at once", headers=[(b"retry-after", b"5")], code="overloaded")

    def start(self, turn: BackgroundTurn, work: Coroutine[Any, Any, None]) -> None:
        """The turn is found by its id until it ends. Raises HttpProblem where too many run."""
        try:
            self.check_room()
        except HttpProblem:
            work.close()
            raise
        self._turns[turn.id] = turn
        task = turn.run(work)
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._drop(turn, done))

    def _drop(self, turn: BackgroundTurn, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._turns.get(turn.id) is turn:
            del self._turns[turn.id]
