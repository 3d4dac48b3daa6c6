"""Who connects to the database: a pool for reading, and one connection at a time for the writer.

Life: constructing touches nothing; the first of either opens the database and brings it to the newest schema. A read
whose connection breaks is made once more over a new one. `aclose` ends them all, within a bound.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from aish.errors import AishError, StoreError
from aish.storage.postgres.faults import is_lost, name_of, translate
from aish.storage.postgres.link import Link
from aish.storage.postgres.opening import check_server, connect_options, driver, migrate, migrations, open_connection

if TYPE_CHECKING:
    import asyncpg

T = TypeVar("T")

# A read takes a connection for a millisecond: eight of them serve thousands of reads a second, and PostgreSQL's default
# of a hundred connections then suffices for ten processes.
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

    async def dial(self) -> Link:
        """A connection of one's own, to be closed by the caller; the schema is there."""
        link = Link(await open_connection(self._url, connect_s=self._connect_s, statement_s=self._statement_s))
        try:
            await self._check(link)
        except BaseException:
            link.drop()
            raise
        return link

    async def read(self, run: Callable[[Link], Awaitable[T]]) -> T:
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
        except Exception as exc:  # the driver's, whose classes are not known here, and rows that cannot be decoded
            raise translate(exc, self.name) from exc

    async def aclose(self) -> None:
        pool, self._pool = self._pool, None
        if pool is None:
            return
        try:
            async with asyncio.timeout(_CLOSE_S):
                await pool.close()
        except Exception:  # whatever the other end does: ours must end
            pool.terminate()

    async def _read_once(self, run: Callable[[Link], Awaitable[T]]) -> T:
        async with self._reader() as link:
            return await run(link)

    @asynccontextmanager
    async def _reader(self) -> AsyncIterator[Link]:
        pool = self._pool or await self._open_pool()
        async with pool.acquire(timeout=self._connect_s) as connection:
            yield Link(connection)

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
        link = await self.dial()
        await link.close(timeout_s=_CLOSE_S)

    async def _check(self, link: Link) -> None:
        if not self._checked:
            await check_server(link, self._url)
            await migrate(link, self._url, migrations())
            self._checked = True


async def _leave_as_it_is(connection: asyncpg.Connection) -> None:
    """A reader changes nothing of its connection, so there is nothing to put back."""


def closed() -> StoreError:
    return StoreError("the store is closed", hint="open a new one")
