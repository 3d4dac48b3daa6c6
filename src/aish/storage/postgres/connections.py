"""The connections to the database: a pool for reading, and one connection at a time for the writer.

The first use opens the database and migrates the schema. A read whose connection breaks is tried once more over a new
one. `aclose` closes all of them within a time limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from aish.errors import AishError
from aish.storage.postgres.database import (
    SqlConnection,
    check_server,
    connect_options,
    driver,
    is_lost,
    migrate,
    migrations,
    name_of,
    open_database,
    translate,
)

if TYPE_CHECKING:
    import asyncpg


T = TypeVar("T")

# A read takes a connection for a millisecond, so eight connections serve thousands of reads a second. PostgreSQL's
# default of a hundred connections is then enough for ten processes.
READERS = 8
_CLOSE_S = 5.0
_IDLE_S = 60.0


class Connections:
    def __init__(self, url: str, *, connect_s: float, statement_s: float) -> None:
        self.name = name_of(url)
        self._url = url
        self._connect_s = connect_s
        self._statement_s = statement_s
        self._opening = asyncio.Lock()
        self._checked = False
        self._pool: asyncpg.Pool | None = None

    async def dial(self) -> SqlConnection:
        """A connection that the caller owns and closes. The schema is up to date."""
        connection = SqlConnection(
            await open_database(self._url, connect_s=self._connect_s, statement_s=self._statement_s)
        )
        try:
            await self._check(connection)
        except BaseException:
            connection.drop()
            raise
        return connection

    async def read(self, run: Callable[[SqlConnection], Awaitable[T]]) -> T:
        try:
            try:
                return await self._read_once(run)
            except Exception as exc:
                if not is_lost(exc):
                    raise
                if self._pool is not None:
                    await self._pool.expire_connections()
                return await self._read_once(run)
        except AishError:
            raise
        except Exception as exc:  # errors of the driver, which is not imported here, and of decoding rows
            raise translate(exc, self.name) from exc

    async def aclose(self) -> None:
        pool, self._pool = self._pool, None
        if pool is None:
            return
        try:
            async with asyncio.timeout(_CLOSE_S):
                await pool.close()
        except Exception:  # our end must close in any case
            pool.terminate()

    async def _read_once(self, run: Callable[[SqlConnection], Awaitable[T]]) -> T:
        async with self._reader() as connection:
            return await run(connection)

    @asynccontextmanager
    async def _reader(self) -> AsyncIterator[SqlConnection]:
        pool = self._pool or await self._open_pool()
        async with pool.acquire(timeout=self._connect_s) as connection:
            yield SqlConnection(connection)

    async def _open_pool(self) -> Any:
        async with self._opening:
            if self._pool is None:
                if not self._checked:
                    await self._check_anew()
                options = connect_options(self._url, connect_s=self._connect_s, statement_s=self._statement_s)
                self._pool = await driver().create_pool(
                    min_size=0,
                    max_size=READERS,
                    max_inactive_connection_lifetime=_IDLE_S,
                    reset=_leave_as_it_is,
                    **options,
                )
            return self._pool

    async def _check_anew(self) -> None:
        connection = await self.dial()
        await connection.close(timeout_s=_CLOSE_S)

    async def _check(self, connection: SqlConnection) -> None:
        if not self._checked:
            await check_server(connection, self._url)
            await migrate(connection, self._url, migrations())
            self._checked = True


async def _leave_as_it_is(connection: asyncpg.Connection) -> None:
    """Readers do not change their connection, so there is nothing to reset."""
