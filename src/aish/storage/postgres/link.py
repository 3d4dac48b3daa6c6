"""One connection as the SQL modules see it: rows as tuples, and text that PostgreSQL cannot hold packed so that it
can.

PostgreSQL has no NUL in text. It is written as two separators, and such a separator as two others; all three are
white space to `str.split`, so that no word anybody searches for ever matches within them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncpg

_ESCAPE, _IS_ESCAPE, _IS_NUL = "\x1f", "\x1f\x1e", "\x1f\x1d"


def packed(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace(_ESCAPE, _IS_ESCAPE).replace("\0", _IS_NUL)
    return [packed(item) for item in value] if isinstance(value, list) else value


def unpacked(value: Any) -> Any:
    if isinstance(value, str) and _ESCAPE in value:
        return value.replace(_IS_NUL, "\0").replace(_IS_ESCAPE, _ESCAPE)
    return value


class Link:
    """Every statement ends within the connection's own deadline, or fails."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection

    async def rows(self, sql: str, *given: Any) -> Sequence[tuple[Any, ...]]:
        records = await self._connection.fetch(sql, *map(packed, given))
        return [tuple(map(unpacked, record)) for record in records]

    async def row(self, sql: str, *given: Any) -> tuple[Any, ...] | None:
        record = await self._connection.fetchrow(sql, *map(packed, given))
        return None if record is None else tuple(map(unpacked, record))

    async def value(self, sql: str, *given: Any) -> Any:
        found = await self.row(sql, *given)
        return None if found is None else found[0]

    async def run(self, sql: str, *given: Any) -> int:
        """How many rows it changed."""
        status = str(await self._connection.execute(sql, *map(packed, given)))
        count = status.rpartition(" ")[2]
        return int(count) if count.isdigit() else 0

    async def script(self, sql: str) -> None:
        """Several statements without parameters."""
        await self._connection.execute(sql)

    async def commit(self) -> None:
        """Of a transaction that has failed, a COMMIT is a silent ROLLBACK."""
        if (said := await self._connection.execute("COMMIT")) != "COMMIT":
            raise ValueError(f"the transaction had failed: {said}")

    @property
    def is_closed(self) -> bool:
        return bool(self._connection.is_closed())

    async def close(self, *, timeout_s: float) -> None:
        await self._connection.close(timeout=timeout_s)

    def drop(self) -> None:
        """At once, whatever it is doing."""
        self._connection.terminate()
