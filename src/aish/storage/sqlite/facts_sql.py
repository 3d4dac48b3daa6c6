"""The SQL for facts. Full-text search is FTS5's, over the words that `texts.index_words` finds."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec

from aish.storage.semantics import fact_of
from aish.storage.texts import index_words
from aish.types.facts import Fact

_COLUMNS = "f.id, f.text, f.created_ms, f.updated_ms, f.kind, f.tags, f.source"


def put(db: sqlite3.Connection, facts: Sequence[Fact]) -> None:
    """Replaces facts of the same id."""
    db.executemany(
        "INSERT INTO facts (id, text, created_ms, updated_ms, kind, tags, source, folded)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (id) DO UPDATE SET text = excluded.text, updated_ms = excluded.updated_ms, kind = excluded.kind,"
        " tags = excluded.tags, source = excluded.source, folded = excluded.folded",
        [_row(fact) for fact in facts],
    )


def delete(db: sqlite3.Connection, id: str) -> bool:
    return db.execute("DELETE FROM facts WHERE id = ?", (id,)).rowcount > 0


def clear(db: sqlite3.Connection) -> int:
    return db.execute("DELETE FROM facts").rowcount


def select_newest(db: sqlite3.Connection, limit: int) -> list[Fact]:
    rows = db.execute(f"SELECT {_COLUMNS} FROM facts f ORDER BY f.updated_ms DESC, f.id DESC LIMIT ?", (max(limit, 0),))
    return [fact_of(row) for row in rows.fetchall()]


def select_one(db: sqlite3.Connection, id: str) -> Fact | None:
    row = db.execute(f"SELECT {_COLUMNS} FROM facts f WHERE f.id = ?", (id,)).fetchone()
    return fact_of(row) if row else None


def search(db: sqlite3.Connection, query: str, limit: int) -> list[Fact]:
    """Facts with any of the words, the best match first."""
    words = dict.fromkeys(index_words(query))
    if not words:
        return []
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM facts_index i JOIN facts f ON f.rowid = i.rowid WHERE facts_index MATCH ?"
        " ORDER BY i.rank, f.updated_ms DESC, f.id DESC LIMIT ?",
        (" OR ".join(f'"{word}"' for word in words), max(limit, 0)),
    )
    return [fact_of(row) for row in rows.fetchall()]


def _row(fact: Fact) -> tuple[object, ...]:
    tags = msgspec.json.encode(fact.tags).decode()
    folded = " ".join(index_words(f"{fact.text} {' '.join(fact.tags)}"))
    return (fact.id, fact.text, fact.created_ms, fact.updated_ms, fact.kind.value, tags, fact.source, folded)
