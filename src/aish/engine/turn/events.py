"""Makes the events of one turn, and passes events from a task to the loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from itertools import groupby

import msgspec

from aish.types.events import Body, Event, ToolOutputDelta

_NS_PER_MS = 1_000_000


class EventFactory(msgspec.Struct, eq=False):
    """Makes the events of one turn: each with its ids, its step and a number without gaps."""

    session: str
    turn: str
    _now_ns: Callable[[], int]
    step: int = 0
    seq: int = 0  # of the last event

    def now_ms(self) -> int:
        return self._now_ns() // _NS_PER_MS

    def events(self, bodies: Sequence[Body]) -> list[Event]:
        """Events that happened at the same moment."""
        session, turn, step = self.session, self.turn, self.step
        first, at_ms = self.seq + 1, self._now_ns() // _NS_PER_MS
        self.seq += len(bodies)
        return [Event(session, turn, seq, at_ms, body, step, "") for seq, body in enumerate(bodies, first)]

    def transient(self, body: Body, call: str) -> Event:
        """An event that is shown and not recorded. It takes no number."""
        return Event(self.session, self.turn, self.seq, self._now_ns() // _NS_PER_MS, body, self.step, call)

    def event(self, body: Body, call: str = "") -> Event:
        self.seq += 1
        return Event(self.session, self.turn, self.seq, self._now_ns() // _NS_PER_MS, body, self.step, call)


# A tool that reports progress in a tight loop must not fill memory: further lines are dropped.
MAX_PENDING = 1000
# How long the cancelled task may take to end. Its own cleanup, such as killing a process, is bounded below this.
GRACE_S = 10.0


_Pending = tuple[Body, str, asyncio.Future[None] | None]


def _is_output(pending: _Pending) -> bool:
    return type(pending[0]) is ToolOutputDelta


class EventChannel:
    """Turns a task into a stream of batches of events.

    Output of running tools comes in batches of its own, because it is not recorded.

    `send` returns once the consumer has taken the event and asked for more. So what a recorder does with an event, such
    as making it durable, has happened before the task goes on. `send_nowait` does not wait. The channel owns its task:
    leaving `events()` early cancels the task and waits for it, for a bounded time.
    """

    def __init__(self, events: EventFactory) -> None:
        self._events = events
        self._pending: deque[_Pending] = deque()
        self._wake = asyncio.Event()

    async def send(self, body: Body, call: str) -> None:
        taken = asyncio.get_running_loop().create_future()
        self._put(body, call, taken)
        await taken

    def send_nowait(self, body: Body, call: str) -> None:
        if len(self._pending) < MAX_PENDING:
            self._put(body, call, None)

    async def events(self, work: Coroutine[None, None, None]) -> AsyncGenerator[list[Event], None]:
        """Runs `work` and yields what it sends. A failure of `work` is raised here."""
        task = asyncio.create_task(work)
        task.add_done_callback(lambda _: self._wake.set())
        try:
            while not task.done() or self._pending:
                if self._pending:
                    pending = list(self._pending)
                    self._pending.clear()
                    for is_output, group in groupby(pending, _is_output):
                        make = self._events.transient if is_output else self._events.event
                        yield [make(body, call) for body, call, _ in group]
                    for _, _, taken in pending:
                        if taken is not None and not taken.done():
                            taken.set_result(None)
                if not task.done() and not self._pending:
                    await self._wake.wait()
                    self._wake.clear()
            task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task}, timeout=GRACE_S)

    def _put(self, body: Body, call: str, taken: asyncio.Future[None] | None) -> None:
        self._pending.append((body, call, taken))
        self._wake.set()
