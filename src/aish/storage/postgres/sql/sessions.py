"""The SQL for sessions, turns and events, and for the feed, which never adds an event below one that was read.

An operation that changes a session holds its lock key (see `transaction`), so each is one statement where possible.

Replicas commit in another order than they begin, so a plain counter would let rows of the feed appear late. A cursor
begins with the number of its transaction. Only rows of transactions older than the oldest running one are shown: those
are complete. A long transaction of any program on the server therefore delays the feed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from aish.storage.postgres.database import SqlConnection
from aish.storage.postgres.sql import runs
from aish.storage.store_rules import (
    OF_SESSIONS,
    RUNNING,
    SESSION_COLUMNS,
    TURN_COLUMNS,
    already_there,
    events_after,
    fold,
    fold_messages,
    messages_decoder,
    no_session,
    no_turn,
    title_of,
    turn_of,
)
from aish.types.events import TurnEnd
from aish.types.messages import Message
from aish.types.records import FeedRow, SessionRecord, TurnRecord
from aish.types.usage import Usage

# A group has far fewer rows.
_ROW_BITS = 16
_FIRST = f"(pg_current_xact_id()::text::bigint << {_ROW_BITS})"
_LAST = f"({_FIRST} + {2**_ROW_BITS - 1})"
_SHOWN = f"cursor < (pg_snapshot_xmin(pg_current_snapshot())::text::bigint << {_ROW_BITS})"
# The last row of this transaction so far. The rows of the next statement begin one above it.
NEXT_CURSOR = f"(SELECT coalesce(max(cursor), {_FIRST}) FROM events WHERE cursor BETWEEN {_FIRST} AND {_LAST})"


async def select_feed(connection: SqlConnection, after: int, limit: int) -> Sequence[FeedRow]:
    rows = await connection.rows(
        "SELECT cursor, turns.session, turn, first_seq, body FROM events JOIN turns ON turns.id = turn"
        f" WHERE cursor > $1 AND {_SHOWN} ORDER BY cursor LIMIT $2",
        after,
        max(limit, 0),
    )
    return [FeedRow(*row) for row in rows]


async def select_feed_end(connection: SqlConnection) -> int:
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


_encoder = msgspec.json.Encoder()

_INSERT_SESSION = f"""
    INSERT INTO sessions ({SESSION_COLUMNS}, folded) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
    ON CONFLICT (id) DO NOTHING"""

# The same as `semantics.session_with_turn`.
_START_TURN = """
    WITH started AS (
      UPDATE sessions SET
        updated_ms = greatest(updated_ms, $5),
        title = CASE WHEN title = '' THEN $8 ELSE title END,
        folded = CASE WHEN title = '' THEN $9 ELSE folded END,
        model = CASE WHEN $4 = '' THEN model ELSE $4 END,
        turns = (SELECT coalesce(max(number), 0) + 1 FROM turns WHERE session = $2 AND session <> '')
      WHERE id = $2 AND NOT EXISTS (SELECT 1 FROM turns WHERE id = $1)
      RETURNING turns)
    INSERT INTO turns (id, session, number, owner, model, started_ms, input, folded)
    SELECT $1, $2, turns, $3, $4, $5, $6, $7 FROM started ON CONFLICT (id) DO NOTHING RETURNING number"""

_START_TURN_OF_NONE = """
    INSERT INTO turns (id, session, number, model, started_ms, owner, input, folded)
    VALUES ($1, '', 0, $2, $3, $4, $5, '') ON CONFLICT (id) DO NOTHING"""

_RECORD_TURN = f"""
    WITH recorded AS (
      INSERT INTO turns
        (id, session, number, model, started_ms, owner, input, folded, state, finished_ms, messages, usage)
      VALUES ($1, '', 0, $2, $3, $4, $5, '', $6, $7, $8, $9) ON CONFLICT (id) DO NOTHING RETURNING id)
    INSERT INTO events (cursor, turn, first_seq, last_seq, body)
    SELECT {NEXT_CURSOR} + 1, id, 1, $10, $11 FROM recorded"""

_FINISH_TURN = """
    WITH finished AS (
      UPDATE turns SET state = $2, finished_ms = $3, messages = $4, usage = $5, folded = $6
      WHERE id = $1 RETURNING session)
    UPDATE sessions SET updated_ms = greatest(updated_ms, $3)
    WHERE id IN (SELECT session FROM finished WHERE session <> '')"""

# Every word is in the title or in a turn.
_SELECT_SESSIONS = f"""
    SELECT {SESSION_COLUMNS} FROM sessions s
    WHERE starts_with(id, $3) AND ($6::text IS NULL OR parent = $6::text)
      AND ($4::bigint IS NULL OR (updated_ms, id) < ($4::bigint, $5::text))
      AND NOT EXISTS (
        SELECT 1 FROM unnest($2::text[]) AS wanted (word) WHERE strpos(s.folded, word) = 0 AND NOT EXISTS (
          SELECT 1 FROM turns t WHERE t.session = s.id AND t.session <> '' AND strpos(t.folded, word) > 0))
    ORDER BY updated_ms DESC, id DESC LIMIT $1"""


async def insert_session(connection: SqlConnection, session: SessionRecord) -> None:
    if not await connection.run(_INSERT_SESSION, *msgspec.structs.astuple(session), fold(session.title)):
        raise already_there("session", session.id)


_CHILDREN = "SELECT id FROM sessions WHERE parent = $1 OR parent IN (SELECT id FROM turns WHERE session = $1)"


async def delete_session(connection: SqlConnection, session: str) -> bool:
    for (child,) in await connection.rows(_CHILDREN, session) if session else ():
        await delete_session(connection, child)
    await _delete_turns(connection, "session = $1", session)
    for kind in OF_SESSIONS:
        await connection.run("DELETE FROM documents WHERE kind = $1 AND id = $2", kind, session)
    await runs.delete_of_session(connection, session)
    return await connection.run("DELETE FROM sessions WHERE id = $1", session) > 0


async def insert_turn(connection: SqlConnection, turn: TurnRecord) -> int:
    if not turn.session:
        return await _insert_turn_of_none(connection, turn)
    title = title_of(turn.input)
    number = await connection.value(
        _START_TURN,
        turn.id,
        turn.session,
        turn.owner,
        turn.model,
        turn.started_ms,
        _encoder.encode(turn.input),
        fold_messages(turn.input),
        title,
        fold(title),
    )
    if number is None:
        known = await connection.value("SELECT 1 FROM sessions WHERE id = $1", turn.session)
        raise already_there("turn", turn.id) if known else no_session(turn.session)
    return int(number)


async def _insert_turn_of_none(connection: SqlConnection, turn: TurnRecord) -> int:
    given = (turn.id, turn.model, turn.started_ms, turn.owner, _encoder.encode(turn.input))
    if not await connection.run(_START_TURN_OF_NONE, *given):
        raise already_there("turn", turn.id)
    return 0


async def insert_ended_turn(connection: SqlConnection, turn: TurnRecord, last_seq: int, lines: bytes) -> None:
    """A turn without a session, with its events."""
    await connection.run(
        _RECORD_TURN,
        turn.id,
        turn.model,
        turn.started_ms,
        turn.owner,
        _encoder.encode(turn.input),
        RUNNING if turn.end is None else turn.end.value,
        turn.finished_ms,
        _encoder.encode(turn.messages),
        _encoder.encode(turn.usage),
        last_seq,
        lines,
    )


# The newest turn that does not fit any more.
_TOO_OLD = """
    SELECT started_ms FROM (
      SELECT started_ms, sum(octet_length(body)) OVER (ORDER BY started_ms DESC) AS total
      FROM turns JOIN events ON turn = turns.id WHERE session = '') AS traces
    WHERE total > $1 ORDER BY started_ms DESC LIMIT 1"""


async def select_trace_cutoff(connection: SqlConnection, max_bytes: int) -> int:
    """The time before which turns of no session have to go; 0 if all fit."""
    row = await connection.row(_TOO_OLD, max_bytes)
    return int(row[0]) + 1 if row else 0


async def delete_turns(connection: SqlConnection, session: str, before_ms: int) -> int:
    return await _delete_turns(connection, "session = $1 AND started_ms < $2", session, before_ms)


async def _delete_turns(connection: SqlConnection, where: str, *given: Any) -> int:
    """Deletes turns first: a writer that still appends to one has locked it, and its events are there when they are
    deleted."""
    deleted = [row[0] for row in await connection.rows(f"DELETE FROM turns WHERE {where} RETURNING id", *given)]
    if deleted:
        await delete_events(connection, deleted)
    return len(deleted)


async def finish_turn(
    connection: SqlConnection, turn: str, end: TurnEnd, finished_ms: int, messages: Sequence[Message], usage: Usage
) -> None:
    row = await connection.row("SELECT session, input FROM turns WHERE id = $1", turn)
    if row is None:
        raise no_turn(turn)
    folded = fold_messages([*messages_decoder.decode(row[1]), *messages]) if row[0] else ""
    written = (_encoder.encode(messages), _encoder.encode(usage), folded)
    await connection.run(_FINISH_TURN, turn, end.value, finished_ms, *written)


async def select_session(connection: SqlConnection, session: str) -> SessionRecord | None:
    row = await connection.row(f"SELECT {SESSION_COLUMNS} FROM sessions WHERE id = $1", session)
    return SessionRecord(*row) if row else None


async def select_sessions(
    connection: SqlConnection,
    limit: int,
    words: Sequence[str],
    under: str,
    before: tuple[int, str] | None,
    parent: str | None,
) -> list[SessionRecord]:
    place = before or (None, None)
    rows = await connection.rows(_SELECT_SESSIONS, max(limit, 0), list(words), under, *place, parent)
    return [SessionRecord(*row) for row in rows]


# `0` follows `/`.
_STORED_BYTES = """
    SELECT (SELECT coalesce(sum(octet_length(body)), 0) FROM documents WHERE owner = $1 AND owner <> '')
      + (SELECT coalesce(sum(octet_length(input) + coalesce(octet_length(messages), 0)), 0) FROM turns
         WHERE session >= $1 || '/' AND session < $1 || '0')
      + (SELECT coalesce(sum(octet_length(body)), 0) FROM turns JOIN events ON turn = turns.id
         WHERE session >= $1 || '/' AND session < $1 || '0')"""


async def select_stored_bytes(connection: SqlConnection, owner: str) -> int:
    row = await connection.row(_STORED_BYTES, owner)
    return int(row[0]) if row else 0


async def select_turn(connection: SqlConnection, turn: str) -> TurnRecord | None:
    row = await connection.row(f"SELECT {TURN_COLUMNS} FROM turns WHERE id = $1", turn)
    return turn_of(row) if row else None


async def select_turns(
    connection: SqlConnection, session: str, before: int | None, limit: int | None
) -> list[TurnRecord]:
    rows = await connection.rows(
        f"SELECT {TURN_COLUMNS} FROM turns WHERE session = $1 AND session <> '' AND ($2::bigint IS NULL OR number < $2)"
        " ORDER BY number DESC LIMIT $3",
        session,
        before,
        None if limit is None else max(limit, 0),
    )
    return [turn_of(row) for row in reversed(rows)]


async def select_events(connection: SqlConnection, turn: str, after_seq: int) -> bytes:
    rows = await connection.rows(
        "SELECT first_seq, body FROM events WHERE turn = $1 AND last_seq > $2 ORDER BY first_seq, cursor",
        turn,
        after_seq,
    )
    return events_after([(first_seq, body) for first_seq, body in rows], after_seq)
