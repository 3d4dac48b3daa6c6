"""The SQL for sessions, turns and events, and for the feed: all events in the order in which they were committed.

The cursor of the feed is the rowid. Writers take turns, so rows appear in the order of their rowids. The newest row is
emptied instead of deleted: otherwise SQLite would reuse its number, and readers that have seen it would miss the new
row.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

import msgspec

from aish.storage.sqlite import runs_sql
from aish.storage.sqlite.bulk_insert import BulkInsert, blob
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
    session_with_turn,
    turn_of,
)
from aish.storage.write_queue import Append
from aish.types.events import TurnEnd
from aish.types.messages import Message
from aish.types.records import FeedRow, SessionRecord, TurnRecord
from aish.types.usage import Usage


def select_feed(db: sqlite3.Connection, after: int, limit: int) -> list[FeedRow]:
    rows = db.execute(
        "SELECT events.rowid, turns.session, events.turn, first_seq, body FROM events JOIN turns ON turns.id = turn"
        " WHERE events.rowid > ? ORDER BY events.rowid LIMIT ?",
        (after, max(limit, 0)),
    )
    return [FeedRow(*row) for row in rows.fetchall()]


def select_feed_end(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT coalesce(max(rowid), 0) FROM events").fetchone()[0])


def delete_events(db: sqlite3.Connection, turns: str, values: Sequence[object]) -> None:
    """Deletes the events of the turns that the query `turns` finds."""
    newest = select_feed_end(db)
    db.execute(f"DELETE FROM events WHERE turn IN ({turns}) AND rowid < ?", (*values, newest))
    db.execute("DELETE FROM events WHERE turn = '' AND rowid < ?", (newest,))
    db.execute(
        f"UPDATE events SET turn = '', first_seq = 0, last_seq = 0, body = x'' WHERE turn IN ({turns})", tuple(values)
    )


_encoder = msgspec.json.Encoder()
_NONE = blob(b"[]")


def insert_session(db: sqlite3.Connection, session: SessionRecord) -> None:
    if db.execute("SELECT 1 FROM sessions WHERE id = ?", (session.id,)).fetchone():
        raise already_there("session", session.id)
    db.execute(
        f"INSERT INTO sessions ({SESSION_COLUMNS}, folded) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (*msgspec.structs.astuple(session), fold(session.title)),
    )


_CHILDREN = "SELECT id FROM sessions WHERE parent = ? OR parent IN (SELECT id FROM turns WHERE session = ?)"


def delete_session(db: sqlite3.Connection, session: str) -> bool:
    for (child,) in db.execute(_CHILDREN, (session, session)).fetchall() if session else ():
        delete_session(db, child)
    delete_events(db, "SELECT id FROM turns WHERE session = ?", (session,))
    db.execute("DELETE FROM turns WHERE session = ?", (session,))
    db.executemany("DELETE FROM documents WHERE kind = ? AND id = ?", ((kind, session) for kind in OF_SESSIONS))
    runs_sql.delete_of_session(db, session)
    return db.execute("DELETE FROM sessions WHERE id = ?", (session,)).rowcount > 0


def insert_turn(db: sqlite3.Connection, turn: TurnRecord) -> int:
    if not turn.session:
        return _insert_turn_of_none(db, turn)
    session = select_session(db, turn.session)
    if session is None:
        raise no_session(turn.session)
    if db.execute("SELECT 1 FROM turns WHERE id = ?", (turn.id,)).fetchone():
        raise already_there("turn", turn.id)
    last = db.execute("SELECT max(number) FROM turns WHERE session = ?", (turn.session,)).fetchone()[0]
    number = (last or 0) + 1
    db.execute(
        "INSERT INTO turns (id, session, number, model, started_ms, owner, input, folded)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            turn.id,
            turn.session,
            number,
            turn.model,
            turn.started_ms,
            turn.owner,
            _encoder.encode(turn.input),
            fold_messages(turn.input),
        ),
    )
    _update_session(db, session_with_turn(session, turn, number))
    return number


def _insert_turn_of_none(db: sqlite3.Connection, turn: TurnRecord) -> int:
    """A turn without a session is not searchable. One statement, since a server makes thousands of them."""
    inserted = db.execute(
        "INSERT OR IGNORE INTO turns (id, session, number, model, started_ms, owner, input, folded)"
        " SELECT ?, '', coalesce(max(rowid), 0) + 1, ?, ?, ?, ?, '' FROM turns",
        (turn.id, turn.model, turn.started_ms, turn.owner, _encoder.encode(turn.input)),
    )
    if not inserted.rowcount:
        raise already_there("turn", turn.id)
    return 0


class EndedTurn(msgspec.Struct, frozen=True):
    """A turn without a session, with its events."""

    turn: TurnRecord
    last_seq: int
    lines: bytes


# `number` is the rowid, which is set explicitly: if a turn exists already, the two would differ and a number repeat.
_ENDED_COLUMNS = (
    "rowid, id, session, number, model, started_ms, owner, input, folded, state, finished_ms, messages, usage"
)
_INSERT_ENDED = BulkInsert(f"INSERT OR IGNORE INTO turns ({_ENDED_COLUMNS})", columns=13)
_INSERT_ENDED_EVENTS = BulkInsert(
    "INSERT INTO events (turn, first_seq, last_seq, body)",
    columns=4,
    also="NOT EXISTS (SELECT 1 FROM events WHERE turn = new.column1)",
)


def insert_ended_turns(db: sqlite3.Connection, ended: Sequence[EndedTurn]) -> None:
    number = db.execute("SELECT coalesce(max(rowid), 0) FROM turns").fetchone()[0]
    _INSERT_ENDED.insert(db, [_ended_row(one.turn, number + index) for index, one in enumerate(ended, 1)])
    _INSERT_ENDED_EVENTS.insert(db, [(one.turn.id, 1, one.last_seq, blob(one.lines)) for one in ended])


_INSERT_EVENTS = BulkInsert(
    "INSERT INTO events (turn, first_seq, last_seq, body)",
    columns=4,
    also="EXISTS (SELECT 1 FROM turns WHERE id = new.column1)",
)


def insert_events(db: sqlite3.Connection, appends: Sequence[Append]) -> None:
    _INSERT_EVENTS.insert(db, [(turn, first, last, blob(lines)) for turn, first, last, lines in appends])


def _ended_row(turn: TurnRecord, number: int) -> tuple[Any, ...]:
    return (
        number,
        turn.id,
        "",
        number,
        turn.model,
        turn.started_ms,
        turn.owner,
        blob(_encoder.encode(turn.input)) if turn.input else _NONE,
        "",
        RUNNING if turn.end is None else turn.end._value_,  # `value` is a function
        turn.finished_ms,
        blob(_encoder.encode(turn.messages)) if turn.messages else _NONE,
        blob(_encoder.encode(turn.usage)),
    )


def delete_turns(db: sqlite3.Connection, session: str, before_ms: int) -> int:
    chosen = "SELECT id FROM turns WHERE session = ? AND started_ms < ?"
    delete_events(db, chosen, (session, before_ms))
    return db.execute("DELETE FROM turns WHERE session = ? AND started_ms < ?", (session, before_ms)).rowcount


# The newest turn that does not fit any more.
_TOO_OLD = """
    SELECT started_ms FROM (
      SELECT started_ms, sum(length(body)) OVER (ORDER BY started_ms DESC) AS total
      FROM turns JOIN events ON turn = turns.id WHERE session = '') AS traces
    WHERE total > ? ORDER BY started_ms DESC LIMIT 1"""


def select_trace_cutoff(db: sqlite3.Connection, max_bytes: int) -> int:
    """The time before which turns of no session have to go; 0 if all fit. A small file needs no look at its rows."""
    pages, page_bytes = (int(db.execute(f"PRAGMA {name}").fetchone()[0]) for name in ("page_count", "page_size"))
    row = db.execute(_TOO_OLD, (max_bytes,)).fetchone() if pages * page_bytes > max_bytes else None
    return int(row[0]) + 1 if row else 0


def finish_turn(
    db: sqlite3.Connection, turn: str, end: TurnEnd, finished_ms: int, messages: Sequence[Message], usage: Usage
) -> None:
    row = db.execute("SELECT session, input FROM turns WHERE id = ?", (turn,)).fetchone()
    if row is None:
        raise no_turn(turn)
    folded = fold_messages([*messages_decoder.decode(row[1]), *messages]) if row[0] else ""
    db.execute(
        "UPDATE turns SET state = ?, finished_ms = ?, messages = ?, usage = ?, folded = ? WHERE id = ?",
        (end.value, finished_ms, _encoder.encode(messages), _encoder.encode(usage), folded, turn),
    )
    if row[0]:
        db.execute("UPDATE sessions SET updated_ms = max(updated_ms, ?) WHERE id = ?", (finished_ms, row[0]))


def select_session(db: sqlite3.Connection, session: str) -> SessionRecord | None:
    row = db.execute(f"SELECT {SESSION_COLUMNS} FROM sessions WHERE id = ?", (session,)).fetchone()
    return SessionRecord(*row) if row else None


def select_sessions(
    db: sqlite3.Connection,
    limit: int,
    words: Sequence[str],
    under: str,
    before: tuple[int, str] | None,
    parent: str | None,
) -> list[SessionRecord]:
    found = "(instr(folded, ?) OR EXISTS (SELECT 1 FROM turns t WHERE t.session = sessions.id AND instr(t.folded, ?)))"
    conditions: list[str] = []
    values: list[str | int] = []
    if before is not None:
        conditions.append("(updated_ms, id) < (?, ?)")
        values += before
    if parent is not None:
        conditions.append("parent = ?")
        values.append(parent)
    if under:
        conditions.append("substr(id, 1, ?) = ?")
        values += [len(under), under]
    for word in words:
        conditions.append(found)
        values += [word, word]
    where = "WHERE " + " AND ".join(conditions) if conditions else ""
    rows = db.execute(
        f"SELECT {SESSION_COLUMNS} FROM sessions {where} ORDER BY updated_ms DESC, id DESC LIMIT ?",
        (*values, max(limit, 0)),
    )
    return [SessionRecord(*row) for row in rows.fetchall()]


# Of a large value only the length is read. `0` follows `/`.
_STORED_BYTES = """
    SELECT (SELECT coalesce(sum(length(body)), 0) FROM documents WHERE owner = :owner AND owner <> '')
      + (SELECT coalesce(sum(length(input) + coalesce(length(messages), 0)), 0) FROM turns
         WHERE session >= :owner || '/' AND session < :owner || '0')
      + (SELECT coalesce(sum(length(body)), 0) FROM turns JOIN events ON turn = turns.id
         WHERE session >= :owner || '/' AND session < :owner || '0')"""


def select_stored_bytes(db: sqlite3.Connection, owner: str) -> int:
    return int(db.execute(_STORED_BYTES, {"owner": owner}).fetchone()[0])


def select_turn(db: sqlite3.Connection, turn: str) -> TurnRecord | None:
    row = db.execute(f"SELECT {TURN_COLUMNS} FROM turns WHERE id = ?", (turn,)).fetchone()
    return turn_of(row) if row else None


def select_turns(db: sqlite3.Connection, session: str, before: int | None, limit: int | None) -> list[TurnRecord]:
    rows = db.execute(
        f"SELECT {TURN_COLUMNS} FROM turns WHERE session = ? AND (? IS NULL OR number < ?)"
        " ORDER BY number DESC LIMIT ?",
        (session, before, before, -1 if limit is None else max(limit, 0)),
    )
    return [turn_of(row) for row in reversed(rows.fetchall())]


def select_events(db: sqlite3.Connection, turn: str, after_seq: int) -> bytes:
    rows = db.execute(
        "SELECT first_seq, body FROM events WHERE turn = ? AND last_seq > ? ORDER BY first_seq, rowid",
        (turn, after_seq),
    )
    return events_after(rows.fetchall(), after_seq)


def _update_session(db: sqlite3.Connection, session: SessionRecord) -> None:
    db.execute(
        "UPDATE sessions SET updated_ms = ?, title = ?, folded = ?, model = ?, turns = ? WHERE id = ?",
        (session.updated_ms, session.title, fold(session.title), session.model, session.turns, session.id),
    )
