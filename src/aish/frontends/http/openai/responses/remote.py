"""Responses in the background that are made by another process, or were made before: by what lies in the store.

Processes that share a store (workers, replicas) stream each other's responses from the recorded events, and cancel them
by a note that the one at work looks for.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress

from aish.errors import AishError
from aish.frontends.http.openai.responses.encoder import ResponseStream
from aish.frontends.http.openai.responses.replay import Again, cut
from aish.frontends.http.openai.responses.store import RUNNING, ResponseStore
from aish.frontends.http.server.service import Service
from aish.frontends.http.turns.background_turns import LiveTurn
from aish.types.records import Document

KIND = "response_cancel"
# How often to look for news of another process.
LOOK_S = 0.5
_NOTE_MS = 3600 * 1000
_CANCEL_S = 15.0  # for the other process to notice and to end it


class Elsewhere:
    def __init__(self, service: Service, response_store: ResponseStore) -> None:
        self._service = service
        self._response_store = response_store

    async def follow(self, id: str, owner: str, stream: ResponseStream, number: int) -> AsyncGenerator[bytes, None]:
        """From the event `number` on, to the end; as soon as it is in the store."""
        again = Again(self._service.store, stream)
        data, begins = stream.opening(), 0
        while True:
            kept = await self._response_store.get(id, owner)
            data += await again.read(kept.turns)
            if kept.status not in RUNNING:
                data += stream.end_with(kept.status, bytes(kept.response))
            if wanted := cut(data, max(0, number - begins), None):
                yield wanted
            if kept.status not in RUNNING:
                return
            data, begins = b"", stream.number
            await asyncio.sleep(LOOK_S)

    async def cancel(self, id: str, owner: str) -> None:
        """Returns when it has ended, or has not within reason."""
        if (await self._response_store.get(id, owner)).status not in RUNNING:
            return
        now_ms = time.time_ns() // 1_000_000
        await self._service.store.put(Document(KIND, id, b"{}", owner, created_ms=now_ms, expires_ms=now_ms + _NOTE_MS))
        with suppress(TimeoutError):
            async with asyncio.timeout(_CANCEL_S):
                while True:
                    await asyncio.sleep(LOOK_S)
                    if (await self._response_store.get(id, owner)).status not in RUNNING:
                        return

    @asynccontextmanager
    async def heeding(self, id: str, live: LiveTurn) -> AsyncIterator[None]:
        """Inside, the turn is stopped when another process wants it to be."""
        looking = asyncio.create_task(self._look(id, live))
        try:
            yield
        finally:
            looking.cancel()

    async def _look(self, id: str, live: LiveTurn) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            with suppress(AishError):  # a store that fails is told of by the turn itself
                if await self._service.store.find(KIND, id) is not None:
                    live.stop()
                    return
