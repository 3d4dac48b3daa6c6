"""Long work for the command line and the server: makes the state of a goal or how to plan, and describes runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from aish.autonomy.state import GoalState
from aish.config.schema.config import Config, PlannerConfig
from aish.errors import UsageError
from aish.frontends.terminal import visible
from aish.types.decisions import Mode
from aish.types.runs import Plan, Planning, RunRecord, StepRecord
from aish.types.usage import KeyBudget

MAX_GOAL_CHARS = 20_000
_MAX_REWRITES = 5
_GOAL_CHARS = 80


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
    mode: Mode = Mode.AUTO,
) -> bytes:
    """The first state of work towards a goal, encoded. What is not given comes from the configuration. Autonomous work
    is for what needs no question, so its mode is `auto`, unless its owner may not go so far."""
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
        mode=mode,
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
        max_steps=_cap(wanted.max_steps, config.max_steps),
        max_rewrites=_cap(wanted.max_rewrites, min(config.max_rewrites, _MAX_REWRITES)),
        max_replans=_cap(wanted.max_replans, config.max_replans),
        plan=wanted.plan,
    )


def _cap(wanted: int | None, limit: int) -> int:
    return limit if wanted is None else max(0, min(wanted, limit))


def run_json(run: RunRecord, steps: Sequence[StepRecord] | None = None) -> dict[str, Any]:
    body = msgspec.json.decode(run.body)
    shown: dict[str, Any] = {
        "id": run.id,
        "kind": run.kind,
        "session": run.session,
        "goal": run.goal,
        "state": run.state,
        "reason": run.reason,
        "created_ms": run.created_ms,
        "updated_ms": run.updated_ms,
        "owner": run.owner,
        "fence": run.fence,
        "step": body.get("step", 0),
        "halt": body.get("halt"),
        "plan": _plan(body.get("plan"), steps),
    }
    if steps is not None:
        shown["steps"] = [step_json(step) for step in steps]
    return shown


def _plan(plan: Any, steps: Sequence[StepRecord] | None) -> Any:
    """The plan, with the status of each step if the journal is given."""
    if not plan or steps is None:
        return plan
    states = {step.key: step.state.value for step in steps if step.key}
    return {"steps": [{**step, "status": states.get(step["id"], "waiting")} for step in plan["steps"]]}


def step_json(step: StepRecord) -> dict[str, Any]:
    return {
        "n": step.number,
        "key": step.key,
        "call": step.call,
        "tool": step.tool,
        "effect": step.effect,
        "state": step.state,
        "status": step.status,
        "arguments": msgspec.json.decode(step.arguments),
        "outcome": step.outcome,
        "started_ms": step.started_ms,
        "finished_ms": step.finished_ms,
    }


def run_line(run: RunRecord) -> str:
    when = datetime.fromtimestamp(run.created_ms / 1000, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
    goal = " ".join(visible(run.goal).split())
    shown = goal if len(goal) <= _GOAL_CHARS else f"{goal[: _GOAL_CHARS - 1]}…"
    return f"{run.id}  {when}  {run.kind:<6}  {run.state:<9}  {shown}"
