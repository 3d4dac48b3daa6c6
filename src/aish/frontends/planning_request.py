"""From what was asked for (`true`, or an object) and the configuration to how a request is planned."""

from __future__ import annotations

from typing import Any

import msgspec

from aish.config.schema.work import PlannerConfig
from aish.errors import UsageError
from aish.types.plans import Plan, Planning

_MAX_REWRITES = 5


class _Asked(msgspec.Struct, forbid_unknown_fields=True):
    model: str = ""
    max_steps: int | None = None
    max_rewrites: int | None = None
    max_replans: int | None = None
    plan: Plan | None = None


def planning_of(config: PlannerConfig, given: Any) -> Planning | None:
    """None: no plan is wanted. A request may ask for less than the configuration gives, never for more. Raises
    UsageError."""
    if given is None or given is False:
        return None
    try:
        asked = _Asked() if given is True else msgspec.convert(given, _Asked)
    except msgspec.ValidationError as exc:
        raise UsageError(f"planner: {exc}", hint="it is true, false or an object") from None
    if asked.max_steps is not None and asked.max_steps < 1:
        raise UsageError("planner.max_steps: must be at least 1")
    return Planning(
        model=asked.model or config.model,
        max_steps=_least(asked.max_steps, config.max_steps),
        max_rewrites=_least(asked.max_rewrites, min(config.max_rewrites, _MAX_REWRITES)),
        max_replans=_least(asked.max_replans, config.max_replans),
        plan=asked.plan,
    )


def _least(asked: int | None, most: int) -> int:
    return most if asked is None else max(0, min(asked, most))
