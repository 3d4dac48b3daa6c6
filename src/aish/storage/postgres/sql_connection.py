"""One connection as the SQL modules use it: rows are tuples, and text that PostgreSQL cannot store is escaped.

PostgreSQL has no NUL in text. A NUL is written as two separator characters, and such a separator as two others. All
three are white space to `str.split`, so no search word ever matches within them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncpg

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
