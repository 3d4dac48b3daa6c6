"""The transaction of a group: begins with its number and its locks, then applies its items one after the other.

First without savepoints, which would double the statements: an operation that checks before it writes needs none. If
the database still refuses a statement, the group is applied again, each item in a savepoint.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from typing import Any

from aish.errors import AishError
from aish.storage.postgres.faults import breaks_the_group, translate
from aish.storage.postgres.sql.feed import NEXT_CURSOR
from aish.storage.postgres.sql_connection import SqlConnection
from aish.storage.postgres.write_group import ANY, Item, Outcome, PendingTransaction, WriteOperation, lock_numbers
from aish.storage.sqlite.write_group import Append

_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
# The server acknowledges before it writes to disk. If it crashes in between, `commit_markers` notices the loss.
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
        _, error = await _saved(connection, partial(_insert, connection, [append]), name)
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
        return await _saved(connection, partial(run, connection), name)
    try:
        return await run(connection), None
    except AishError as exc:
        return None, exc


async def _saved(
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
