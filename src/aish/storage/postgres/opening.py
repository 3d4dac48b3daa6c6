"""Opens the database: checks the server and migrates the schema, or refuses with a reason.

aish uses a schema of its own, `aish`, so it can share a database with other programs. `aish.migrations` has the number
of the last migration. One transaction under one lock applies all that are missing: of several replicas one does it, the
others find it done, and one that dies half-way leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

from aish.errors import StoreError
from aish.storage.postgres.faults import name_of
from aish.storage.postgres.sql_connection import SqlConnection

if TYPE_CHECKING:
    import asyncpg

SCHEMA = "aish"
# The first version with transaction numbers that do not wrap around, which the feed needs.
OLDEST = 130_000
_MIGRATION_LOCK = 0x61697368  # "aish"
# PostgreSQL ends the transaction of a frozen replica, whose locks block the others. These wait a little longer.
_SETTINGS = {
    "application_name": "aish",
    "search_path": SCHEMA,
    "idle_in_transaction_session_timeout": "5000",
    "lock_timeout": "8000",
    "timezone": "UTC",
}


def driver() -> Any:
    try:
        import asyncpg
    except ImportError as exc:
        raise StoreError(
            "store.url names PostgreSQL, and its driver is not installed",
            hint="pip install 'aish-runtime[postgres]'",
        ) from exc
    return asyncpg


def connect_options(url: str, *, connect_s: float, statement_s: float) -> dict[str, Any]:
    if not url.startswith(("postgres://", "postgresql://")):
        raise StoreError(
            "store.url is no address of PostgreSQL", hint="write it as postgresql://user:password@host:5432/name"
        )
    settings = {**_SETTINGS, "statement_timeout": str(int(statement_s * 1000))}
    # The server times out first: it reports that, and the connection can still be used.
    return {"dsn": url, "timeout": connect_s, "command_timeout": statement_s + 1, "server_settings": settings}


async def open_connection(url: str, *, connect_s: float, statement_s: float) -> asyncpg.Connection:
    """Raises errors of the driver, or StoreError."""
    options = connect_options(url, connect_s=connect_s, statement_s=statement_s)
    return await driver().connect(**options)


def migrations() -> Sequence[str]:
    """The numbered files in order. The number of a file is its position, from 1."""
    folder = resources.files("aish.storage.postgres") / "migrations"
    files = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".sql")), key=lambda entry: entry.name)
    return [entry.read_text(encoding="utf-8") for entry in files]


async def check_server(connection: SqlConnection, url: str) -> None:
    row = await connection.row(
        "SELECT current_setting('server_version_num')::bigint, current_setting('server_encoding')"
    )
    assert row is not None
    version, encoding = row
    if version < OLDEST:
        raise StoreError(f"the store {name_of(url)} runs PostgreSQL {version // 10_000}", hint="it takes 13 or newer")
    if encoding != "UTF8":
        raise StoreError(
            f"the store {name_of(url)} is encoded in {encoding}", hint="create it with `createdb --encoding=UTF8`"
        )


async def migrate(connection: SqlConnection, url: str, scripts: Sequence[str]) -> None:
    if await _version(connection) == len(scripts):
        return
    await connection.script(f"BEGIN; SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})")
    try:
        done = await _version(connection)
        if done > len(scripts):
            raise StoreError(
                f"the store {name_of(url)} was made by a newer aish", hint="upgrade, or point store.url elsewhere"
            )
        if done == 0:
            await connection.script(
                f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}; CREATE TABLE IF NOT EXISTS migrations (number BIGINT NOT NULL)"
            )
        for script in scripts[done:]:
            await connection.script(script)
        await connection.script(f"DELETE FROM migrations; INSERT INTO migrations VALUES ({len(scripts)}); COMMIT")
    except BaseException:
        if not connection.is_closed:
            await connection.script("ROLLBACK")
        raise


async def _version(connection: SqlConnection) -> int:
    # Reads the catalogue as a table: a look-up by name may use a cache that does not know yet what another replica did
    # while this one waited for the lock.
    there = "SELECT count(*) FROM pg_catalog.pg_tables WHERE schemaname = $1 AND tablename = 'migrations'"
    if not await connection.value(there, SCHEMA):
        return 0
    return int(await connection.value("SELECT coalesce(max(number), 0) FROM migrations"))
