"""Many deadlines and one timer, which looks at all of them a few times a second.

Nearly every deadline is gone before it is due. A timer of the loop's own for each costs more to set and to take back
than the rest of a small request does; to join a sweep costs nothing. So it is for deadlines of a second or more, where
a quarter of one does not matter.
"""

from __future__ import annotations

import asyncio
from typing import Protocol
from weakref import WeakKeyDictionary

PERIOD_S = 0.25


class Watched(Protocol):
    def look(self, now_s: float) -> None:
        """Called every so often, by the loop's time, while it is in the sweep."""


class Sweep:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._call_later = loop.call_later
        self._time = loop.time
        self._watched: set[Watched] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, watched: Watched) -> None:
        self._watched.add(watched)
        if self._timer is None:
            self._timer = self._call_later(PERIOD_S, self._run)

    def discard(self, watched: Watched) -> None:
        self._watched.discard(watched)

    def _run(self) -> None:
        self._timer = self._call_later(PERIOD_S, self._run) if self._watched else None
        now_s = self._time()
        for watched in list(self._watched):
            watched.look(now_s)


_sweeps: WeakKeyDictionary[asyncio.AbstractEventLoop, Sweep] = WeakKeyDictionary()


def sweep_of(loop: asyncio.AbstractEventLoop) -> Sweep:
    """The one of this loop. Ask once and keep it."""
    sweep = _sweeps.get(loop)
    if sweep is None:
        sweep = _sweeps[loop] = Sweep(loop)
    return sweep
