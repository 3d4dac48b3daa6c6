"""A group's transaction: begun with its mark and its locks, then its items one after the other.

First without savepoints, which would double the statements: an operation that checks before it writes needs none. If
the database refuses a statement all the same, the group is applied again carefully, each item in a savepoint of its
own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from aish.errors import AishError
from aish.storage.postgres.cursors import NEXT_CURSOR
from aish.storage.postgres.faults import breaks_the_group, translate
from aish.storage.postgres.groups import ANY, Item, Operation, lock_numbers
from aish.storage.postgres.link import Link
from aish.storage.sqlite.write_group import Append

if TYPE_CHECKING:
    from aish.storage.postgres.marks import Doubt

Outcome = tuple[Operation, Any, AishError | None]

_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
# Committed as soon as the server knows: what it has not yet written when it falls is lost, which `marks` notices.
_QUICKLY = "SET LOCAL synchronous_commit = off"
# The turns are held: one that is being deleted elsewhere takes these events along, or is seen to be gone.
_APPEND = f"""
    WITH alive AS (SELECT id FROM turns WHERE id = ANY($1::text[]) FOR KEY SHARE)
    INSERT INTO events (cursor, turn, first_seq, last_seq, body)
    SELECT {NEXT_CURSOR} + given.place, given.turn, given.first_seq, given.last_seq, given.body
    FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bytea[])
      WITH ORDINALITY AS given (turn, first_seq, last_seq, body, place)
    WHERE given.turn IN (SELECT id FROM alive)"""


async def begin(link: Link, doubt: Doubt, writer: str, *, durable: bool) -> None:
    """In one message, so without parameters: numbers, and a name of hexadecimal digits.

    All locks before anything is read: what is read after them is what the last holder left.
    """
    number = doubt.number
    words = [_BEGIN] if durable else [_BEGIN, _QUICKLY]
    words.append(
        f"INSERT INTO writers (id, number) VALUES ('{writer}', {number})"
        f" ON CONFLICT (id) DO UPDATE SET number = {number}, seen = now()"
    )
    if locks := lock_numbers(doubt.items):
        words.append(f"SELECT pg_advisory_xact_lock(number) FROM unnest(ARRAY{locks}::bigint[]) AS wanted (number)")
    await link.script("; ".join(words))


async def apply(
    link: Link, items: Iterable[Item], name: str, *, careful: bool
) -> tuple[list[Outcome], AishError | None]:
    """What each operation came to, and the failure of something nobody waits for, if there was one."""
    outcomes: list[Outcome] = []
    lost: AishError | None = None
    for part in _parts(items):
        if isinstance(part, list):
            lost = await _append(link, part, name, careful=careful) or lost
        else:
            result, error = await _operate(link, part, name, careful=careful)
            outcomes.append((part, result, error))
            lost = error if error is not None and part.future is None else lost
    return outcomes, lost


def _parts(items: Iterable[Item]) -> Iterator[list[Append] | Operation]:
    """Events go in as few statements as can be: they wait for the next operation that concerns their turns."""
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


async def _append(link: Link, appends: list[Append], name: str, *, careful: bool) -> AishError | None:
    if not careful:
        await _insert(link, appends)
        return None
    lost = None
    for append in appends:
        _, error = await _saved(link, partial(_insert, link, [append]), name)
        lost = error or lost
    return lost


async def _insert(link: Link, appends: list[Append]) -> None:
    turns, firsts, lasts, bodies = map(list, zip(*appends, strict=True))
    await link.run(_APPEND, turns, firsts, lasts, bodies)


async def _operate(link: Link, operation: Operation, name: str, *, careful: bool) -> tuple[Any, AishError | None]:
    run = operation.run
    if run is None:
        return None, None
    if careful:
        return await _saved(link, partial(run, link), name)
    try:
        return await run(link), None
    except AishError as exc:
        return None, exc


async def _saved(link: Link, run: Callable[[], Awaitable[Any]], name: str) -> tuple[Any, AishError | None]:
    await link.script("SAVEPOINT operation")
    try:
        result = await run()
    except Exception as exc:  # its waiter gets it; the rest of the group goes on
        if breaks_the_group(exc):
            raise
        await link.script("ROLLBACK TO operation; RELEASE operation")
        return None, translate(exc, name)
    await link.script("RELEASE operation")
    return result, None
