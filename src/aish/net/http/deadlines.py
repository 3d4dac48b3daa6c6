"""The deadlines of one request.

A deadline that is due soon has a timer of its own, set for the earliest moment at which anything can be due; when it
fires it checks what is due and is set again. Later deadlines are checked by the shared timer of all requests
(`net.event_loop`). So a piece of a body costs a time stamp, not a timer. The pool enforces the deadline for connecting.
"""

from __future__ import annotations

import asyncio
import math
from typing import Literal, Protocol, assert_never

import msgspec

from aish.errors import WireError, WireTimeout
from aish.net.event_loop import DeadlineTimer
from aish.net.http.message import Timeouts

# Deadlines that are due sooner have their own timer: the shared one would be late.
_SOON_S = 1.0

Phase = Literal["connect", "send", "first_byte", "idle", "total"]

_MESSAGES: dict[Phase, str] = {
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


class WatchedRequest(Protocol):
    @property
    def waiting(self) -> bool:
        """Whether the caller waits for the peer right now."""

    def fail(self, error: WireError) -> None: ...


class Watchdog:
    """`stamp` is the time since which the peer is waited for; the exchange sets it. `has_received`: data has arrived
    since. The next check then takes its own time as the stamp, at most a quarter of a second late, which saves reading
    the clock for every word."""

    __slots__ = (
        "_deadlines",
        "_limit_s",
        "_loop",
        "_origin",
        "_phase",
        "_timeouts",
        "_timer",
        "_total_due",
        "_watched",
        "has_received",
        "stamp",
    )

    def __init__(
        self, loop: asyncio.AbstractEventLoop, deadlines: DeadlineTimer, timeouts: Timeouts, origin: str
    ) -> None:
        self.stamp = loop.time()
        self.has_received = False
        self._loop = loop
        self._deadlines = deadlines
        self._timeouts = timeouts
        self._origin = origin
        self._total_due = math.inf if timeouts.total_s is None else self.stamp + timeouts.total_s
        self._phase: Phase = "connect"
        self._limit_s = timeouts.connect_s
        self._watched: WatchedRequest | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connect_due(self) -> float:
        """The deadline for connecting, if it starts now."""
        due_s = self._loop.time() + self._timeouts.connect_s
        self._phase = "connect" if due_s < self._total_due else "total"
        return min(due_s, self._total_due)

    def connect_error(self) -> WireTimeout:
        """The error for the deadline that `connect_due` gave. Does not read the clock: timers may fire slightly
        early."""
        return self._error(self._phase)

    def watch(self, watched: WatchedRequest, phase: Literal["send", "first_byte"]) -> None:
        """Starts watching. The timer is set so early that no later phase can be due before it."""
        self._watched = watched
        self._deadlines.add(self)
        self.start_phase(phase)
        timeouts, left_s = self._timeouts, self._total_due - self.stamp
        if timeouts.first_byte_s < _SOON_S or timeouts.idle_s < _SOON_S or left_s < _SOON_S:
            self._arm(self.stamp + min(timeouts.first_byte_s, timeouts.idle_s, left_s))

    def start_phase(self, phase: Literal["send", "first_byte", "idle"]) -> None:
        self._phase = phase
        self._limit_s = self._timeouts.first_byte_s if phase == "first_byte" else self._timeouts.idle_s
        self.stamp = self._loop.time()

    def limit_silence(self, seconds: float) -> None:
        self._timeouts = msgspec.structs.replace(self._timeouts, idle_s=seconds)
        if self._phase == "idle":
            self.start_phase("idle")
            self._arm(min(self.stamp + seconds, self._total_due))

    def limit_rest(self, seconds: float) -> None:
        self._total_due = min(self._total_due, self._loop.time() + seconds)
        if self._watched is not None:
            self._arm(min(self.stamp + self._limit_s, self._total_due))

    def stop(self) -> None:
        self._watched = None
        self._deadlines.discard(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def check_deadlines(self, now_s: float) -> None:
        watched = self._watched
        if watched is None:
            return
        # If the caller does not wait, the caller is slow, and not the peer.
        if self.has_received or (self._phase == "idle" and not watched.waiting):
            self.stamp, self.has_received = now_s, False
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
        self.check_deadlines(self._loop.time())

    def _error(self, phase: Phase) -> WireTimeout:
        return timeout_error(self._origin, self._timeouts, phase)


def timeout_error(origin: str, timeouts: Timeouts, phase: Phase) -> WireTimeout:
    text = _MESSAGES[phase].format(_limit_of(timeouts, phase))
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
