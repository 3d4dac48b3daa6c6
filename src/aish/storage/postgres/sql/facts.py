"""The SQL for facts. Full-text search is PostgreSQL's, over the words that `texts.index_words` finds.

Each word is stored as a lexeme, as the configuration `simple` would do, except that it divides text into other words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from aish.storage.postgres.sql_connection import SqlConnection
from aish.storage.semantics import fact_of
from aish.storage.texts import index_words, whole_words
from aish.types.facts import Fact

_COLUMNS = "f.id, f.text, f.created_ms, f.updated_ms, f.kind, f.tags, f.source"
# A lexeme has at most 2 046 bytes, a character at most four.
_WORD_CHARS = 500
# A vector of words has at most a megabyte.
_MAX_WORDS = 8_000
_PUT = """
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
    SELECT {_COLUMNS} FROM scored JOIN facts f USING (id) ORDER BY score DESC, f.updated_ms DESC, f.id DESC LIMIT $2"""


async def put(connection: SqlConnection, facts: Sequence[Fact]) -> None:
    """Replaces facts of the same id."""
    rows = [_row(fact) for fact in facts]  # encoded first, so that either all are written or none
    for row in rows:
        await connection.run(_PUT, *row)


async def delete(connection: SqlConnection, id: str) -> bool:
    return await connection.run("DELETE FROM facts WHERE id = $1", id) > 0


async def clear(connection: SqlConnection) -> int:
    return await connection.run("DELETE FROM facts")


async def select_newest(connection: SqlConnection, limit: int) -> list[Fact]:
    rows = await connection.rows(
        f"SELECT {_COLUMNS} FROM facts f ORDER BY f.updated_ms DESC, f.id DESC LIMIT $1", max(limit, 0)
    )
    return [fact_of(row) for row in rows]


async def select_one(connection: SqlConnection, id: str) -> Fact | None:
    row = await connection.row(f"SELECT {_COLUMNS} FROM facts f WHERE f.id = $1", id)
    return fact_of(row) if row else None


async def search(connection: SqlConnection, query: str, limit: int) -> list[Fact]:
    """Facts with any of the words, the best match first."""
    words = _lexemes([*index_words(query), *whole_words(query)])
    rows = await connection.rows(_SEARCH, words, max(limit, 0)) if words else ()
    return [fact_of(row) for row in rows]


def _lexemes(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(word[:_WORD_CHARS] for word in words))[:_MAX_WORDS]


def _row(fact: Fact) -> tuple[object, ...]:
    tags = msgspec.json.encode(fact.tags).decode()
    words = _lexemes(index_words(f"{fact.text} {' '.join(fact.tags)}"))
    return (fact.id, fact.text, fact.created_ms, fact.updated_ms, fact.kind.value, tags, fact.source, words)
