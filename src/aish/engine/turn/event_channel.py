"""Lets a task speak as a stream of batches of events.

`say` returns once the consumer has taken the event and come back for more: what a recorder does with an event (make it
durable, say) has happened before the task goes on. `emit_nowait` does not wait. The channel owns its task: leaving
`events()` early cancels it and waits for it, for a bounded time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Coroutine, Iterable

from aish.engine.turn.event_factory import Scribe
from aish.types.events import Body, Event

# A tool that reports progress in a tight loop must not fill memory; past this its lines are dropped.
MAX_PENDING = 1000
# How long the cancelled task may take to end. Its own cleanup (a kill ladder, say) is bounded below this.
GRACE_S = 10.0


class Pump:
    def __init__(self, scribe: Scribe) -> None:
        self._scribe = scribe
        self._said: deque[tuple[Body, str, asyncio.Future[None] | None]] = deque()
        self._wake = asyncio.Event()

    async def say(self, body: Body, call: str) -> None:
        taken = asyncio.get_running_loop().create_future()
        self._put(body, call, taken)
        await taken

    def emit_nowait(self, body: Body, call: str) -> None:
        if len(self._said) < MAX_PENDING:
            self._put(body, call, None)

    async def events(self, work: Coroutine[None, None, None]) -> AsyncGenerator[list[Event], None]:
        """What `work` says until it is done; its failure is raised here."""
        task = asyncio.create_task(work)
        task.add_done_callback(lambda _: self._wake.set())
        try:
            while not task.done() or self._said:
                if self._said:
                    said = list(self._said)
                    self._said.clear()
                    yield [self._scribe.event(body, call) for body, call, _ in said]
                    _settle(taken for _, _, taken in said)
                if not task.done() and not self._said:
                    await self._wake.wait()
                    self._wake.clear()
            task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task}, timeout=GRACE_S)

    def _put(self, body: Body, call: str, taken: asyncio.Future[None] | None) -> None:
        self._said.append((body, call, taken))
        self._wake.set()


def _settle(futures: Iterable[asyncio.Future[None] | None]) -> None:
    for future in futures:
        if future is not None and not future.done():
            future.set_result(None)
