"""The last hour of this process in points of ten seconds, for small charts. Kept in memory, counted as it happens.

Nothing here is touched for a token of an answer: only its first, the end of a turn, a tool's result, a request's end.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

STEP_MS = 10_000
POINTS = 360
_MS = 1_000_000  # in nanoseconds
MAX_SAMPLES = 512  # of one point; a median of as many is as good


class Point(msgspec.Struct):
    at_ms: int
    requests: int = 0
    turns: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    tool_calls: int = 0
    errors: int = 0
    cost: float = 0.0
    first_token_ms: list[float] = []

    def shown(self) -> dict[str, Any]:
        fields: dict[str, Any] = msgspec.structs.asdict(self)
        samples = fields.pop("first_token_ms")
        return {**fields, "first_token_ms_p50": round(sorted(samples)[len(samples) // 2], 3) if samples else None}


_COUNTED = ("requests", "turns", "tokens_in", "tokens_out", "tool_calls", "errors", "cost")


class Series:
    def __init__(self, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._now_ns = now_ns
        self.since_ms = now_ns() // _MS
        self._before = Point(self.since_ms)  # the sum of all points but the newest
        self._points: deque[Point] = deque(maxlen=POINTS)
        self._begin()

    def now(self) -> Point:
        """Where to count what happens now."""
        if not self._from_ns <= self._now_ns() < self._until_ns:
            self._before = _sum(self._before, self._newest)
            self._begin()
        return self._newest

    def _begin(self) -> None:
        self._newest = Point(self._step())
        self._points.append(self._newest)
        self._from_ns = self._newest.at_ms * _MS
        self._until_ns = self._from_ns + STEP_MS * _MS

    def shown(self) -> dict[str, Any]:
        """Points without gaps, the newest last."""
        known = {point.at_ms: point for point in self._points}
        last = self._step()
        first = max(min(known), last - (POINTS - 1) * STEP_MS)
        points = [known.get(at_ms) or Point(at_ms) for at_ms in range(first, last + 1, STEP_MS)]
        totals = _sum(self._before, self._newest).shown()
        del totals["at_ms"], totals["first_token_ms_p50"]
        return {
            "since_ms": self.since_ms,
            "step_ms": STEP_MS,
            "points": [point.shown() for point in points],
            "totals": totals,
        }

    def _step(self) -> int:
        return self._now_ns() // _MS // STEP_MS * STEP_MS


def _sum(first: Point, second: Point) -> Point:
    """Of what is counted; a median has no sum."""
    return Point(first.at_ms, **{name: getattr(first, name) + getattr(second, name) for name in _COUNTED})
