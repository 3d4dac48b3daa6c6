"""Settings for goals (`norris`) and plans."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from aish.config.schema.section import Count, NotNegative, Section


class NorrisConfig(Section, frozen=True, forbid_unknown_fields=True):
    """Work towards a goal: `:norris`, `aish norris`. At a limit it stops and says so."""

    max_steps: Annotated[Count, Meta(description="Steps.")] = 16
    max_cost: Annotated[NotNegative | None, Meta(description="Dollars; unset means no limit of its own.")] = None
    max_minutes: Annotated[float, Meta(gt=0, description="Minutes.")] = 60.0
    preplanner: Annotated[
        str, Meta(description="A model or preset that writes the list of tasks once, before the work begins.")
    ] = ""
    executor: Annotated[str, Meta(description="The model or preset that does the work; unset: the one in use.")] = ""


class PlannerConfig(Section, frozen=True, forbid_unknown_fields=True):
    """Planning before working: `:plan`, and `"planner": true` in a request."""

    model: Annotated[str, Meta(description="The model that writes plans; unset: the one that answers.")] = ""
    max_steps: Annotated[Count, Meta(description="The most steps of a plan.")] = 8
    max_rewrites: Annotated[int, Meta(ge=0, description="How often a plan with errors is sent back.")] = 2
    max_replans: Annotated[int, Meta(ge=0, description="How often the rest is planned anew after a failed step.")] = 1
