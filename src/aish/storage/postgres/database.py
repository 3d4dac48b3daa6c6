"""Opens the database, runs SQL in it and translates its errors.

aish uses a schema of its own, `aish`, so it can share a database with other programs. `aish.migrations` has the number
of the last migration. One transaction under one lock applies all that are missing: of several replicas one does it, the
others find it done, and one that dies half-way leaves nothing behind.

Errors become StoreErrors that tell the user what to do. They are recognised by their SQLSTATE, so that needs no driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from aish.errors import AishError, StoreError

if TYPE_CHECKING:
    import asyncpg


_ELSEWHERE = "point store.url elsewhere"

# The longest matching prefix counts.
_REASONS: dict[str, tuple[str, str]] = {
    "08": ("cannot be reached", "check that PostgreSQL runs there, and store.url"),
    "22": ("refused a value", "this looks like a defect; please report it"),
    "25006": ("is read only", "name the primary in store.url, not a standby"),
    "28": ("refused the login", "check user and password in store.url, and the server's pg_hba.conf"),
    "3D": ("is not there", "create it with `createdb`, or correct store.url"),
    "3F": ("has no schema of aish's any more", "start aish again: it makes what is missing"),
    "40": ("is in use by others that wait for each other", "try again"),
    "42501": ("may not be written by this user", "let the user of store.url own the database, or create in it"),
    "42P01": ("has no tables of aish's any more", "start aish again: it makes what is missing"),
    "53100": ("cannot grow: its disk is full", f"free some space there, or {_ELSEWHERE}"),
    "53200": ("is out of memory", "give PostgreSQL more memory, or fewer connections"),
    "53300": ("takes no more connections", "raise max_connections, run fewer replicas, or put a pooler in between"),
    "54": ("takes nothing that large", "use shorter ids"),
    "55P03": ("is locked by another process", "try again"),
    "57014": ("did not answer in time", "look at what keeps PostgreSQL busy"),
    "57": ("is shutting down or starting", "try again"),
    "58": ("cannot read or write its files", "look at the log of PostgreSQL"),
}
# The connection cannot be used any more, or leads to the wrong server.
_LOST = ("08", "25006", "25P03", "57P")
# A retry may work, over a new connection or a little later.
_PASSING = (*_LOST, "40", "53300", "55P03", "57")
# Errors that concern the whole database, and not just the operation that met them.
_WHOLE = (*_PASSING, "3D", "3F", "28", "42501", "42P01", "53", "58", "XX")


def name_of(url: str) -> str:
    """The database as it may be shown: its address, without the login."""
    try:
        parts = urlsplit(url)
        address = f"{parts.hostname or 'localhost'}:{parts.port or 5432}"
    except ValueError:
        return "of store.url"
    return f"postgresql://{address}{parts.path}"


def sqlstate(error: BaseException) -> str:
    return str(getattr(error, "sqlstate", None) or "")


def is_lost(error: BaseException) -> bool:
    """Whether the connection cannot be used any more."""
    if isinstance(error, OSError | TimeoutError | EOFError):
        return True
    return sqlstate(error).startswith(_LOST) or _is_the_drivers(error)


def is_passing(error: BaseException) -> bool:
    return is_lost(error) or sqlstate(error).startswith(_PASSING)


def breaks_the_group(error: BaseException) -> bool:
    return is_lost(error) or sqlstate(error).startswith(_WHOLE)


def translate(error: BaseException, name: str) -> AishError:
    if isinstance(error, AishError):
        return error
    if isinstance(error, TimeoutError):
        return StoreError(
            f"the store {name} did not answer in time", hint="check that PostgreSQL is up and not overloaded"
        )
    if isinstance(error, OSError | EOFError) or _is_the_drivers(error):
        reason, hint = _REASONS["08"]
        return StoreError(f"the store {name} {reason}: {_message_of(error)}", hint=hint)
    for length in (5, 2):
        if (found := _REASONS.get(sqlstate(error)[:length])) is not None:
            return StoreError(f"the store {name} {found[0]}: {_message_of(error)}", hint=found[1])
    return StoreError(
        f"the store {name} refused an operation: {_message_of(error)}",
        hint="this looks like a defect; please report it",
    )


def _is_the_drivers(error: BaseException) -> bool:
    """Errors that asyncpg itself raises are about its connection, except for arguments that it cannot encode."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return bool(kinds & {"InterfaceError", "InternalClientError"}) and "DataError" not in kinds


def _message_of(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


# PostgreSQL has no NUL in text. A NUL is written as two separator characters, and such a separator as two others. All
# three are white space to `str.split`, so no search word ever matches within them.
_ESCAPE, _IS_ESCAPE, _IS_NUL = "\x1f", "\x1f\x1e", "\x1f\x1d"


def escape(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace(_ESCAPE, _IS_ESCAPE).replace("\0", _IS_NUL)
    return [escape(item) for item in value] if isinstance(value, list) else value


def unescape(value: Any) -> Any:
    if isinstance(value, str) and _ESCAPE in value:
        return value.replace(_IS_NUL, "\0").replace(_IS_ESCAPE, _ESCAPE)
    return value


class SqlConnection:
    """Every statement ends within the connection's own deadline, or fails."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection

    async def rows(self, sql: str, *given: Any) -> Sequence[tuple[Any, ...]]:
        records = await self._connection.fetch(sql, *map(escape, given))
        return [tuple(map(unescape, record)) for record in records]

    async def row(self, sql: str, *given: Any) -> tuple[Any, ...] | None:
        record = await self._connection.fetchrow(sql, *map(escape, given))
        return None if record is None else tuple(map(unescape, record))

    async def value(self, sql: str, *given: Any) -> Any:
        found = await self.row(sql, *given)
        return None if found is None else found[0]

    async def run(self, sql: str, *given: Any) -> int:
        """Returns how many rows it changed."""
        status = str(await self._connection.execute(sql, *map(escape, given)))
        count = status.rpartition(" ")[2]
        return int(count) if count.isdigit() else 0

    async def script(self, sql: str) -> None:
        """Runs several statements without parameters."""
        await self._connection.execute(sql)

    async def commit(self) -> None:
        """Raises for a transaction that has failed: COMMIT is then a silent ROLLBACK."""
        if (status := await self._connection.execute("COMMIT")) != "COMMIT":
            raise ValueError(f"the transaction had failed: {status}")

    @property
    def is_closed(self) -> bool:
        return bool(self._connection.is_closed())

    async def close(self, *, timeout_s: float) -> None:
        await self._connection.close(timeout=timeout_s)

    def drop(self) -> None:
        """Closes at once, whatever the connection is doing."""
        self._connection.terminate()


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


async def open_database(url: str, *, connect_s: float, statement_s: float) -> asyncpg.Connection:
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
