"""How a writer knows what became of a transaction whose end it was not told.

Every group writes its number into the writer's own row of `writers`, in its own transaction: if the number is there,
so is all else the group wrote. A connection that broke in the middle may have left the transaction standing on the
server, which nobody can finish any more: it is ended, and waited for, before the row is read.
"""

from __future__ import annotations

import secrets

from aish.storage.postgres.applying import Outcome
from aish.storage.postgres.groups import Item
from aish.storage.postgres.link import Link

_ENTER = "INSERT INTO writers (id, number) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING"
# Rows of processes that are long gone. Whoever writes them this moment is not gone.
_SWEEP = """
    DELETE FROM writers WHERE id IN (
      SELECT id FROM writers WHERE seen < now() - interval '7 days' AND id <> $1 LIMIT 100 FOR UPDATE SKIP LOCKED)"""
_WHO = "SELECT pid, backend_start::text FROM pg_stat_activity WHERE pid = pg_backend_pid()"
_END = """
    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE pid = $1 AND backend_start = $2::text::timestamptz"""
# A server may be set up to acknowledge before it has written; other settings than that are its owner's choice.
_BE_DURABLE = """
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"""
# Waits for a transaction that holds the row.
_READ = "SELECT number FROM writers WHERE id = $1 FOR UPDATE"


class Doubt:
    """A transaction under way. `items` are all it writes, `group` is for whom it is made."""

    __slots__ = ("backend", "group", "items", "number", "outcomes")

    def __init__(self, number: int, backend: tuple[int, str], items: list[Item], group: list[Item]) -> None:
        self.number = number
        self.backend = backend
        self.items = items
        self.group = group
        self.outcomes: list[Outcome] = []


class Marks:
    def __init__(self) -> None:
        self.id = secrets.token_hex(12)
        self.unsynced = False  # committed, but perhaps not yet on the server's disk
        self._number = 0
        self._committed = 0
        self._backend = (0, "")

    def next(self, items: list[Item], group: list[Item]) -> Doubt:
        self._number += 1
        return Doubt(self._number, self._backend, items, group)

    def committed(self, doubt: Doubt, *, durable: bool) -> None:
        self._committed = doubt.number
        self.unsynced = not durable

    async def arrive(self, link: Link, doubt: Doubt | None) -> bool:
        """On a new connection. True if the server has lost what it had taken, but not yet put on its disk."""
        if doubt is not None:
            await self._end(link, doubt)
        found = await self._read(link)
        await link.run(_ENTER, self.id, self._committed)
        await link.run(_SWEEP, self.id)
        await link.value(_BE_DURABLE)
        row = await link.row(_WHO)
        self._backend = (row[0], row[1]) if row else (0, "")
        lost = self.unsynced and found < self._committed
        if lost:
            self.unsynced = False
        return lost

    async def was_committed(self, link: Link, doubt: Doubt) -> bool:
        committed = await self._read(link) >= doubt.number
        if committed:
            # Whether it was synced is not known; the next durable group sees to it.
            self._committed, self.unsynced = doubt.number, True
        return committed

    async def _end(self, link: Link, doubt: Doubt) -> None:
        pid, started = doubt.backend
        if pid:
            await link.value(_END, pid, started)

    async def _read(self, link: Link) -> int:
        return int(await link.value(_READ, self.id) or 0)
