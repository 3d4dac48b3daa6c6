"""Many deadlines and one timer, which looks at all of them a few times a second.

Nearly every deadline is gone before it is due. A timer of the loop's own for each costs more to set and to take back
than the rest of a small request does; to join a sweep costs nothing. So it is for deadlines of a second or more, where
a quarter of one does not matter.
"""

from __future__ import annotations

import asyncio
from typing import Protocol
from weakref import WeakKeyDictionary, ref

PERIOD_S = 0.25


class Watched(Protocol):
    def look(self, now_s: float) -> None:
        """Called every so often, by the loop's time, while it is in the sweep."""


class Sweep:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = ref(loop)  # neither the loop itself nor a timer, which holds it: both would be kept for ever
        self._watched: set[Watched] = set()
        self._has_timer = False

    def add(self, watched: Watched) -> None:
        self._watched.add(watched)
        if not self._has_timer:
            self._set_timer()

    def discard(self, watched: Watched) -> None:
        self._watched.discard(watched)

    def _set_timer(self) -> asyncio.AbstractEventLoop:
        loop = self._loop()
        assert loop is not None, "only a loop that runs has something to look at"
        loop.call_later(PERIOD_S, self._run)
        self._has_timer = True
        return loop

    def _run(self) -> None:
        self._has_timer = False
        if not self._watched:
            return
        now_s = self._set_timer().time()
        for watched in list(self._watched):
            watched.look(now_s)


_sweeps: WeakKeyDictionary[asyncio.AbstractEventLoop, Sweep] = WeakKeyDictionary()


def sweep_of(loop: asyncio.AbstractEventLoop) -> Sweep:
    """The one of this loop. Ask once and keep it."""
    sweep = _sweeps.get(loop)
    if sweep is None:
        sweep = _sweeps[loop] = Sweep(loop)
    return sweep
