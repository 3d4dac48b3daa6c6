"""The SQL for documents and facts.

Expired documents are invisible, and each write deletes a few of them. Full-text search in facts is PostgreSQL's, over
the words that `semantics.index_words` finds. Each is stored as a lexeme, as the configuration `simple` would do, except
that it divides text into other words.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from aish.storage.postgres.database import SqlConnection
from aish.storage.store_rules import (
    DOCUMENT_COLUMNS,
    FACT_COLUMNS,
    clock_ms,
    document_row,
    fact_of,
    index_words,
    whole_words,
)
from aish.types.records import Document, Fact

# Deletes a few expired documents at each write, so that they run out. Rows that others are deleting are skipped.
_SWEEP = """
    DELETE FROM documents WHERE (kind, id) IN (
      SELECT kind, id FROM documents WHERE expires_ms > 0 AND expires_ms <= $1 LIMIT 4 FOR UPDATE SKIP LOCKED)"""
_PUT = f"""
    INSERT INTO documents AS kept ({DOCUMENT_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (kind, id) DO UPDATE SET
      body = excluded.body, owner = excluded.owner,
      created_ms = excluded.created_ms, expires_ms = excluded.expires_ms"""
_PUT_NEW = f"{_PUT} WHERE kept.expires_ms > 0 AND kept.expires_ms <= $7"
_SWAP = """
    UPDATE documents SET body = $3, expires_ms = $4
    WHERE kind = $1 AND id = $2 AND body = $5 AND (expires_ms = 0 OR expires_ms > $6)"""


def key_of(kind: str, id: str) -> str:
    return f"document/{kind}/{id}"


async def put(connection: SqlConnection, document: Document) -> None:
    await connection.run(_SWEEP, clock_ms())
    await connection.run(_PUT, *document_row(document, clock_ms()))


async def put_new(connection: SqlConnection, document: Document) -> bool:
    return await connection.run(_PUT_NEW, *document_row(document, clock_ms()), clock_ms()) > 0


async def swap(connection: SqlConnection, document: Document, old: bytes) -> bool:
    given = (document.kind, document.id, document.body, document.expires_ms, old, clock_ms())
    return await connection.run(_SWAP, *given) > 0


async def select_many(connection: SqlConnection, kind: str, ids: Collection[str]) -> list[Document]:
    rows = await connection.rows(
        f"SELECT {DOCUMENT_COLUMNS} FROM documents"
        " WHERE kind = $1 AND (expires_ms = 0 OR expires_ms > $2) AND id = ANY($3::text[])",
        kind,
        clock_ms(),
        list(ids),
    )
    return [Document(*row) for row in rows]


async def select_newest(connection: SqlConnection, kind: str, owner: str | None, limit: int) -> Sequence[Document]:
    rows = await connection.rows(
        f"SELECT {DOCUMENT_COLUMNS} FROM documents WHERE kind = $1 AND (expires_ms = 0 OR expires_ms > $2)"
        " AND ($3::text IS NULL OR owner = $3) ORDER BY created_ms DESC, id DESC LIMIT $4",
        kind,
        clock_ms(),
        owner,
        max(limit, 0),
    )
    return [Document(*row) for row in rows]


async def delete(connection: SqlConnection, kind: str, id: str) -> bool:
    sql = "DELETE FROM documents WHERE kind = $1 AND id = $2 AND (expires_ms = 0 OR expires_ms > $3)"
    return await connection.run(sql, kind, id, clock_ms()) > 0


# A lexeme has at most 2 046 bytes, a character at most four.
_WORD_CHARS = 500
# A vector of words has at most a megabyte.
_MAX_WORDS = 8_000
_PUT_FACT = """
    INSERT INTO facts (id, text, created_ms, updated_ms, kind, tags, source, words)
    VALUES ($1, $2, $3, $4, $5, $6, $7, array_to_tsvector($8::text[]))
    ON CONFLICT (id) DO UPDATE SET
      text = excluded.text, updated_ms = excluded.updated_ms, kind = excluded.kind, tags = excluded.tags,
      source = excluded.source, words = excluded.words"""
# Rare words count more.
_SEARCH = f"""
    WITH held AS (
      SELECT f.id, wanted.word, count(*) OVER (PARTITION BY wanted.word) AS holders
      FROM unnest($1::text[]) AS wanted (word) JOIN facts f ON f.words @@ quote_literal(wanted.word)::tsquery),
    scored AS (
      SELECT id, sum(ln(1 + (SELECT count(*) FROM facts)::float8 / holders)) AS score FROM held GROUP BY id)
    SELECT {FACT_COLUMNS} FROM scored JOIN facts f USING (id)
    ORDER BY score DESC, f.updated_ms DESC, f.id DESC LIMIT $2"""


async def put_facts(connection: SqlConnection, facts: Sequence[Fact]) -> None:
    """Replaces facts of the same id."""
    rows = [_fact_row(fact) for fact in facts]  # encoded first, so that either all are written or none
    for row in rows:
        await connection.run(_PUT_FACT, *row)


async def delete_fact(connection: SqlConnection, id: str) -> bool:
    return await connection.run("DELETE FROM facts WHERE id = $1", id) > 0


async def clear_facts(connection: SqlConnection) -> int:
    return await connection.run("DELETE FROM facts")


async def select_newest_facts(connection: SqlConnection, limit: int) -> list[Fact]:
    rows = await connection.rows(
        f"SELECT {FACT_COLUMNS} FROM facts f ORDER BY f.updated_ms DESC, f.id DESC LIMIT $1", max(limit, 0)
    )
    return [fact_of(row) for row in rows]


async def select_fact(connection: SqlConnection, id: str) -> Fact | None:
    row = await connection.row(f"SELECT {FACT_COLUMNS} FROM facts f WHERE f.id = $1", id)
    return fact_of(row) if row else None


async def search_facts(connection: SqlConnection, query: str, limit: int) -> list[Fact]:
    """Facts with any of the words, the best match first."""
    words = _lexemes([*index_words(query), *whole_words(query)])
    rows = await connection.rows(_SEARCH, words, max(limit, 0)) if words else ()
    return [fact_of(row) for row in rows]


def _lexemes(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(word[:_WORD_CHARS] for word in words))[:_MAX_WORDS]


def _fact_row(fact: Fact) -> tuple[object, ...]:
    tags = msgspec.json.encode(fact.tags).decode()
    words = _lexemes(index_words(f"{fact.text} {' '.join(fact.tags)}"))
    return (fact.id, fact.text, fact.created_ms, fact.updated_ms, fact.kind.value, tags, fact.source, words)
