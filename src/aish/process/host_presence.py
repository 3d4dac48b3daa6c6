"""Who lives on other hosts that share a store: each process says so there, again and again.

A process puts a count into a document of its own and raises it every few seconds. Whoever sees a count stand still for
long enough takes its process for dead. Only the looker's own clock is asked, and only for how long something took, so
hosts need not agree on the time. Where the store cannot be read, nobody is taken for dead.

A process that is frozen for longer than that, and then goes on, finds its sessions taken over: nothing stops its writes
but the fence of a run.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress

from aish.errors import AishError
from aish.ports import Store
from aish.process.liveness import ProcessOwners
from aish.types.records import Document

KIND = "presence"
BEAT_S = 5.0
# Six beats: a restart of the database or a slow disk is no death.
SILENT_S = 30.0
# Documents of processes that are long gone are thrown away.
_KEPT_MS = 24 * 3600 * 1000
_MOST = 10_000


class Presence(ProcessOwners):
    """`monotonic` is the looker's clock."""

    def __init__(self, store: Store, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._store = store
        self._monotonic = monotonic
        self._beats = 0
        self._counts: dict[str, bytes] = {}
        self._changed_s: dict[str, float] = {}
        self._first_look_s: float | None = None
        self._last_look_s = 0.0

    def is_alive(self, owner: str) -> bool:
        if self.is_here(owner) or self._first_look_s is None:
            return super().is_alive(owner)
        now_s = self._monotonic()
        if now_s - self._last_look_s > SILENT_S:
            return True
        return now_s - self._changed_s.get(owner, self._first_look_s) < SILENT_S

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Inside, this process is seen to live, and sees who else does."""
        beating = asyncio.create_task(self._beat_on(), name="aish-presence")
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
        await self._store.put(Document(KIND, self.me, body, created_ms=now_ms, expires_ms=now_ms + _KEPT_MS))
        self._look(await self._store.list_documents(KIND, limit=_MOST))

    async def _beat_on(self) -> None:
        while True:
            with suppress(AishError):  # the next beat may find the store again
                await self.beat()
            await asyncio.sleep(BEAT_S)

    def _look(self, found: Sequence[Document]) -> None:
        now_s = self._last_look_s = self._monotonic()
        if self._first_look_s is None:
            self._first_look_s = now_s
        for document in found:
            if self._counts.get(document.id) != document.body:
                self._counts[document.id], self._changed_s[document.id] = document.body, now_s
        for gone in self._counts.keys() - {document.id for document in found}:
            del self._counts[gone], self._changed_s[gone]
