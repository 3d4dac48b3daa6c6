"""The group of writes that one transaction commits. Events are joined into few rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

# The size up to which a row of joined events grows: a reader that starts inside a row reads all of it.
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
    """A record that nothing waits for. `insert` takes all records of its kind in a group: a server makes thousands,
    and each statement competes with the event loop for the interpreter lock."""

    insert: InsertAll
    record: Any
    size: int  # about, in bytes


class Inserts(NamedTuple):
    insert: InsertAll
    records: Sequence[Any]

    @property
    def run(self) -> None:
        """None: this is no operation, so appended events may be moved past it."""
        return None


class Operation:
    """`run` None only waits for what was queued before. A queued operation runs, even if its waiter is gone."""

    __slots__ = ("durable", "future", "run")
    size = 0  # unknown

    def __init__(self, run: Run | None, *, durable: bool, awaited: bool = True) -> None:
        self.run = run
        self.durable = durable
        self.future: Future[Any] | None = None  # None where nothing waits, since futures are not cheap
        if awaited:
            self.future = Future()
            self.future.set_running_or_notify_cancel()


Item = Append | Insert | Operation
Joined = Inserts | Operation


class Ordered(Protocol):
    """An operation of any adapter."""

    @property
    def run(self) -> object: ...


OneOf = TypeVar("OneOf", bound=Ordered)


def join_appends(items: Iterable[Append | OneOf]) -> Iterator[Append | OneOf]:
    """Joins consecutive appends of one turn. None moves past an operation that runs."""
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
    """Joins records of one kind. None moves past an operation that runs."""
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
    """Inserts consecutive appends with one statement, as long as they are small, since they are copied for it."""
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

    def joined(self) -> Append:
        first, last = self._appends[0], self._appends[-1]
        if first is last:
            return first
        lines = b"".join(append.lines for append in self._appends)
        return Append(first.turn, first.first_seq, last.last_seq, lines)
