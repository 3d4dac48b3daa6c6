"""Checks many deadlines with one timer, a few times a second.

Nearly every deadline is cancelled before it is due. A timer of the event loop for each of them costs more to set and to
cancel than the rest of a small request; joining a shared timer costs nothing. It serves deadlines of a second or more,
for which a quarter of a second does not matter.
"""

from __future__ import annotations

import asyncio
from typing import Protocol
from weakref import WeakKeyDictionary, ref

PERIOD_S = 0.25


class HasDeadlines(Protocol):
    def check_deadlines(self, now_s: float) -> None:
        """Called in every period with the time of the event loop."""


class DeadlineTimer:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = ref(loop)  # weak, and no timer handle: both would keep the loop alive
        self._watched: set[HasDeadlines] = set()
        self._has_timer = False

    def add(self, watched: HasDeadlines) -> None:
        self._watched.add(watched)
        if not self._has_timer:
            self._set_timer()

    def discard(self, watched: HasDeadlines) -> None:
        self._watched.discard(watched)

    def _set_timer(self) -> asyncio.AbstractEventLoop:
        loop = self._loop()
        assert loop is not None, "only a running loop has deadlines"
        loop.call_later(PERIOD_S, self._run)
        self._has_timer = True
        return loop

    def _run(self) -> None:
        self._has_timer = False
        if not self._watched:
            return
        now_s = self._set_timer().time()
        for watched in list(self._watched):
            watched.check_deadlines(now_s)


_timers: WeakKeyDictionary[asyncio.AbstractEventLoop, DeadlineTimer] = WeakKeyDictionary()


def get_deadline_timer(loop: asyncio.AbstractEventLoop) -> DeadlineTimer:
    """The timer of this loop. Callers ask once and keep it."""
    timer = _timers.get(loop)
    if timer is None:
        timer = _timers[loop] = DeadlineTimer(loop)
    return timer
