"""Counts in plain numbers, handed on by the sum to the counters that Prometheus reads.

prometheus_client takes a lock and several calls for each thing it counts, which for a small request adds up to more
than answering it. Nothing here knows what is counted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from prometheus_client import Counter, Histogram


class Tally:
    """Of one counter. `soon` is told of the first that is counted after they were handed on."""

    __slots__ = ("_count", "_counter", "_soon")

    def __init__(self, counter: Counter, soon: Callable[[Tally | Spread], None]) -> None:
        self._counter = counter
        self._soon = soon
        self._count = 0.0

    def inc(self, count: float = 1.0) -> None:
        if not self._count:
            self._soon(self)
        self._count += count

    def hand_on(self) -> None:
        self._counter.inc(self._count)
        self._count = 0.0


class Spread:
    """Of one histogram, whose bounds are given once more: it does not tell them."""

    __slots__ = ("_bounds", "_counts", "_histogram", "_soon", "_sum")

    def __init__(self, histogram: Histogram, bounds: tuple[float, ...], soon: Callable[[Tally | Spread], None]) -> None:
        self._histogram = histogram
        self._bounds = bounds
        self._soon = soon
        self._counts: dict[int, int] = {}  # by the place of the bound
        self._sum = 0.0

    def observe(self, value: float) -> None:
        counts = self._counts
        if not counts:
            self._soon(self)
        place = bisect_left(self._bounds, value)
        counts[place] = counts.get(place, 0) + 1
        self._sum += value

    def hand_on(self) -> None:
        """Its own `observe` takes one at a time; these are the two fields that does its work on."""
        counted, self._counts = self._counts, {}
        for place, count in counted.items():
            self._histogram._buckets[place].inc(count)
        self._histogram._sum.inc(self._sum)
        self._sum = 0.0


class Waiting:
    """What has been counted and not handed on. `on_first` is called when there is something again."""

    def __init__(self, on_first: Callable[[], None]) -> None:
        self._on_first = on_first
        self._counted: list[Tally | Spread] = []

    def add(self, counted: Tally | Spread) -> None:
        if not self._counted:
            self._on_first()
        self._counted.append(counted)

    def hand_on(self) -> None:
        counted, self._counted = self._counted, []
        for one in counted:
            one.hand_on()
