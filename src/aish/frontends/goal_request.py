"""From the configuration and what was asked for to the first state of work towards a goal."""

from __future__ import annotations

import msgspec

from aish.autonomy.state import NorrisBody
from aish.config.schema.config import Config
from aish.errors import UsageError

MAX_GOAL_CHARS = 20_000


def first_state(
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
) -> bytes:
    norris = config.norris
    body = NorrisBody(
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
    )
    return msgspec.json.encode(body)


def checked_goal(text: str) -> str:
    goal = text.strip()
    if not goal:
        raise UsageError("work towards what?", hint="say the goal in words")
    if len(goal) > MAX_GOAL_CHARS:
        raise UsageError(f"the goal is longer than {MAX_GOAL_CHARS} characters", hint="put the details into a file")
    return goal
