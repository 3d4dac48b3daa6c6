"""The transaction of a group: its operations and locks, its number, and how its items are applied.

Each group writes its number into the writer's own row of `writers`, in its own transaction: if the number is there, so
is everything else the group wrote. So a writer finds out whether a transaction was committed whose end it did not see.
A broken connection may leave its transaction open on the server. It is ended, and waited for, before the row is read.

Items are first applied without savepoints, which would double the statements: an operation that checks before it writes
needs none. If the database still refuses a statement, the group is applied again, each item in a savepoint.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from aish.errors import AishError
from aish.storage.postgres.database import SqlConnection, breaks_the_group, translate
from aish.storage.postgres.sql.sessions import NEXT_CURSOR
from aish.storage.write_queue import Append

Run = Callable[[SqlConnection], Awaitable[Any]]

# Every reservation reads all others, so they all take this lock.
BUDGET = "budget"
ANY = "*"


class WriteOperation:
    """`run` None only waits for what was queued before. A queued operation runs, even if its waiter is gone.

    It checks before it writes: after an AishError it has written nothing. `keys` name what no other replica may change
    meanwhile. `turn` is the turn that it makes, ANY if it makes or deletes others: events of that turn that were
    appended before are written before it, those of other turns may be written after it.
    """

    __slots__ = ("durable", "future", "keys", "run", "turn")

    def __init__(
        self,
        run: Run | None,
        *,
        durable: bool,
        keys: Sequence[str] = (),
        turn: str = "",
        future: asyncio.Future[Any] | None = None,
    ) -> None:
        self.run = run
        self.durable = durable
        self.keys = keys
        self.turn = turn
        self.future = future


Item = Append | WriteOperation


def lock_numbers(items: Iterable[Item]) -> list[int]:
    """The advisory locks of a group, in the one order that all replicas take them in."""
    keys = {key for item in items if isinstance(item, WriteOperation) for key in item.keys}
    return sorted(_number(key) for key in keys)


def items_to_keep(items: Iterable[Item]) -> list[Item]:
    return [item for item in items if isinstance(item, Append) or (item.run is not None and item.future is None)]


def bytes_of(items: Iterable[Item]) -> int:
    return sum(len(item.lines) for item in items if isinstance(item, Append))


def _number(key: str) -> int:
    digest = hashlib.blake2b(key.encode("utf-8", "replace"), digest_size=8, person=b"aish").digest()
    return int.from_bytes(digest, "big", signed=True)


Outcome = tuple[WriteOperation, Any, AishError | None]


class PendingTransaction:
    """A transaction under way. `items` are all that it writes, `group` are the items that it was made for."""

    __slots__ = ("backend", "group", "items", "number", "outcomes")

    def __init__(self, number: int, backend: tuple[int, str], items: list[Item], group: list[Item]) -> None:
        self.number = number
        self.backend = backend
        self.items = items
        self.group = group
        self.outcomes: list[Outcome] = []


_ENTER = "INSERT INTO writers (id, number) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING"
# Deletes rows of processes that are long gone, except rows that are being written now.
_SWEEP = """
    DELETE FROM writers WHERE id IN (
      SELECT id FROM writers WHERE seen < now() - interval '7 days' AND id <> $1 LIMIT 100 FOR UPDATE SKIP LOCKED)"""
_WHO = "SELECT pid, backend_start::text FROM pg_stat_activity WHERE pid = pg_backend_pid()"
_END = """
    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE pid = $1 AND backend_start = $2::text::timestamptz"""
# A server may be configured to acknowledge before it has written to disk. Other settings are left as they are.
_BE_DURABLE = """
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"""
# Waits for a transaction that holds the row.
_READ = "SELECT number FROM writers WHERE id = $1 FOR UPDATE"


class CommitMarkers:
    def __init__(self) -> None:
        self.id = secrets.token_hex(12)
        self.unsynced = False  # whether the last commit may not be on the server's disk yet
        self._number = 0
        self._committed = 0
        self._backend = (0, "")

    def next(self, items: list[Item], group: list[Item]) -> PendingTransaction:
        self._number += 1
        return PendingTransaction(self._number, self._backend, items, group)

    def note_commit(self, pending: PendingTransaction, *, durable: bool) -> None:
        self._committed = pending.number
        self.unsynced = not durable

    async def arrive(self, connection: SqlConnection, pending: PendingTransaction | None) -> bool:
        """Prepares a new connection. Returns True if the server has lost a commit that was not on its disk yet."""
        if pending is not None:
            await self._end(connection, pending)
        found = await self._read(connection)
        await connection.run(_ENTER, self.id, self._committed)
        await connection.run(_SWEEP, self.id)
        await connection.value(_BE_DURABLE)
        row = await connection.row(_WHO)
        self._backend = (row[0], row[1]) if row else (0, "")
        lost = self.unsynced and found < self._committed
        if lost:
            self.unsynced = False
        return lost

    async def was_committed(self, connection: SqlConnection, pending: PendingTransaction) -> bool:
        committed = await self._read(connection) >= pending.number
        if committed:
            # Whether it is on the disk is unknown; the next durable group makes sure of it.
            self._committed, self.unsynced = pending.number, True
        return committed

    async def _end(self, connection: SqlConnection, pending: PendingTransaction) -> None:
        pid, started = pending.backend
        if pid:
            await connection.value(_END, pid, started)

    async def _read(self, connection: SqlConnection) -> int:
        return int(await connection.value(_READ, self.id) or 0)


_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
# The server acknowledges before it writes to disk. If it crashes in between, `CommitMarkers` notices the loss.
_QUICKLY = "SET LOCAL synchronous_commit = off"
# Locks the turns: a turn that another process deletes takes these events along, or is seen to be gone.
_APPEND = f"""
    WITH alive AS (SELECT id FROM turns WHERE id = ANY($1::text[]) FOR KEY SHARE)
    INSERT INTO events (cursor, turn, first_seq, last_seq, body)
    SELECT {NEXT_CURSOR} + given.place, given.turn, given.first_seq, given.last_seq, given.body
    FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bytea[])
      WITH ORDINALITY AS given (turn, first_seq, last_seq, body, place)
    WHERE given.turn IN (SELECT id FROM alive)"""


async def begin(connection: SqlConnection, pending: PendingTransaction, writer: str, *, durable: bool) -> None:
    """One message without parameters: numbers, and a name of hexadecimal digits.

    Takes all locks before anything is read, so that reads see what the last holder left.
    """
    number = pending.number
    words = [_BEGIN] if durable else [_BEGIN, _QUICKLY]
    words.append(
        f"INSERT INTO writers (id, number) VALUES ('{writer}', {number})"
        f" ON CONFLICT (id) DO UPDATE SET number = {number}, seen = now()"
    )
    if locks := lock_numbers(pending.items):
        words.append(f"SELECT pg_advisory_xact_lock(number) FROM unnest(ARRAY{locks}::bigint[]) AS wanted (number)")
    await connection.script("; ".join(words))


async def apply(
    connection: SqlConnection, items: Iterable[Item], name: str, *, careful: bool
) -> tuple[list[Outcome], AishError | None]:
    """Returns the outcome of each operation, and the failure of an item without a waiter, if there was one."""
    outcomes: list[Outcome] = []
    lost: AishError | None = None
    for part in _parts(items):
        if isinstance(part, list):
            lost = await _append(connection, part, name, careful=careful) or lost
        else:
            result, error = await _operate(connection, part, name, careful=careful)
            outcomes.append((part, result, error))
            lost = error if error is not None and part.future is None else lost
    return outcomes, lost


def _parts(items: Iterable[Item]) -> Iterator[list[Append] | WriteOperation]:
    """Groups events into as few statements as possible: they wait for the next operation on their turns."""
    appends: list[Append] = []
    turns: set[str] = set()
    for item in items:
        if isinstance(item, Append):
            appends.append(item)
            turns.add(item.turn)
            continue
        if appends and (item.turn == ANY or item.turn in turns):
            yield appends
            appends, turns = [], set()
        yield item
    if appends:
        yield appends


async def _append(connection: SqlConnection, appends: list[Append], name: str, *, careful: bool) -> AishError | None:
    if not careful:
        await _insert(connection, appends)
        return None
    lost = None
    for append in appends:
        _, error = await _run_in_savepoint(connection, partial(_insert, connection, [append]), name)
        lost = error or lost
    return lost


async def _insert(connection: SqlConnection, appends: list[Append]) -> None:
    turns, firsts, lasts, bodies = map(list, zip(*appends, strict=True))
    await connection.run(_APPEND, turns, firsts, lasts, bodies)


async def _operate(
    connection: SqlConnection, operation: WriteOperation, name: str, *, careful: bool
) -> tuple[Any, AishError | None]:
    run = operation.run
    if run is None:
        return None, None
    if careful:
        return await _run_in_savepoint(connection, partial(run, connection), name)
    try:
        return await run(connection), None
    except AishError as exc:
        return None, exc


async def _run_in_savepoint(
    connection: SqlConnection, run: Callable[[], Awaitable[Any]], name: str
) -> tuple[Any, AishError | None]:
    await connection.script("SAVEPOINT operation")
    try:
        result = await run()
    except Exception as exc:  # its waiter gets the error; the rest continues
        if breaks_the_group(exc):
            raise
        await connection.script("ROLLBACK TO operation; RELEASE operation")
        return None, translate(exc, name)
    await connection.script("RELEASE operation")
    return result, None
