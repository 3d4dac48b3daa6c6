"""The deadlines of one request.

What is due soon has a timer of its own, set for the nearest moment at which anything could be due; when it fires it
looks at what is due now and sets itself again. What is due later is left to the sweep that looks at all requests. So
a piece of a body costs a time stamp, not a timer. Connecting is bounded by whoever connects.
"""

from __future__ import annotations

import asyncio
import math
from typing import Literal, Protocol, assert_never

import msgspec

from aish.errors import WireError, WireTimeout
from aish.net.deadlines import Sweep
from aish.net.http.message import Timeouts

# What is due before this has a timer: a sweep would come late.
_SOON_S = 1.0

Phase = Literal["connect", "send", "first_byte", "idle", "total"]

_SAYS: dict[Phase, str] = {
    "connect": "no connection within {:g} s",
    "send": "took nothing more of the request for {:g} s",
    "first_byte": "no answer within {:g} s of the request",
    "idle": "fell silent for {:g} s in the middle of its answer",
    "total": "the request was not over within {:g} s",
}
_HINTS: dict[Phase, str] = {
    "connect": "Is it running, and reachable from here?",
    "send": "",
    "first_byte": "It may be loading a model, or be busy: try again in a while.",
    "idle": "",
    "total": "",
}


class Watched(Protocol):
    @property
    def waiting(self) -> bool:
        """Whether somebody waits for the peer right now."""

    def fail(self, error: WireError) -> None: ...


class Watchdog:
    """`stamp` is the moment since which the peer has been waited for; whoever waits sets it. `has_heard`: something has
    come since. The moment is then that of the next look, a quarter of a second late at most: who hears word by word
    does not ask each time what time it is."""

    __slots__ = (
        "_limit_s",
        "_loop",
        "_origin",
        "_phase",
        "_sweep",
        "_timeouts",
        "_timer",
        "_total_due",
        "_watched",
        "has_heard",
        "stamp",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, sweep: Sweep, timeouts: Timeouts, origin: str) -> None:
        self.stamp = loop.time()
        self.has_heard = False
        self._loop = loop
        self._sweep = sweep
        self._timeouts = timeouts
        self._origin = origin
        self._total_due = math.inf if timeouts.total_s is None else self.stamp + timeouts.total_s
        self._phase: Phase = "connect"
        self._limit_s = timeouts.connect_s
        self._watched: Watched | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connect_due(self) -> float:
        """When connecting, if it starts now, must be over."""
        due_s = self._loop.time() + self._timeouts.connect_s
        self._phase = "connect" if due_s < self._total_due else "total"
        return min(due_s, self._total_due)

    def connect_error(self) -> WireTimeout:
        """What was due. Not asked of the clock: a timer may come a little before its time."""
        return self._error(self._phase)

    def watch(self, watched: Watched, phase: Literal["send", "first_byte"]) -> None:
        """From now on. A timer is set so early that no phase entered later can be due before it."""
        self._watched = watched
        self._sweep.add(self)
        self.enter(phase)
        timeouts, left_s = self._timeouts, self._total_due - self.stamp
        if timeouts.first_byte_s < _SOON_S or timeouts.idle_s < _SOON_S or left_s < _SOON_S:
            self._arm(self.stamp + min(timeouts.first_byte_s, timeouts.idle_s, left_s))

    def enter(self, phase: Literal["send", "first_byte", "idle"]) -> None:
        self._phase = phase
        self._limit_s = self._timeouts.first_byte_s if phase == "first_byte" else self._timeouts.idle_s
        self.stamp = self._loop.time()

    def limit_silence(self, seconds: float) -> None:
        self._timeouts = msgspec.structs.replace(self._timeouts, idle_s=seconds)
        if self._phase == "idle":
            self.enter("idle")
            self._arm(min(self.stamp + seconds, self._total_due))

    def limit_rest(self, seconds: float) -> None:
        self._total_due = min(self._total_due, self._loop.time() + seconds)
        if self._watched is not None:
            self._arm(min(self.stamp + self._limit_s, self._total_due))

    def stop(self) -> None:
        self._watched = None
        self._sweep.discard(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def look(self, now_s: float) -> None:
        watched = self._watched
        if watched is None:
            return
        if self.has_heard or (self._phase == "idle" and not watched.waiting):  # then our own caller is the slow one
            self.stamp, self.has_heard = now_s, False
        due_s = min(self.stamp + self._limit_s, self._total_due)
        if now_s >= due_s:
            self.stop()
            watched.fail(self._error("total" if now_s >= self._total_due else self._phase))
        elif self._timer is None:
            self._arm(due_s)

    def _arm(self, due_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if due_s - self._loop.time() < _SOON_S:
            self._timer = self._loop.call_at(due_s, self._fire)

    def _fire(self) -> None:
        self._timer = None
        self.look(self._loop.time())

    def _error(self, phase: Phase) -> WireTimeout:
        return timeout_error(self._origin, self._timeouts, phase)


def timeout_error(origin: str, timeouts: Timeouts, phase: Phase) -> WireTimeout:
    text = _SAYS[phase].format(_limit_of(timeouts, phase))
    return WireTimeout(f"{origin}: {text}", phase=phase, hint=_HINTS[phase])


def _limit_of(timeouts: Timeouts, phase: Phase) -> float:
    match phase:
        case "connect":
            return timeouts.connect_s
        case "first_byte":
            return timeouts.first_byte_s
        case "send" | "idle":
            return timeouts.idle_s
        case "total":
            return math.inf if timeouts.total_s is None else timeouts.total_s
        case _:
            assert_never(phase)
