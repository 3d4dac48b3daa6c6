"""The feed: rows of all turns, whoever wrote them, in an order in which none appears below one that was read.

Replicas commit in another order than they begin, so a plain counter would let a row appear late. A cursor starts with
the number of its transaction, and only rows of transactions older than the oldest that is still under way are shown:
those are all there, or will never be. A long transaction of anybody on the server holds the feed up while it lasts.
"""

from __future__ import annotations

from collections.abc import Sequence

from aish.storage.postgres.link import Link
from aish.types.records import FeedRow

# A group has far fewer rows.
_PLACE_BITS = 16
_FIRST = f"(pg_current_xact_id()::text::bigint << {_PLACE_BITS})"
_LAST = f"({_FIRST} + {2**_PLACE_BITS - 1})"
_SHOWN = f"cursor < (pg_snapshot_xmin(pg_current_snapshot())::text::bigint << {_PLACE_BITS})"
# What this transaction has written so far, and nobody else; the first place of the next statement's rows is one above.
NEXT_CURSOR = f"(SELECT coalesce(max(cursor), {_FIRST}) FROM events WHERE cursor BETWEEN {_FIRST} AND {_LAST})"


async def select_rows(link: Link, after: int, limit: int) -> Sequence[FeedRow]:
    rows = await link.rows(
        "SELECT cursor, turns.session, turn, first_seq, body FROM events JOIN turns ON turns.id = turn"
        f" WHERE cursor > $1 AND {_SHOWN} ORDER BY cursor LIMIT $2",
        after,
        max(limit, 0),
    )
    return [FeedRow(*row) for row in rows]


async def select_end(link: Link) -> int:
    return int(await link.value(f"SELECT coalesce(max(cursor), 0) FROM events WHERE {_SHOWN}"))


async def delete_events(link: Link, turns: Sequence[str]) -> None:
    """The newest row is not deleted but emptied: it tells where the feed ends."""
    newest = await link.value("SELECT coalesce(max(cursor), 0) FROM events")
    given = list(turns)
    await link.run("DELETE FROM events WHERE (turn = ANY($1::text[]) OR turn = '') AND cursor < $2", given, newest)
    await link.run(
        "UPDATE events SET turn = '', first_seq = 0, last_seq = 0, body = '' WHERE turn = ANY($1::text[])", given
    )
