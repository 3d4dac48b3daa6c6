"""The one thread that writes. Everything queued becomes one transaction and one commit; then all waiters learn of it.

Life: the thread and the file open at the first use. A group that cannot be written fails its waiters, what nobody
waits for stays for the next group, and the file is opened anew. `close` writes what is queued and ends the thread.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Literal, TypeVar, cast

from aish.errors import AishError, StoreError
from aish.storage.sqlite.faults import breaks_the_group, is_busy, translate
from aish.storage.sqlite.statements import insert_events
from aish.storage.sqlite.write_group import (
    ROW_BYTES,
    Append,
    Insert,
    InsertAll,
    Inserts,
    Item,
    Joined,
    Operation,
    Run,
    join_appends,
    join_inserts,
    together,
)

# Events wait this long for company. A crash may lose the last 50 ms of them, and nothing acknowledged.
JOIN_WINDOW_S = 0.05
# What could not be written and nobody waits for is kept up to this, in the hope of a later group, and then given up.
KEPT_BYTES = 64 * 1024 * 1024
KEPT_ITEMS = 20_000  # the same for what has no size of its own, a KB each
# What may be queued before whoever makes more of it has to wait for the disk. Little: an allocator seldom gives back
# what a burst has taken, and there are several copies of it on its way.
QUEUED_BYTES = 2 * 1024 * 1024
# Each attempt waits as long as the busy timeout for other processes.
_ATTEMPTS = 3

T = TypeVar("T")
Outcome = tuple[Operation, Any, AishError | None]


class Writer:
    """Used on one thread, the event loop's: the queue has no lock, and what is put is counted there alone."""

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
        self._closed = False
        self._queue: SimpleQueue[Item] = SimpleQueue()
        self._hurry = threading.Event()  # somebody waits, or much is queued
        # Each counted on one side: what is put by whoever puts it, what is taken by the thread.
        self._put_items = self._put_bytes = 0
        self._taken_bytes = self._done_items = 0
        # Only the thread's own:
        self._connection: sqlite3.Connection | None = None
        self._synchronous: Literal["FULL", "NORMAL"] | None = None
        self._unsynced = False
        self._kept: list[Item] = []
        self._lost: AishError | None = None

    @property
    def idle(self) -> bool:
        """Nothing queued and nothing being written."""
        return self._done_items == self._put_items

    @property
    def is_behind(self) -> bool:
        """More is queued than should wait in memory."""
        return self._put_bytes - self._taken_bytes > QUEUED_BYTES

    def submit(self, run: Run | None, *, durable: bool = True) -> Future[Any]:
        operation = Operation(run, durable=durable)
        self._put(operation)
        self._hurry.set()
        assert operation.future is not None
        return operation.future

    def post(self, run: Run) -> None:
        """Nobody waits: it is written together with events, and its failure is told by the next flush."""
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

    def close(self) -> Future[None] | None:
        """Take nothing more. The future settles when all is written and the thread ends; None if there is none."""
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
            raise StoreError("the store is closed", hint="open a new one")
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
            self._write_group(group)
            self._done_items += len(group)
        self._before_end()
        self._drop_connection()
        _settle(self._ended, None, self._last.future.exception() if self._last.future else None)

    def _next_group(self) -> list[Item]:
        group = [self._queue.get()]
        self._hurry.wait(JOIN_WINDOW_S)
        self._hurry.clear()  # before the rest is taken: who hurries then is in it, or has the next group hurry
        group += [self._queue.get() for _ in range(self._queue.qsize())]
        self._taken_bytes += sum([item.size for item in group])
        return group

    def _write_group(self, group: Sequence[Item]) -> None:
        group = [*self._kept, *group]
        joined = cast(Iterator[Append | Joined], join_appends(join_inserts(group)))
        items = [*together(joined, insert_events)]
        try:
            outcomes = self._transact(items)
        except Exception as exc:  # the waiters hear of it, whatever it was, and the thread lives on
            self._drop_connection()
            self._keep([item for item in group if not isinstance(item, Operation) or item.future is None])
            outcomes = [(item, None, translate(exc, self._path)) for item in items if isinstance(item, Operation)]
        else:
            self._kept = []
            self._after_commit()
        for operation, result, error in outcomes:
            if operation.future is not None:
                _settle(operation.future, result, error)

    def _transact(self, items: Sequence[Append | Joined]) -> list[Outcome]:
        if items == [self._last] and self._connection is None:
            return [(self._last, None, self._lost)]  # a file that never opened need not open to be closed
        connection = self._connected()
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
        """Whoever only waits for what came before is told what was lost of it. Last: joined, it may come after them."""
        if all(operation.run is not None for operation, _, _ in outcomes):
            return outcomes
        lost, self._lost = self._lost, None
        return [(item, result, lost if item.run is None else error) for item, result, error in outcomes]

    def _begin(self, connection: sqlite3.Connection, synchronous: Literal["FULL", "NORMAL"]) -> None:
        if self._synchronous != synchronous:
            connection.execute(f"PRAGMA synchronous = {synchronous}")
            self._synchronous = synchronous
        _retried(lambda: connection.execute("BEGIN IMMEDIATE"))

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
        except Exception as exc:  # its waiter gets it; the rest of the group goes on
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
        """One that comes alone is one statement, and needs no savepoint."""
        try:
            insert_events(connection, [append])
        except Exception as exc:  # nobody waits for an append: the next flush tells
            if breaks_the_group(exc):
                raise
            self._lost = translate(exc, self._path)

    def _apply_inserts(self, connection: sqlite3.Connection, inserts: Inserts) -> None:
        """All together. If one of them is no good, each by itself, so that only that one is lost."""
        connection.execute("SAVEPOINT inserts")
        try:
            inserts.insert(connection, inserts.records)
        except Exception as exc:  # nobody waits for them: the next flush tells
            if breaks_the_group(exc):
                raise
            connection.execute("ROLLBACK TO inserts")
            if len(inserts.records) == 1:
                self._lost = translate(exc, self._path)
            else:
                for record in inserts.records:
                    self._apply_inserts(connection, Inserts(inserts.insert, [record]))
        connection.execute("RELEASE inserts")

    def _keep(self, items: list[Item]) -> None:
        size = sum(item.size for item in items)
        if size > KEPT_BYTES or sum(not isinstance(item, Append) for item in items) > KEPT_ITEMS:
            self._lost = StoreError(
                f"events were lost: the store {self._path} could not be written for too long", hint="run the turn again"
            )
            items = []
        self._kept = items

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = _retried(self._open)
        return self._connection

    def _drop_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection, self._synchronous = None, None


def _settle(future: Future[Any], result: Any, error: BaseException | None) -> None:
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


def _retried(action: Callable[[], T]) -> T:
    """Again while another process holds the file; each attempt already waits for the busy timeout."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return action()
        except sqlite3.OperationalError as exc:
            if not is_busy(exc):
                raise
    return action()
