"""Accumulates in plain numbers what a process counts: batches for Prometheus, and a short time series for the console.

prometheus_client takes a lock and several calls for each thing it counts. For a small request that adds up to more than
answering it, so counts are kept here and added when they are read.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec
from prometheus_client import Counter, Histogram


class CounterBatch:
    """For one counter. Callers add to `count`."""

    __slots__ = ("_counter", "count")

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self.count = 0.0

    def flush(self) -> None:
        if self.count:
            self._counter.inc(self.count)
            self.count = 0.0


class HistogramBatch:
    """For one histogram, whose bounds have to be given again because it does not expose them."""

    __slots__ = ("_bounds", "_counts", "_histogram", "_sum")

    def __init__(self, histogram: Histogram, bounds: tuple[float, ...]) -> None:
        self._histogram = histogram
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def flush(self) -> None:
        """Adds to the two private fields that the histogram's own `observe` writes: that method takes one value at a
        time."""
        if not any(self._counts):
            return
        for index, count in enumerate(self._counts):
            if count:
                self._histogram._buckets[index].inc(count)
                self._counts[index] = 0
        self._histogram._sum.inc(self._sum)
        self._sum = 0.0


STEP_MS = 10_000
POINTS = 360
_MS = 1_000_000  # in nanoseconds
MAX_SAMPLES = 512  # of one point: enough for a median


class Point(msgspec.Struct):
    """`unknown` is how many turns cost something that no price is known for; `cost` leaves them out."""

    at_ms: int
    requests: int = 0
    turns: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    tool_calls: int = 0
    errors: int = 0
    cost: float = 0.0
    unknown: int = 0
    first_token_ms: list[float] = []

    def to_object(self) -> dict[str, Any]:
        fields: dict[str, Any] = msgspec.structs.asdict(self)
        samples = fields.pop("first_token_ms")
        return {**fields, "first_token_ms_p50": round(sorted(samples)[len(samples) // 2], 3) if samples else None}


_COUNTED = ("requests", "turns", "tokens_in", "tokens_out", "tool_calls", "errors", "cost", "unknown")


class Series:
    """The last hour of this process in points of ten seconds, for small charts. Kept in memory.

    Counts the first token of an answer, the end of a turn, the result of a tool and the end of a request: nothing per
    token.
    """

    def __init__(self, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._now_ns = now_ns
        self.since_ms = now_ns() // _MS
        self._before = Point(self.since_ms)  # the sum of all points but the newest
        self._points: deque[Point] = deque(maxlen=POINTS)
        self._begin()

    def now(self) -> Point:
        """The point to count in now."""
        if not self._from_ns <= self._now_ns() < self._until_ns:
            self._before = _sum(self._before, self._newest)
            self._begin()
        return self._newest

    def _begin(self) -> None:
        self._newest = Point(self._step())
        self._points.append(self._newest)
        self._from_ns = self._newest.at_ms * _MS
        self._until_ns = self._from_ns + STEP_MS * _MS

    def to_object(self) -> dict[str, Any]:
        """Points without gaps, the newest last."""
        known = {point.at_ms: point for point in self._points}
        last = self._step()
        first = max(min(known), last - (POINTS - 1) * STEP_MS)
        points = [known.get(at_ms) or Point(at_ms) for at_ms in range(first, last + 1, STEP_MS)]
        totals = _sum(self._before, self._newest).to_object()
        del totals["at_ms"], totals["first_token_ms_p50"]
        return {
            "since_ms": self.since_ms,
            "step_ms": STEP_MS,
            "points": [point.to_object() for point in points],
            "totals": totals,
        }

    def _step(self) -> int:
        return self._now_ns() // _MS // STEP_MS * STEP_MS


def _sum(first: Point, second: Point) -> Point:
    """The sum of the counts; a median has no sum."""
    return Point(first.at_ms, **{name: getattr(first, name) + getattr(second, name) for name in _COUNTED})
