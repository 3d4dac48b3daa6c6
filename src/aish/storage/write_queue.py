"""What the writers of both databases share: how appended events are joined, and the signal of a commit."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import NamedTuple, Protocol, TypeVar

# The size up to which a row of joined events grows: a reader that starts inside a row reads all of it.
ROW_BYTES = 256 * 1024

_POLL_S = 0.2  # reading the end takes a tenth of a millisecond


class Append(NamedTuple):
    turn: str
    first_seq: int
    last_seq: int
    lines: bytes

    @property
    def size(self) -> int:
        return len(self.lines)


class QueuedOperation(Protocol):
    """An operation of any adapter."""

    @property
    def run(self) -> object: ...


OneOf = TypeVar("OneOf", bound=QueuedOperation)


def join_appends(items: Iterable[Append | OneOf]) -> Iterator[Append | OneOf]:
    """Joins consecutive appends of one turn. None moves past an operation that runs."""
    rows: dict[str, _Row] = {}
    for item in items:
        if isinstance(item, Append):
            row = rows.get(item.turn)
            if row is None or not row.takes(item):
                if row is not None:
                    yield row.join()
                rows[item.turn] = _Row(item)
            else:
                row.add(item)
        else:
            if item.run is not None:
                yield from _close(rows)
            yield item
    yield from _close(rows)


def _close(rows: dict[str, _Row]) -> Iterator[Append]:
    for row in rows.values():
        yield row.join()
    rows.clear()


class _Row:
    """A row of joined appends."""

    __slots__ = ("_appends", "_bytes")

    def __init__(self, first: Append) -> None:
        self._appends = [first]
        self._bytes = len(first.lines)

    def takes(self, item: Append) -> bool:
        return item.first_seq == self._appends[-1].last_seq + 1 and self._bytes < ROW_BYTES

    def add(self, item: Append) -> None:
        self._appends.append(item)
        self._bytes += len(item.lines)

    def join(self) -> Append:
        first, last = self._appends[0], self._appends[-1]
        if first is last:
            return first
        lines = b"".join(append.lines for append in self._appends)
        return Append(first.turn, first.first_seq, last.last_seq, lines)


class CommitSignal:
    """Wakes tasks that wait for the next commit of this process. The writer's thread calls `tell`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}

    def tell(self) -> None:
        if not self._waiting:
            return
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for event, loop in waiting.items():
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)

    def join(self) -> asyncio.Event:
        """Returns an event that is set at the next commit. Call `leave` afterwards."""
        event = asyncio.Event()
        with self._lock:
            self._waiting[event] = asyncio.get_running_loop()
        return event

    def leave(self, event: asyncio.Event) -> None:
        with self._lock:
            self._waiting.pop(event, None)

    async def wait_past(self, after: int, timeout_s: float, read_end: Callable[[], Awaitable[int]]) -> bool:
        """Returns whether the feed goes past `after` in that time. Also polls, because other processes write, too."""
        due_s = time.monotonic() + timeout_s
        while True:
            written = self.join()
            try:
                left_s = due_s - time.monotonic()
                if await read_end() > after:
                    return True
                if left_s <= 0:
                    return False
                async with asyncio.timeout(min(left_s, _POLL_S)):
                    await written.wait()
            except TimeoutError:
                continue
            finally:
                self.leave(written)
