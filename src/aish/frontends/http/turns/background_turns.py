"""Turns that nobody has to listen to: each is run by a task of its own, and whoever likes follows it.

What a turn says is kept in numbered pieces, within bounds, so that a follower may come late or come back. What is no
longer kept is made again by `refill` where the turn has one. A follower that leaves ends nothing; `cancel` does.

Life: `LiveTurns` is opened with the server and, when closed, ends every turn that still runs.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any

import msgspec

from aish.frontends.http.server.http_errors import Problem

log = logging.getLogger(__name__)

# Some minutes of a fast model's stream; what is older is read from the store.
KEPT_BYTES = 1024 * 1024
# Each holds its conversation and a model's attention.
MAX_TURNS = 1024
# For turns to write their end when the server closes.
_CLOSING_S = 10.0

Refill = Callable[[int, int], Awaitable[bytes]]  # events from this number up to, not with, that one


class Missed(Exception):
    """What was asked for is kept no more, and cannot be made again."""


class _Piece(msgspec.Struct, frozen=True):
    begins: int
    ends: int  # the number after its last event
    data: bytes

    def after(self, number: int) -> bytes:
        """Without the events before `number`."""
        skip = number - self.begins
        return self.data if skip <= 0 else self.data.split(b"\n\n", skip)[-1]


class LiveTurn:
    """Events are numbered from 0, each ends with an empty line; a piece may hold several."""

    def __init__(self, id: str, *, kept_bytes: int = KEPT_BYTES, refill: Refill | None = None) -> None:
        self.id = id
        self.ended = False
        self._kept_bytes = kept_bytes
        self._refill = refill
        self._pieces: deque[_Piece] = deque()
        self._size = 0
        self._next = 0
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._begun = self._stopped = False

    @property
    def next_number(self) -> int:
        return self._next

    def push(self, data: bytes, count: int = 1) -> None:
        """`count` events. One piece is always kept, however large."""
        if not data:
            return
        self._pieces.append(_Piece(self._next, self._next + count, data))
        self._next += count
        self._size += len(data)
        while self._size > self._kept_bytes and len(self._pieces) > 1:
            self._size -= len(self._pieces.popleft().data)
        self._tell()

    def kept(self, number: int) -> bytes | None:
        """All that is there from the event `number` on; None if its beginning is kept no more."""
        if number < self._next and self._pieces[0].begins > number:
            return None
        return b"".join(piece.after(number) for piece in self._pieces if piece.ends > number)

    async def follow(self, number: int = 0) -> AsyncGenerator[bytes, None]:
        """From the event `number` on, to the end. Raises Missed."""
        while True:
            news = self._news
            while number < self._next:
                data, number = await self._from(number)
                yield data
            if self.ended:
                return
            await news.wait()

    async def cancel(self) -> None:
        """Returns when it has ended."""
        if self._task is not None and not self._task.done():
            self.stop()
            await asyncio.wait({self._task}, timeout=_CLOSING_S)

    def stop(self) -> None:
        """A task that has not begun yet must begin all the same: its work has things to close."""
        if self._begun and self._task is not None:
            self._task.cancel()
        self._stopped = True

    def run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        self._task = asyncio.create_task(self._run(work))
        return self._task

    async def _run(self, work: Coroutine[Any, Any, None]) -> None:
        self._begun = True
        if self._stopped and (task := asyncio.current_task()) is not None:
            task.cancel()
        try:
            await work
        except asyncio.CancelledError:
            pass
        except Exception:
            log.exception("a turn failed by a defect of aish")
        finally:
            self.ended = True
            self._tell()

    async def _from(self, number: int) -> tuple[bytes, int]:
        """All that is there from `number` on, and the number that comes next."""
        first, upto = self._pieces[0].begins, self._next
        kept = self.kept(max(number, first)) or b""
        if number >= first:
            return kept, upto
        if self._refill is None:
            raise Missed
        return await self._refill(number, first) + kept, upto

    def _tell(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()


class LiveTurns:
    def __init__(self, max_turns: int = MAX_TURNS) -> None:
        self._max_turns = max_turns
        self._turns: dict[str, LiveTurn] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.closing = False

    async def __aenter__(self) -> LiveTurns:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.closing = True
        for turn in self._turns.values():
            turn.stop()
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=_CLOSING_S)

    def find(self, id: str) -> LiveTurn | None:
        """One that runs."""
        return self._turns.get(id)

    def check_room(self) -> None:
        if len(self._turns) >= self._max_turns:
            raise Problem(503, "too many turns at once", headers=[(b"retry-after", b"5")], code="overloaded")

    def start(self, turn: LiveTurn, work: Coroutine[Any, Any, None]) -> None:
        """It is found by its id until it ends. Raises Problem where there is no room."""
        try:
            self.check_room()
        except Problem:
            work.close()
            raise
        self._turns[turn.id] = turn
        task = turn.run(work)
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._drop(turn, done))

    def _drop(self, turn: LiveTurn, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._turns.get(turn.id) is turn:
            del self._turns[turn.id]
