"""Counts what a turn spends against its limits, says which one it has reached, and describes how a turn ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from aish.engine.turn.events import NO_ANSWER
from aish.ports import CallerRights, Clock, SharedBudget
from aish.types.events import TurnEnd
from aish.types.requests import TurnLimits
from aish.types.usage import NOTHING_USED, Usage

# Ends that need no line for the user: the answer, an error or a question says it.
SILENT_ENDS = (TurnEnd.ANSWERED, TurnEnd.FAILED, TurnEnd.CANCELLED, TurnEnd.CLIENT_TOOLS, TurnEnd.APPROVAL)
_DESCRIPTIONS = {
    TurnEnd.MAX_STEPS: "stopped after {steps}, the limit for one turn",
    TurnEnd.MAX_TOOL_CALLS: "stopped after {tool_calls}, the limit for one turn",
    TurnEnd.WALL_TIME: "stopped after {limits.wall_s:g} s, the time limit for one turn",
    TurnEnd.TOKENS: "stopped at the limit of {limits.max_tokens} tokens for one turn",
    TurnEnd.COST: "stopped at the limit of ${limits.max_cost} for one turn",
    TurnEnd.REPEATED: "stopped because the model kept making the same call",
    TurnEnd.LENGTH: "the answer was cut at the model's token limit",
    TurnEnd.CANCELLED: "stopped by the user",
    TurnEnd.INTERRUPTED: "interrupted",
    TurnEnd.FAILED: "the turn failed",
    TurnEnd.ANSWERED: NO_ANSWER,
    TurnEnd.CLIENT_TOOLS: "waiting for the results of calls that the client runs",
    TurnEnd.APPROVAL: "waiting for a decision",
}


def start_budget(limits: TurnLimits, clock: Clock, caller: CallerRights | None = None) -> Budget:
    """A budget whose time runs from now on. `caller` is the turn which has started this one."""
    callers = None if caller is None else caller.budget
    return Budget(limits, clock.monotonic_s, clock.monotonic_s() + limits.wall_s, callers)


class Budget(msgspec.Struct, eq=False):
    """What a turn spends. What it spends is taken from the budget of its caller, too. `children` is what turns that it
    has started have spent; `usage` is its own."""

    limits: TurnLimits
    _monotonic_s: Callable[[], float]
    _deadline_s: float
    _caller: SharedBudget | None = None
    steps: int = 0
    tool_calls: int = 0
    usage: Usage = NOTHING_USED
    children: Usage = NOTHING_USED

    @property
    def remaining_s(self) -> float:
        own_s = max(0.0, self._deadline_s - self._monotonic_s())
        return own_s if self._caller is None else min(own_s, self._caller.remaining_s)

    def get_remaining(self) -> TurnLimits:
        """What a turn that this one starts may spend at most."""
        limits, usage = self.limits, self.usage + self.children
        return msgspec.structs.replace(
            limits,
            max_steps=max(0, limits.max_steps - self.steps),
            max_tool_calls=max(0, limits.max_tool_calls - self.tool_calls),
            wall_s=self.remaining_s,
            max_tokens=None if limits.max_tokens is None else max(0, limits.max_tokens - usage.total_tokens),
            max_cost=None if limits.max_cost is None else max(0.0, limits.max_cost - (usage.cost or 0.0)),
        )

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Moves the deadline back by the time that passes inside."""
        began_s = self._monotonic_s()
        try:
            yield
        finally:
            self._deadline_s += self._monotonic_s() - began_s

    def spend(self, usage: Usage) -> None:
        self.usage = usage if self.usage is NOTHING_USED else self.usage + usage
        if self._caller is not None:
            self._caller.spend_for_child(usage)

    def spend_for_child(self, usage: Usage) -> None:
        self.children = self.children + usage
        if self._caller is not None:
            self._caller.spend_for_child(usage)

    def take_tool_call(self) -> bool:
        """Counts one more call, if the limit leaves room for it."""
        if self.tool_calls >= self.limits.max_tool_calls:
            return False
        if self._caller is not None and not self._caller.take_tool_call():
            return False
        self.tool_calls += 1
        return True

    def find_reached_limit(self) -> TurnEnd | None:
        """The limit that forbids another step, if any."""
        limits = self.limits
        if self.steps >= limits.max_steps:
            return TurnEnd.MAX_STEPS
        if self._monotonic_s() >= self._deadline_s:
            return TurnEnd.WALL_TIME
        return self.find_spent()

    def find_spent(self) -> TurnEnd | None:
        limits = self.limits
        usage = self.usage if self.children is NOTHING_USED else self.usage + self.children
        if limits.max_tokens is not None and usage.total_tokens >= limits.max_tokens:
            return TurnEnd.TOKENS
        if limits.max_cost is not None and (usage.cost or 0.0) >= limits.max_cost:
            return TurnEnd.COST
        return None if self._caller is None else self._caller.find_spent()


def describe_end(end: TurnEnd, limits: TurnLimits, refusal: str = "") -> str:
    """Why the turn ended, in words. `refusal` says it better where a model call was refused or cut."""
    if refusal:
        return refusal
    text = _DESCRIPTIONS[end]
    if "{" not in text:
        return text
    steps, calls = _with_unit(limits.max_steps, "step"), _with_unit(limits.max_tool_calls, "tool call")
    return text.format(limits=limits, steps=steps, tool_calls=calls)


def _with_unit(number: int, unit: str) -> str:
    return f"{number} {unit}" if number == 1 else f"{number} {unit}s"
