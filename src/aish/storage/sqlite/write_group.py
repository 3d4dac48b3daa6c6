"""The group of writes that one transaction commits. Events are joined into few rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import msgspec

from aish.storage.write_queue import ROW_BYTES, Append

Run = Callable[[sqlite3.Connection], Any]
InsertAll = Callable[[sqlite3.Connection, Sequence[Any]], None]


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
