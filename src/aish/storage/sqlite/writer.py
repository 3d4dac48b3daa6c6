"""The only thread that writes. Everything queued becomes one transaction and one commit; then all waiters get their
result.

The thread and the file open at the first use. If a group cannot be written, its waiters get the error, other items stay
for the next group, and the file is opened again. `close` writes what is queued and ends the thread.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Literal, TypeVar, cast

from aish.errors import AishError, StoreError
from aish.storage.sqlite.database import breaks_the_group, is_busy, translate
from aish.storage.sqlite.sessions_sql import insert_events
from aish.storage.sqlite.write_group import (
    Insert,
    InsertAll,
    Inserts,
    Item,
    Joined,
    Operation,
    Run,
    join_inserts,
    together,
)
from aish.storage.store_rules import store_closed
from aish.storage.write_queue import ROW_BYTES, Append, join_appends

# How long events wait for others. A crash may lose the last 50 ms of them, but nothing that was acknowledged.
JOIN_WINDOW_S = 0.05
# Items without a waiter that could not be written are kept for a later group, up to this size, and then dropped.
MAX_RETRY_BYTES = 64 * 1024 * 1024
MAX_RETRY_ITEMS = 20_000  # the same for items without a size of their own, a KB each
# What may be queued before callers have to wait for the disk. Little: an allocator seldom returns the memory of a
# burst, and several copies of it are under way.
QUEUED_BYTES = 2 * 1024 * 1024
# Each attempt waits as long as the busy timeout for other processes.
_ATTEMPTS = 3

T = TypeVar("T")
Outcome = tuple[Operation, Any, AishError | None]


class SqliteWriter:
    """Used from one thread, the event loop's: the queue has no lock, and only that thread counts what is put."""

    def __init__(
        self,
        path: Path,
        open_connection: Callable[[], sqlite3.Connection],
        before_end: Callable[[], None],
        after_commit: Callable[[], None] = lambda: None,
    ) -> None:
        self._path = path
        self._open = open_connection
        self._before_end = before_end
        self._after_commit = after_commit
        self._last = Operation(None, durable=True)
        self._ended: Future[None] = Future()
        self._ended.set_running_or_notify_cancel()
        self._thread: threading.Thread | None = None
        self._releases_memory = False
        self._closed = False
        self._queue: SimpleQueue[Item] = SimpleQueue()
        self._hurry = threading.Event()  # something waits, or much is queued
        # Each counter has one owner: the event loop counts what is put, the thread what is taken.
        self._put_items = self._put_bytes = 0
        self._taken_bytes = self._done_items = 0
        # Used by the thread only:
        self._connection: sqlite3.Connection | None = None
        self._synchronous: Literal["FULL", "NORMAL"] | None = None
        self._unsynced = False
        self._unwritten: list[Item] = []
        self._lost: AishError | None = None

    @property
    def idle(self) -> bool:
        """Whether nothing is queued and nothing is being written."""
        return self._done_items == self._put_items

    @property
    def is_behind(self) -> bool:
        """Whether more is queued than should wait in memory."""
        return self._put_bytes - self._taken_bytes > QUEUED_BYTES

    def submit(self, run: Run | None, *, durable: bool = True) -> Future[Any]:
        operation = Operation(run, durable=durable)
        self._put(operation)
        self._hurry.set()
        assert operation.future is not None
        return operation.future

    def post(self, run: Run) -> None:
        """For a write that nothing waits for: it is written together with events, and the next flush reports its
        failure."""
        self._put(Operation(run, durable=False, awaited=False))

    def insert(self, insert: InsertAll, record: Any, *, size: int) -> None:
        """The same for a record, which is written together with others of its kind."""
        self._put_bytes += size
        self._put(Insert(insert, record, size))

    def append(self, append: Append) -> None:
        self._put_bytes += len(append.lines)
        self._put(append)
        if self._put_bytes - self._taken_bytes > ROW_BYTES and not self._hurry.is_set():
            self._hurry.set()

    async def release_memory(self) -> None:
        """Writes what is queued, then opens the file anew: SQLite's prepared statements keep a copy of the last value
        they wrote, which may have many megabytes."""
        for self._releases_memory in (False, True):
            if self._thread is None or self._closed:
                return
            await asyncio.wrap_future(self.submit(lambda db: None, durable=False))

    def close(self) -> Future[None] | None:
        """Accepts nothing more. The future is done when all is written and the thread ends; None if there is no
        thread."""
        if not self._closed and self._thread is not None:
            self._put(self._last)
            self._hurry.set()
        self._closed = True
        return None if self._thread is None else self._ended

    def join(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def _put(self, item: Item) -> None:
        if self._closed:
            raise store_closed()
        self._put_items += 1
        self._queue.put(item)
        if self._thread is None:
            # A daemon: a program that forgets to close must still be able to end.
            self._thread = threading.Thread(target=self._run, name="aish-store", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        is_last = False
        while not is_last:
            group = self._next_group()
            is_last = group[-1] is self._last
            if self._releases_memory:
                self._releases_memory = False
                self._drop_connection()
            self._write_group(group)
            self._done_items += len(group)
            group.clear()  # a large record is not held until the next one comes
        self._before_end()
        self._drop_connection()
        _finish(self._ended, None, self._last.future.exception() if self._last.future else None)

    def _next_group(self) -> list[Item]:
        group = [self._queue.get()]
        self._hurry.wait(JOIN_WINDOW_S)
        self._hurry.clear()  # before the rest is taken: a later `set` is either in this group or speeds up the next one
        group += [self._queue.get() for _ in range(self._queue.qsize())]
        self._taken_bytes += sum([item.size for item in group])
        return group

    def _write_group(self, group: Sequence[Item]) -> None:
        group = [*self._unwritten, *group]
        joined = cast("Iterator[Append | Joined]", join_appends(join_inserts(group)))
        items = [*together(joined, insert_events)]
        try:
            outcomes = self._transact(items)
        except Exception as exc:  # any error goes to the waiters, and the thread lives on
            self._drop_connection()
            self._retry_later([item for item in group if not isinstance(item, Operation) or item.future is None])
            outcomes = [(item, None, translate(exc, self._path)) for item in items if isinstance(item, Operation)]
        else:
            self._unwritten = []
            self._after_commit()
        for operation, result, error in outcomes:
            if operation.future is not None:
                _finish(operation.future, result, error)

    def _transact(self, items: Sequence[Append | Joined]) -> list[Outcome]:
        if items == [self._last] and self._connection is None:
            return [(self._last, None, self._lost)]  # a file that was never opened need not be opened for closing
        connection = self._connect()
        durable = any(isinstance(item, Operation) and item.durable for item in items)
        self._begin(connection, "FULL" if durable else "NORMAL")
        try:
            changes = connection.total_changes
            outcomes = [outcome for item in items if (outcome := self._apply(connection, item))]
            wrote = connection.total_changes != changes
            if durable and self._unsynced and not wrote:
                connection.execute("UPDATE barrier SET count = count + 1")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        self._unsynced = not durable and (wrote or self._unsynced)
        return self._with_losses(outcomes)

    def _with_losses(self, outcomes: list[Outcome]) -> list[Outcome]:
        """Gives earlier losses to operations that only wait. Done last, because joining may have put a lost item
        behind them."""
        if all(operation.run is not None for operation, _, _ in outcomes):
            return outcomes
        lost, self._lost = self._lost, None
        return [(item, result, lost if item.run is None else error) for item, result, error in outcomes]

    def _begin(self, connection: sqlite3.Connection, synchronous: Literal["FULL", "NORMAL"]) -> None:
        if self._synchronous != synchronous:
            connection.execute(f"PRAGMA synchronous = {synchronous}")
            self._synchronous = synchronous
        _retry(lambda: connection.execute("BEGIN IMMEDIATE"))

    def _apply(self, connection: sqlite3.Connection, item: Append | Joined) -> Outcome | None:
        if isinstance(item, Append):
            self._apply_append(connection, item)
            return None
        if isinstance(item, Inserts):
            self._apply_inserts(connection, item)
            return None
        if item.run is None:
            return item, None, None
        connection.execute("SAVEPOINT operation")
        try:
            result = item.run(connection)
        except Exception as exc:  # its waiter gets the error; the rest of the group continues
            if breaks_the_group(exc):
                raise
            connection.execute("ROLLBACK TO operation")
            connection.execute("RELEASE operation")
            error = translate(exc, self._path)
            if item.future is None:
                self._lost = error
            return item, None, error
        connection.execute("RELEASE operation")
        return item, result, None

    def _apply_append(self, connection: sqlite3.Connection, append: Append) -> None:
        """A single append is one statement and needs no savepoint."""
        try:
            insert_events(connection, [append])
        except Exception as exc:  # nothing waits for an append, so the next flush reports it
            if breaks_the_group(exc):
                raise
            self._lost = translate(exc, self._path)

    def _apply_inserts(self, connection: sqlite3.Connection, inserts: Inserts) -> None:
        """Inserts all together. If that fails, each one by itself, so that only the faulty one is lost."""
        connection.execute("SAVEPOINT inserts")
        try:
            inserts.insert(connection, inserts.records)
        except Exception as exc:  # nothing waits for them, so the next flush reports it
            if breaks_the_group(exc):
                raise
            connection.execute("ROLLBACK TO inserts")
            if len(inserts.records) == 1:
                self._lost = translate(exc, self._path)
            else:
                for record in inserts.records:
                    self._apply_inserts(connection, Inserts(inserts.insert, [record]))
        connection.execute("RELEASE inserts")

    def _retry_later(self, items: list[Item]) -> None:
        size = sum(item.size for item in items)
        if size > MAX_RETRY_BYTES or sum(not isinstance(item, Append) for item in items) > MAX_RETRY_ITEMS:
            self._lost = StoreError(
                f"events were lost: the store {self._path} could not be written for too long", hint="run the turn again"
            )
            items = []
        self._unwritten = items

    def _connect(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = _retry(self._open)
        return self._connection

    def _drop_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection, self._synchronous = None, None


def _finish(future: Future[Any], result: Any, error: BaseException | None) -> None:
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


def _retry(action: Callable[[], T]) -> T:
    """Retries while another process holds the file. Each attempt already waits for the busy timeout."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return action()
        except sqlite3.OperationalError as exc:
            if not is_busy(exc):
                raise
    return action()
