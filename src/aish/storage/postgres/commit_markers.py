"""Tells a writer whether a transaction was committed whose end it did not see.

Each group writes its number into the writer's own row of `writers`, in its own transaction: if the number is there, so
is everything else the group wrote. A broken connection may leave its transaction open on the server. It is ended, and
waited for, before the row is read.
"""

from __future__ import annotations

import secrets

from aish.storage.postgres.sql_connection import SqlConnection
from aish.storage.postgres.write_group import Item, PendingTransaction

_ENTER = "INSERT INTO writers (id, number) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING"
# Deletes rows of processes that are long gone, except rows that are being written now.
_SWEEP = """
    DELETE FROM writers WHERE id IN (
      SELECT id FROM writers WHERE seen < now() - interval '7 days' AND id <> $1 LIMIT 100 FOR UPDATE SKIP LOCKED)"""
_WHO = "SELECT pid, backend_start::text FROM pg_stat_activity WHERE pid = pg_backend_pid()"
_END = """
    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE pid = $1 AND backend_start = $2::text::timestamptz"""
# A server may be configured to acknowledge before it has written to disk. Other settings are left as they are.
_BE_DURABLE = """
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"""
# Waits for a transaction that holds the row.
_READ = "SELECT number FROM writers WHERE id = $1 FOR UPDATE"


class CommitMarkers:
    def __init__(self) -> None:
        self.id = secrets.token_hex(12)
        self.unsynced = False  # whether the last commit may not be on the server's disk yet
        self._number = 0
        self._committed = 0
        self._backend = (0, "")

    def next(self, items: list[Item], group: list[Item]) -> PendingTransaction:
        self._number += 1
        return PendingTransaction(self._number, self._backend, items, group)

    def committed(self, pending: PendingTransaction, *, durable: bool) -> None:
        self._committed = pending.number
        self.unsynced = not durable

    async def arrive(self, connection: SqlConnection, pending: PendingTransaction | None) -> bool:
        """Prepares a new connection. Returns True if the server has lost a commit that was not on its disk yet."""
        if pending is not None:
            await self._end(connection, pending)
        found = await self._read(connection)
        await connection.run(_ENTER, self.id, self._committed)
        await connection.run(_SWEEP, self.id)
        await connection.value(_BE_DURABLE)
        row = await connection.row(_WHO)
        self._backend = (row[0], row[1]) if row else (0, "")
        lost = self.unsynced and found < self._committed
        if lost:
            self.unsynced = False
        return lost

    async def was_committed(self, connection: SqlConnection, pending: PendingTransaction) -> bool:
        committed = await self._read(connection) >= pending.number
        if committed:
            # Whether it is on the disk is unknown; the next durable group makes sure of it.
            self._committed, self.unsynced = pending.number, True
        return committed

    async def _end(self, connection: SqlConnection, pending: PendingTransaction) -> None:
        pid, started = pending.backend
        if pid:
            await connection.value(_END, pid, started)

    async def _read(self, connection: SqlConnection) -> int:
        return int(await connection.value(_READ, self.id) or 0)
