"""The SQL for documents and facts.

Expired documents are invisible, and each write deletes a few of them. Full-text search in facts is FTS5's, over the
words that `semantics.index_words` finds.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence

import msgspec

from aish.storage.store_rules import DOCUMENT_COLUMNS, FACT_COLUMNS, clock_ms, document_row, fact_of, index_words
from aish.types.records import Document, Fact

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
        f"SELECT {DOCUMENT_COLUMNS} FROM documents WHERE kind = ? AND {_ALIVE} AND id IN ({marks})",
        (kind, clock_ms(), *wanted),
    )
    return [Document(*row) for row in rows.fetchall()]


def select_newest(db: sqlite3.Connection, kind: str, owner: str | None, limit: int) -> Sequence[Document]:
    rows = db.execute(
        f"SELECT {DOCUMENT_COLUMNS} FROM documents WHERE kind = ? AND {_ALIVE} AND (? IS NULL OR owner = ?)"
        " ORDER BY created_ms DESC, id DESC LIMIT ?",
        (kind, clock_ms(), owner, owner, max(limit, 0)),
    )
    return [Document(*row) for row in rows.fetchall()]


def delete(db: sqlite3.Connection, kind: str, id: str) -> bool:
    deleted = db.execute(f"DELETE FROM documents WHERE kind = ? AND id = ? AND {_ALIVE}", (kind, id, clock_ms()))
    return deleted.rowcount > 0


def _insert(db: sqlite3.Connection, how: str, document: Document) -> int:
    inserted = db.execute(
        f"{how} INTO documents ({DOCUMENT_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)",
        document_row(document, clock_ms()),
    )
    return inserted.rowcount


def _sweep(db: sqlite3.Connection) -> None:
    db.execute(
        "DELETE FROM documents WHERE (kind, id) IN"
        " (SELECT kind, id FROM documents WHERE expires_ms > 0 AND expires_ms <= ? LIMIT ?)",
        (clock_ms(), _SWEEP),
    )


def put_facts(db: sqlite3.Connection, facts: Sequence[Fact]) -> None:
    """Replaces facts of the same id."""
    db.executemany(
        "INSERT INTO facts (id, text, created_ms, updated_ms, kind, tags, source, folded)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (id) DO UPDATE SET text = excluded.text, updated_ms = excluded.updated_ms, kind = excluded.kind,"
        " tags = excluded.tags, source = excluded.source, folded = excluded.folded",
        [_fact_row(fact) for fact in facts],
    )


def delete_fact(db: sqlite3.Connection, id: str) -> bool:
    return db.execute("DELETE FROM facts WHERE id = ?", (id,)).rowcount > 0


def clear_facts(db: sqlite3.Connection) -> int:
    return db.execute("DELETE FROM facts").rowcount


def select_newest_facts(db: sqlite3.Connection, limit: int) -> list[Fact]:
    rows = db.execute(
        f"SELECT {FACT_COLUMNS} FROM facts f ORDER BY f.updated_ms DESC, f.id DESC LIMIT ?", (max(limit, 0),)
    )
    return [fact_of(row) for row in rows.fetchall()]


def select_fact(db: sqlite3.Connection, id: str) -> Fact | None:
    row = db.execute(f"SELECT {FACT_COLUMNS} FROM facts f WHERE f.id = ?", (id,)).fetchone()
    return fact_of(row) if row else None


def search_facts(db: sqlite3.Connection, query: str, limit: int) -> list[Fact]:
    """Facts with any of the words, the best match first."""
    words = dict.fromkeys(index_words(query))
    if not words:
        return []
    rows = db.execute(
        f"SELECT {FACT_COLUMNS} FROM facts_index i JOIN facts f ON f.rowid = i.rowid WHERE facts_index MATCH ?"
        " ORDER BY i.rank, f.updated_ms DESC, f.id DESC LIMIT ?",
        (" OR ".join(f'"{word}"' for word in words), max(limit, 0)),
    )
    return [fact_of(row) for row in rows.fetchall()]


def _fact_row(fact: Fact) -> tuple[object, ...]:
    tags = msgspec.json.encode(fact.tags).decode()
    folded = " ".join(index_words(f"{fact.text} {' '.join(fact.tags)}"))
    return (fact.id, fact.text, fact.created_ms, fact.updated_ms, fact.kind.value, tags, fact.source, folded)
