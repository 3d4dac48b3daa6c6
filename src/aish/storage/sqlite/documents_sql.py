"""The SQL for documents. Expired ones are invisible, and each write deletes a few of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence

from aish.storage.semantics import clock_ms, document_row
from aish.types.records import Document

_COLUMNS = "kind, id, body, owner, created_ms, expires_ms"
_ALIVE = "(expires_ms = 0 OR expires_ms > ?)"
# Expired documents deleted at each write: more than one, so that they run out.
_SWEEP = 4
# SQLite takes at most 32 766 parameters; a conversation has far fewer calls.
_MAX_IDS = 10_000


def put(db: sqlite3.Connection, document: Document) -> None:
    _sweep(db)
    _insert(db, "INSERT OR REPLACE", document)


def put_new(db: sqlite3.Connection, document: Document) -> bool:
    db.execute(
        f"DELETE FROM documents WHERE kind = ? AND id = ? AND NOT {_ALIVE}", (document.kind, document.id, clock_ms())
    )
    return _insert(db, "INSERT OR IGNORE", document) > 0


def swap(db: sqlite3.Connection, document: Document, old: bytes) -> bool:
    changed = db.execute(
        f"UPDATE documents SET body = ?, expires_ms = ? WHERE kind = ? AND id = ? AND body = ? AND {_ALIVE}",
        (document.body, document.expires_ms, document.kind, document.id, old, clock_ms()),
    )
    return changed.rowcount > 0


def select_many(db: sqlite3.Connection, kind: str, ids: Collection[str]) -> list[Document]:
    wanted = list(ids)[:_MAX_IDS]
    marks = ", ".join("?" * len(wanted))
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM documents WHERE kind = ? AND {_ALIVE} AND id IN ({marks})", (kind, clock_ms(), *wanted)
    )
    return [Document(*row) for row in rows.fetchall()]


def select_newest(db: sqlite3.Connection, kind: str, owner: str | None, limit: int) -> Sequence[Document]:
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM documents WHERE kind = ? AND {_ALIVE} AND (? IS NULL OR owner = ?)"
        " ORDER BY created_ms DESC, id DESC LIMIT ?",
        (kind, clock_ms(), owner, owner, max(limit, 0)),
    )
    return [Document(*row) for row in rows.fetchall()]


def delete(db: sqlite3.Connection, kind: str, id: str) -> bool:
    deleted = db.execute(f"DELETE FROM documents WHERE kind = ? AND id = ? AND {_ALIVE}", (kind, id, clock_ms()))
    return deleted.rowcount > 0


def _insert(db: sqlite3.Connection, how: str, document: Document) -> int:
    inserted = db.execute(
        f"{how} INTO documents ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)",
        document_row(document, clock_ms()),
    )
    return inserted.rowcount


def _sweep(db: sqlite3.Connection) -> None:
    db.execute(
        "DELETE FROM documents WHERE (kind, id) IN"
        " (SELECT kind, id FROM documents WHERE expires_ms > 0 AND expires_ms <= ? LIMIT ?)",
        (clock_ms(), _SWEEP),
    )
