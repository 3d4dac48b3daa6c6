"""The SQL for documents. Expired ones are invisible, and each write deletes a few of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from aish.storage.postgres.sql_connection import SqlConnection
from aish.storage.semantics import clock_ms, document_row
from aish.types.records import Document

_COLUMNS = "kind, id, body, owner, created_ms, expires_ms"
# Deletes a few expired documents at each write, so that they run out. Rows that others are deleting are skipped.
_SWEEP = """
    DELETE FROM documents WHERE (kind, id) IN (
      SELECT kind, id FROM documents WHERE expires_ms > 0 AND expires_ms <= $1 LIMIT 4 FOR UPDATE SKIP LOCKED)"""
_PUT = f"""
    INSERT INTO documents AS kept ({_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6)
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
        f"SELECT {_COLUMNS} FROM documents"
        " WHERE kind = $1 AND (expires_ms = 0 OR expires_ms > $2) AND id = ANY($3::text[])",
        kind,
        clock_ms(),
        list(ids),
    )
    return [Document(*row) for row in rows]


async def select_newest(connection: SqlConnection, kind: str, owner: str | None, limit: int) -> Sequence[Document]:
    rows = await connection.rows(
        f"SELECT {_COLUMNS} FROM documents WHERE kind = $1 AND (expires_ms = 0 OR expires_ms > $2)"
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
