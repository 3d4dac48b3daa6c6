"""Describes a run and its journal as JSON and as a line, for the command line and the server."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from aish.frontends.terminal import visible
from aish.types.runs import RunRecord, StepRecord

_GOAL_CHARS = 80


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
