"""Counts what a turn spends and says when a limit is reached."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from aish.ports import Clock
from aish.types.events import TurnEnd
from aish.types.limits import Limits
from aish.types.usage import NOTHING_USED, Usage


def metering(limits: Limits, clock: Clock) -> Meter:
    """From now on."""
    return Meter(limits, clock.monotonic_s, clock.monotonic_s() + limits.wall_s)


class Meter(msgspec.Struct, eq=False):
    limits: Limits
    _monotonic_s: Callable[[], float]
    _deadline_s: float
    steps: int = 0
    tool_calls: int = 0
    usage: Usage = NOTHING_USED

    @property
    def remaining_s(self) -> float:
        return max(0.0, self._deadline_s - self._monotonic_s())

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The deadline moves back by what passes inside."""
        began_s = self._monotonic_s()
        try:
            yield
        finally:
            self._deadline_s += self._monotonic_s() - began_s

    def spend(self, usage: Usage) -> None:
        self.usage = usage if self.usage is NOTHING_USED else self.usage + usage

    def take_tool_call(self) -> bool:
        """Whether there is room for one more call; if so it is counted."""
        if self.tool_calls >= self.limits.max_tool_calls:
            return False
        self.tool_calls += 1
        return True

    def reached(self) -> TurnEnd | None:
        """The limit that forbids another step, if any."""
        limits = self.limits
        if self.steps >= limits.max_steps:
            return TurnEnd.MAX_STEPS
        if self._monotonic_s() >= self._deadline_s:
            return TurnEnd.WALL_TIME
        if limits.max_tokens is not None and self.usage.total_tokens >= limits.max_tokens:
            return TurnEnd.TOKENS
        if limits.max_cost is not None and (self.usage.cost or 0.0) >= limits.max_cost:
            return TurnEnd.COST
        return None
