"""Names this process, and tells whether other processes on the same store are still alive.

A name is `host/pid/start`: process ids are reused, but not together with the start time. Without /proc the start is
left out.

A process on another host announces itself in the store: it increments a counter in a document of its own every few
seconds. If the counter stands still for long enough, other processes consider it dead. Each process measures that with
its own monotonic clock, so hosts need not agree on the time. If the store cannot be read, no process is considered
dead. A process that is frozen for longer than that, and then continues, finds its sessions taken over. Only the fence
of a run stops its writes.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from aish.errors import AishError
from aish.ports import Store
from aish.types.records import Document


class ProcessOwners:
    def __init__(self) -> None:
        self._host = socket.gethostname()
        self._me = f"{self._host}/{os.getpid()}/{_start_of(os.getpid())}"

    @property
    def me(self) -> str:
        return self._me

    def is_here(self, owner: str) -> bool:
        """Whether it is a process of this host."""
        return owner.rpartition("/")[0].rpartition("/")[0] == self._host

    def is_alive(self, owner: str) -> bool:
        parts = owner.rsplit("/", 2)
        if len(parts) != 3 or not parts[1].isdigit():
            return False
        host, pid, start = parts[0], int(parts[1]), parts[2]
        return host != self._host or (_exists(pid) and _start_of(pid) == start)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OSError):
        return True
    return True


def _start_of(pid: int) -> str:
    """Field 22 of /proc/PID/stat, counted after the parenthesised name, which may itself hold anything."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    # A zombie has ended, and was not reaped yet.
    return "" if fields[0] == "Z" else fields[19]


KIND = "presence"
BEAT_S = 5.0
# Six beats: longer than a restart of the database.
SILENT_S = 30.0
# Documents of processes that ended long ago expire.
_EXPIRY_MS = 24 * 3600 * 1000
_MAX_PROCESSES = 10_000


class HostPresence(ProcessOwners):
    """Announces this process, and watches the others. `monotonic` is the clock of this process."""

    def __init__(self, store: Store, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._store = store
        self._monotonic = monotonic
        self._beats = 0
        self._counts: dict[str, bytes] = {}
        self._changed_s: dict[str, float] = {}
        self._first_seen_s: float | None = None
        self._last_seen_s = 0.0

    def is_alive(self, owner: str) -> bool:
        if self.is_here(owner) or self._first_seen_s is None:
            return super().is_alive(owner)
        now_s = self._monotonic()
        if now_s - self._last_seen_s > SILENT_S:
            return True
        return now_s - self._changed_s.get(owner, self._first_seen_s) < SILENT_S

    @asynccontextmanager
    async def announce(self) -> AsyncIterator[None]:
        """Inside, this process announces itself and watches the others."""
        beating = asyncio.create_task(self._keep_beating(), name="aish-presence")
        try:
            yield
        finally:
            beating.cancel()
            with suppress(asyncio.CancelledError):
                await beating

    async def beat(self) -> None:
        self._beats += 1
        now_ms = time.time_ns() // 1_000_000
        body = b"%d" % self._beats
        await self._store.put(Document(KIND, self.me, body, created_ms=now_ms, expires_ms=now_ms + _EXPIRY_MS))
        self._observe(await self._store.list_documents(KIND, limit=_MAX_PROCESSES))

    async def _keep_beating(self) -> None:
        while True:
            with suppress(AishError):  # the store may be back at the next beat
                await self.beat()
            await asyncio.sleep(BEAT_S)

    def _observe(self, found: Sequence[Document]) -> None:
        now_s = self._last_seen_s = self._monotonic()
        if self._first_seen_s is None:
            self._first_seen_s = now_s
        for document in found:
            if self._counts.get(document.id) != document.body:
                self._counts[document.id], self._changed_s[document.id] = document.body, now_s
        for ended in self._counts.keys() - {document.id for document in found}:
            del self._counts[ended], self._changed_s[ended]
