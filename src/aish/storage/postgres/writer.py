"""The only task that writes. Everything queued becomes one transaction and one commit; then all waiters get their
result.

The task and its connection start at the first use. A group whose connection breaks is tried again over a new one until
the patience ends, and is never written twice (see `transaction`). Then its waiters get the error, and items without
a waiter (events, posted operations) return to the queue. While the database is known to be away, later groups get one
attempt. `close` writes what is queued and ends the task.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from aish.errors import AishError, StoreError
from aish.storage.postgres import transaction
from aish.storage.postgres.connections import Connections
from aish.storage.postgres.database import SqlConnection, breaks_the_group, is_lost, is_passing, translate
from aish.storage.postgres.transaction import (
    CommitMarkers,
    Item,
    Outcome,
    PendingTransaction,
    Run,
    WriteOperation,
    bytes_of,
    items_to_keep,
)
from aish.storage.store_rules import store_closed
from aish.storage.write_queue import ROW_BYTES, Append, join_appends

# How long events wait for others. A crash may lose the last 50 ms of them, but nothing that was acknowledged.
JOIN_WINDOW_S = 0.05
# A transaction holds its locks until it is committed, so it has to be short.
GROUP_ITEMS = 1024
GROUP_BYTES = 16 * 1024 * 1024
# PostgreSQL has room for some six thousand locks, for all replicas together.
GROUP_KEYS = 128
# What is kept while the database is away. Further events are dropped, and the next flush reports it.
MAX_QUEUED_BYTES = 64 * 1024 * 1024
MAX_QUEUED_ITEMS = 200_000
_FIRST_DELAY_S, _LONGEST_DELAY_S = 0.05, 2.0
_CLOSE_S = 5.0


class PostgresWriter:
    def __init__(self, connections: Connections, *, patience_s: float, after_commit: Callable[[], None]) -> None:
        self._name = connections.name
        self._dial = connections.dial
        self._patience_s = patience_s
        self._after_commit = after_commit
        self._queue: deque[Item] = deque()
        self._queued_bytes = 0
        self._arrived = asyncio.Event()
        self._urgent = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._busy = False
        self._closed = False
        self._lost: AishError | None = None
        # Used by the task only:
        self._link: SqlConnection | None = None
        self._markers = CommitMarkers()
        self._pending: PendingTransaction | None = None
        self._failed = False

    @property
    def idle(self) -> bool:
        """Whether nothing is queued and nothing is being written."""
        return not self._queue and not self._busy and self._pending is None

    def submit(
        self, run: Run | None, *, keys: Sequence[str] = (), turn: str = "", durable: bool = True
    ) -> asyncio.Future[Any]:
        future = asyncio.get_running_loop().create_future()
        self._put(WriteOperation(run, durable=durable, keys=keys, turn=turn, future=future))
        self._urgent.set()
        return future

    def post(self, run: Run, *, keys: Sequence[str] = (), turn: str = "") -> None:
        """For a write that nothing waits for: it is written together with events, and the next flush reports its
        failure."""
        if len(self._queue) >= MAX_QUEUED_ITEMS:
            raise StoreError(f"the store {self._name} cannot keep up", hint="try again later")
        self._put(WriteOperation(run, durable=False, keys=keys, turn=turn))

    def append(self, append: Append) -> None:
        if self._queued_bytes + len(append.lines) > MAX_QUEUED_BYTES or len(self._queue) >= MAX_QUEUED_ITEMS:
            self._lost = StoreError(
                f"events were lost: the store {self._name} could not be written for too long", hint="run the turn again"
            )
            return
        self._put(append)
        self._queued_bytes += len(append.lines)
        if self._queued_bytes > ROW_BYTES and not self._failed:
            self._urgent.set()

    async def close(self) -> None:
        """Accepts nothing more. Raises StoreError if something could not be written."""
        if self._task is None and not self._queue:
            self._closed = True
            return
        last = self.submit(None)
        self._closed = True
        try:
            await last
        finally:
            await self._end()

    async def _end(self) -> None:
        """What is still queued could not be written: its waiters get an error."""
        for item in self._queue:
            if isinstance(item, WriteOperation):
                _finish(item.future, None, store_closed())
        self._queue.clear()
        self._arrived.set()
        self._urgent.set()
        if self._task is not None:
            await self._task

    def _put(self, item: Item) -> None:
        if self._closed:
            raise store_closed()
        self._queue.append(item)
        self._arrived.set()
        if self._task is None:
            # Outside the loop there is none to start it on: the next call from within the loop does.
            with suppress(RuntimeError):
                self._task = asyncio.get_running_loop().create_task(self._run(), name="aish-store")

    async def _run(self) -> None:
        try:
            while await self._has_work():
                self._busy = True
                if group := self._take():
                    await self._write_group(group)
                self._busy = False
        finally:
            await self._close_link()

    async def _has_work(self) -> bool:
        while not self._queue:
            if self._closed:
                return False
            self._arrived.clear()
            await self._arrived.wait()
        if not self._urgent.is_set():
            await _until(self._urgent, _LONGEST_DELAY_S if self._failed else JOIN_WINDOW_S)
        return True

    def _take(self) -> list[Item]:
        group: list[Item] = []
        size = keys = 0
        while self._queue and len(group) < GROUP_ITEMS and size < GROUP_BYTES and keys < GROUP_KEYS:
            item = self._queue.popleft()
            group.append(item)
            if isinstance(item, Append):
                size += len(item.lines)
            else:
                keys += len(item.keys)
        self._queued_bytes -= size
        if not self._queue:
            self._urgent.clear()
        return group

    def _give_back(self, items: Sequence[Item]) -> None:
        self._queue.extendleft(reversed(items))
        self._queued_bytes += bytes_of(items)

    async def _write_group(self, group: list[Item]) -> None:
        try:
            outcomes = await self._write_with_retries(group)
        except Exception as exc:  # any error goes to the waiters, and the task lives on
            self._failed = True
            error = self._unsure(translate(exc, self._name), group)
            if self._pending is None or self._pending.group is not group:
                self._give_back(items_to_keep(group))
            outcomes = [(item, None, error) for item in group if isinstance(item, WriteOperation)]
        else:
            self._failed = False
            self._after_commit()
        for operation, result, failure in outcomes:
            _finish(operation.future, result, failure)

    async def _write_with_retries(self, group: list[Item]) -> list[Outcome]:
        """Retries until the group is written, or until the patience ends."""
        loop = asyncio.get_running_loop()
        give_up, delay = loop.time() + self._patience_s, _FIRST_DELAY_S
        while True:
            try:
                async with asyncio.timeout_at(give_up):
                    return await self._write_once(group)
            except Exception as exc:
                if self._link is not None and is_lost(exc):
                    self._link.drop()
                    self._link = None
                is_away = self._failed and self._link is None
                if is_away or not is_passing(exc) or loop.time() + delay >= give_up:
                    raise
            # Random, so that replicas that lost the database together do not return together.
            await asyncio.sleep(delay * random.uniform(0.5, 1.0))
            delay = min(delay * 2, _LONGEST_DELAY_S)

    async def _write_once(self, group: list[Item]) -> list[Outcome]:
        if self._has_nothing_to_do(group):
            return [self._with_losses(item) for item in group if isinstance(item, WriteOperation)]
        connection = await self._connect()
        if (
            self._pending is not None
            and (outcomes := await self._resolve(connection, self._pending, group)) is not None
        ):
            return outcomes
        items = list(join_appends(group))
        try:
            return await self._transact(connection, items, group, careful=False)
        except Exception as exc:
            if breaks_the_group(exc):
                raise
        return await self._transact(connection, items, group, careful=True)

    async def _transact(
        self, connection: SqlConnection, items: list[Item], group: list[Item], *, careful: bool
    ) -> list[Outcome]:
        durable = any(isinstance(item, WriteOperation) and item.durable for item in items)
        self._pending = pending = self._markers.next(items, group)
        try:
            await transaction.begin(connection, pending, self._markers.id, durable=durable)
            pending.outcomes, lost = await transaction.apply(connection, items, self._name, careful=careful)
            await connection.commit()
        except Exception as exc:
            if not is_lost(exc):
                await connection.script("ROLLBACK")
                self._pending = None
            raise
        self._markers.note_commit(pending, durable=durable)
        self._pending = None
        self._lost = self._lost or lost
        return [self._with_losses(*outcome) for outcome in pending.outcomes]

    async def _resolve(
        self, connection: SqlConnection, pending: PendingTransaction, group: list[Item]
    ) -> list[Outcome] | None:
        """Finds out what became of the transaction whose connection broke. Returns None if this group has still to
        be written."""
        committed = await self._markers.was_committed(connection, pending)
        self._pending = None
        if pending.group is group:
            return [self._with_losses(*outcome) for outcome in pending.outcomes] if committed else None
        if committed:
            return None
        # Its items come before this group.
        self._give_back([*items_to_keep(pending.items), *group])
        self._urgent.set()
        return []

    def _has_nothing_to_do(self, group: Sequence[Item]) -> bool:
        if self._pending or any(isinstance(item, Append) or item.run is not None for item in group):
            return False
        durable = any(isinstance(item, WriteOperation) and item.durable for item in group)
        return not (durable and self._markers.unsynced)

    def _with_losses(self, operation: WriteOperation, result: Any = None, error: AishError | None = None) -> Outcome:
        """Gives earlier losses to an operation that only waits."""
        if operation.run is None:
            error, self._lost = self._lost, None
        return operation, result, error

    def _unsure(self, error: AishError, group: list[Item]) -> AishError:
        """Adds that operations may have been committed, if the database could not confirm it any more."""
        if self._pending is None or self._pending.group is not group or not self._pending.outcomes:
            return error
        return StoreError(f"{error.message}; it is not known whether this was written", hint=error.hint)

    async def _connect(self) -> SqlConnection:
        if self._link is None or self._link.is_closed:
            self._link = await self._dial_and_arrive()
        return self._link

    async def _dial_and_arrive(self) -> SqlConnection:
        connection = await self._dial()
        try:
            if await self._markers.arrive(connection, self._pending):
                self._lost = StoreError(
                    f"events were lost: the store {self._name} went down before they were on its disk",
                    hint="run the turn again",
                )
        except BaseException:
            connection.drop()
            raise
        return connection

    async def _close_link(self) -> None:
        connection, self._link = self._link, None
        if connection is None:
            return
        try:
            await connection.close(timeout_s=_CLOSE_S)
        except Exception:  # our end must close in any case
            connection.drop()


def _finish(future: asyncio.Future[Any] | None, result: Any, error: BaseException | None) -> None:
    if future is None or future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


async def _until(event: asyncio.Event, timeout_s: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await event.wait()
