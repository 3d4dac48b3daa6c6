"""Turns what a user or a caller asked for, and the configuration, into the state of a goal or into how to plan."""

from __future__ import annotations

from typing import Any

import msgspec

from aish.autonomy.state import GoalState
from aish.config.schema.config import Config, PlannerConfig
from aish.errors import UsageError
from aish.types.plans import Plan, Planning
from aish.types.usage import KeyBudget

MAX_GOAL_CHARS = 20_000
_MAX_REWRITES = 5


def make_goal_state(
    config: Config,
    *,
    model: str = "",
    tools: tuple[str, ...] | None = None,
    system: str = "",
    max_steps: int | None = None,
    max_cost: float | None = None,
    max_minutes: float | None = None,
    where: str = "",
    may_fall_back: bool = True,
    owner: str = "",
    payer: KeyBudget | None = None,
) -> bytes:
    """The first state of work towards a goal, encoded. What is not given comes from the configuration."""
    norris = config.norris
    state = GoalState(
        model=model or norris.executor,
        preplanner=norris.preplanner,
        second_opinion=config.safety.second_opinion,
        tools=config.tools.offer if tools is None else tools,
        system=system,
        max_steps=norris.max_steps if max_steps is None else max_steps,
        max_cost=norris.max_cost if max_cost is None else max_cost,
        max_s=60 * (norris.max_minutes if max_minutes is None else max_minutes),
        turn=config.limits.limits(),
        where=where,
        may_fall_back=may_fall_back,
        owner=owner,
        payer=payer,
    )
    return msgspec.json.encode(state)


def check_goal(text: str) -> str:
    """The goal without surrounding blanks. Raises UsageError if it is empty or too long."""
    goal = text.strip()
    if not goal:
        raise UsageError("work towards what?", hint="say the goal in words")
    if len(goal) > MAX_GOAL_CHARS:
        raise UsageError(f"the goal is longer than {MAX_GOAL_CHARS} characters", hint="put the details into a file")
    return goal


class _PlannerField(msgspec.Struct, forbid_unknown_fields=True):
    """The `planner` of a request, if it is an object."""

    model: str = ""
    max_steps: int | None = None
    max_rewrites: int | None = None
    max_replans: int | None = None
    plan: Plan | None = None


def make_planning(config: PlannerConfig, given: Any) -> Planning | None:
    """How to plan a request whose `planner` is `given` (true, false or an object). None: without a plan.

    A request may ask for less than the configuration allows, never for more. Raises UsageError.
    """
    if given is None or given is False:
        return None
    try:
        wanted = _PlannerField() if given is True else msgspec.convert(given, _PlannerField)
    except msgspec.ValidationError as exc:
        raise UsageError(f"planner: {exc}", hint="it is true, false or an object") from None
    if wanted.max_steps is not None and wanted.max_steps < 1:
        raise UsageError("planner.max_steps: must be at least 1")
    return Planning(
        model=wanted.model or config.model,
        max_steps=_at_most(wanted.max_steps, config.max_steps),
        max_rewrites=_at_most(wanted.max_rewrites, min(config.max_rewrites, _MAX_REWRITES)),
        max_replans=_at_most(wanted.max_replans, config.max_replans),
        plan=wanted.plan,
    )


def _at_most(wanted: int | None, limit: int) -> int:
    return limit if wanted is None else max(0, min(wanted, limit))
