"""A group: what one transaction writes. Appends are joined into few rows; operations settle their waiters after."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

# A row of joined events takes no more once it holds this much: a reader that starts inside a row reads all of it.
ROW_BYTES = 256 * 1024

Run = Callable[[sqlite3.Connection], Any]
InsertAll = Callable[[sqlite3.Connection, Sequence[Any]], None]


class Append(NamedTuple):
    turn: str
    first_seq: int
    last_seq: int
    lines: bytes

    @property
    def size(self) -> int:
        return len(self.lines)


class Insert(msgspec.Struct, frozen=True):
    """A record that nobody waits for. `insert` takes as many of its kind as a group holds: a server makes them by the
    thousand, and each statement more is one more fight with the event loop over the interpreter."""

    insert: InsertAll
    record: Any
    size: int  # in bytes, about


class Inserts(NamedTuple):
    insert: InsertAll
    records: Sequence[Any]

    @property
    def run(self) -> None:
        """No operation: appends of turns may go past it."""
        return None


class Operation:
    """`run` None only waits for what was queued before it. Once queued it runs, whether or not its waiter stays."""

    __slots__ = ("durable", "future", "run")
    size = 0  # not known

    def __init__(self, run: Run | None, *, durable: bool, awaited: bool = True) -> None:
        self.run = run
        self.durable = durable
        self.future: Future[Any] | None = None  # none where nobody waits: they are not cheap
        if awaited:
            self.future = Future()
            self.future.set_running_or_notify_cancel()


Item = Append | Insert | Operation
Joined = Inserts | Operation


class Ordered(Protocol):
    """An operation, whatever it runs on."""

    @property
    def run(self) -> object: ...


OneOf = TypeVar("OneOf", bound=Ordered)


def join_appends(items: Iterable[Append | OneOf]) -> Iterator[Append | OneOf]:
    """Consecutive appends of one turn become one. None moves past an operation that runs."""
    rows: dict[str, _Row] = {}
    for item in items:
        if isinstance(item, Append):
            row = rows.get(item.turn)
            if row is None or not row.takes(item):
                if row is not None:
                    yield row.joined()
                rows[item.turn] = _Row(item)
            else:
                row.add(item)
        else:
            if item.run is not None:
                yield from _close(rows)
            yield item
    yield from _close(rows)


def join_inserts(items: Iterable[Item]) -> Iterator[Append | Joined]:
    """Records of one kind become one. None moves past an operation that runs."""
    kinds: dict[InsertAll, list[Any]] = {}
    for item in items:
        if isinstance(item, Insert):
            kinds.setdefault(item.insert, []).append(item.record)
            continue
        if kinds and isinstance(item, Operation) and item.run is not None:
            yield from _inserts(kinds)
        yield item
    yield from _inserts(kinds)


def together(items: Iterable[Append | Joined], insert: InsertAll) -> Iterator[Append | Joined]:
    """Appends that follow each other are inserted as one, as long as they are small: they are copied for it."""
    appends: list[Append] = []
    size = 0
    for item in items:
        if appends and (size > ROW_BYTES or not isinstance(item, Append)):
            yield _as_one(appends, insert)
            appends, size = [], 0
        if isinstance(item, Append):
            appends.append(item)
            size += item.size
        else:
            yield item
    if appends:
        yield _as_one(appends, insert)


def _as_one(appends: list[Append], insert: InsertAll) -> Append | Inserts:
    return Inserts(insert, appends) if len(appends) > 1 else appends[0]


def _inserts(kinds: dict[InsertAll, list[Any]]) -> Iterator[Inserts]:
    for insert, records in kinds.items():
        yield Inserts(insert, records)
    kinds.clear()


def _close(rows: dict[str, _Row]) -> Iterator[Append]:
    for row in rows.values():
        yield row.joined()
    rows.clear()


class _Row:
    """A row being made of appends."""

    __slots__ = ("_appends", "_bytes")

    def __init__(self, first: Append) -> None:
        self._appends = [first]
        self._bytes = len(first.lines)

    def takes(self, item: Append) -> bool:
        return item.first_seq == self._appends[-1].last_seq + 1 and self._bytes < ROW_BYTES

    def add(self, item: Append) -> None:
        self._appends.append(item)
        self._bytes += len(item.lines)

    def joined(self) -> Append:
        first, last = self._appends[0], self._appends[-1]
        if first is last:
            return first
        lines = b"".join(append.lines for append in self._appends)
        return Append(first.turn, first.first_seq, last.last_seq, lines)
