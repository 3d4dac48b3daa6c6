"""Counts in plain numbers, handed on by the sum to the counters that Prometheus reads.

prometheus_client takes a lock and several calls for each thing it counts, which for a small request adds up to more
than answering it. Nothing here knows what is counted.
"""

from __future__ import annotations

from bisect import bisect_left

from prometheus_client import Counter, Histogram


class Tally:
    """Of one counter. Whoever counts adds to `count`."""

    __slots__ = ("_counter", "count")

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self.count = 0.0

    def hand_on(self) -> None:
        if self.count:
            self._counter.inc(self.count)
            self.count = 0.0


class Spread:
    """Of one histogram, whose bounds are given once more: it does not tell them."""

    __slots__ = ("_bounds", "_counts", "_histogram", "_sum")

    def __init__(self, histogram: Histogram, bounds: tuple[float, ...]) -> None:
        self._histogram = histogram
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def hand_on(self) -> None:
        """Its own `observe` takes one at a time; these are the two fields that does its work on."""
        if not any(self._counts):
            return
        for place, count in enumerate(self._counts):
            if count:
                self._histogram._buckets[place].inc(count)
                self._counts[place] = 0
        self._histogram._sum.inc(self._sum)
        self._sum = 0.0
