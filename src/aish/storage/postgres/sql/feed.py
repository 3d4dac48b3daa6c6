"""The SQL for the feed: the events of all turns, in an order in which none appears below one that was read before.

Replicas commit in another order than they begin, so a plain counter would let rows appear late. A cursor begins with
the number of its transaction. Only rows of transactions older than the oldest running one are shown: those are
complete. A long transaction of any program on the server therefore delays the feed.
"""

from __future__ import annotations

from collections.abc import Sequence

from aish.storage.postgres.sql_connection import SqlConnection
from aish.types.records import FeedRow

# A group has far fewer rows.
_PLACE_BITS = 16
_FIRST = f"(pg_current_xact_id()::text::bigint << {_PLACE_BITS})"
_LAST = f"({_FIRST} + {2**_PLACE_BITS - 1})"
_SHOWN = f"cursor < (pg_snapshot_xmin(pg_current_snapshot())::text::bigint << {_PLACE_BITS})"
# The last row of this transaction so far. The rows of the next statement begin one above it.
NEXT_CURSOR = f"(SELECT coalesce(max(cursor), {_FIRST}) FROM events WHERE cursor BETWEEN {_FIRST} AND {_LAST})"


async def select_rows(connection: SqlConnection, after: int, limit: int) -> Sequence[FeedRow]:
    rows = await connection.rows(
        "SELECT cursor, turns.session, turn, first_seq, body FROM events JOIN turns ON turns.id = turn"
        f" WHERE cursor > $1 AND {_SHOWN} ORDER BY cursor LIMIT $2",
        after,
        max(limit, 0),
    )
    return [FeedRow(*row) for row in rows]


async def select_end(connection: SqlConnection) -> int:
    return int(await connection.value(f"SELECT coalesce(max(cursor), 0) FROM events WHERE {_SHOWN}"))


async def delete_events(connection: SqlConnection, turns: Sequence[str]) -> None:
    """The newest row is emptied instead of deleted, because it marks the end of the feed."""
    newest = await connection.value("SELECT coalesce(max(cursor), 0) FROM events")
    given = list(turns)
    await connection.run(
        "DELETE FROM events WHERE (turn = ANY($1::text[]) OR turn = '') AND cursor < $2", given, newest
    )
    await connection.run(
        "UPDATE events SET turn = '', first_seq = 0, last_seq = 0, body = '' WHERE turn = ANY($1::text[])", given
    )
