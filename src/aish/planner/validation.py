"""Parses the plan that a model wrote, and checks it against the tools of the request. Pure.

A plan with any error is not run, not even in part. The errors are sent back to the model.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

from aish.planner.references import BadReference, find_malformed, references, rename_steps
from aish.tool_calls.schema.validator import schema_errors
from aish.types.runs import Plan, PlanStep
from aish.types.tools import JsonSchema, ToolSpec

_ID = re.compile(r"[A-Za-z][\w-]{0,31}")
_MAX_ERRORS = 12
_FENCE = re.compile(r"\A\s*```[a-z]*\n(.*?)\n?```\s*\Z", re.DOTALL)


class NoPlanNeeded(msgspec.Struct, frozen=True):
    """The planner declined: the request needs no plan."""


class _Draft(msgspec.Struct):
    direct: bool = False
    steps: list[PlanStep] = []


def parse_plan(answer: str) -> Plan | NoPlanNeeded | str:
    """The plan in the model's answer; a string says what is wrong with it."""
    if fenced := _FENCE.match(answer):
        answer = fenced[1]
    try:
        draft = msgspec.json.decode(answer, type=_Draft)
    except (ValueError, RecursionError) as exc:
        return f"that is not a plan: {exc}"
    if draft.steps:
        return Plan(tuple(draft.steps))
    return NoPlanNeeded() if draft.direct else "the plan has no steps"


def plan_errors(
    plan: Plan, tools: Mapping[str, ToolSpec], *, max_steps: int, done: Collection[str] = (), calls_left: int = 1000
) -> list[str]:
    """The errors of a plan. `done` are completed steps whose results it may refer to."""
    count = len(plan.steps)
    if count > max_steps:
        return [f"the plan has {count} steps; {max_steps} are allowed"]
    if count > calls_left:
        return [f"the plan has {count} steps; {calls_left} more calls are allowed in this turn"]
    errors: list[str] = []
    known = set(done)
    all_ids = {step.id for step in plan.steps}
    for step in plan.steps:
        errors += _step_errors(step, tools, known, all_ids)
        known.add(step.id)
    return errors[:_MAX_ERRORS]


def _step_errors(
    step: PlanStep, tools: Mapping[str, ToolSpec], known: Collection[str], all_ids: Collection[str]
) -> Iterator[str]:
    name = f"step {step.id[:40]!r}"
    if not _ID.fullmatch(step.id):
        yield f"{name}: an id is a letter and up to 31 letters, digits, - or _"
    elif step.id in known:
        yield f"{name}: the id is used twice"
    for other in dict.fromkeys((*step.needs, *references(step.args))):
        if other == step.id:
            yield f"{name}: it needs itself"
        elif other not in known and other in all_ids:
            yield f"{name}: it refers to {other[:40]}, which comes later; refer only to earlier steps"
        elif other not in known:
            yield f"{name}: it refers to {other[:40]}, and there is no such step; write $$ for a plain $"
    for other, text in find_malformed(step.args):
        if other in known or other in all_ids:
            yield f"{name}: {text[:60]} leads nowhere; write ${other}.key or ${other}[0], and $$ for a plain $"
    spec = tools.get(step.tool)
    if spec is None:
        yield f"{name}: {step.tool[:80]!r} is not one of the tools: {', '.join(sorted(tools)[:20])}"
        return
    args, schema = _without_references(step.args, spec.schema)
    yield from (f"{name}: {error}" for error in schema_errors(schema, args))


def _without_references(args: Mapping[str, Any], schema: JsonSchema) -> tuple[dict[str, Any], JsonSchema]:
    """The arguments and the schema without those that contain references: they are checked when they are filled in."""
    pending = {key for key, value in args.items() if any(references(value))}
    if not pending:
        return dict(args), schema
    required = [key for key in schema.get("required", []) if key not in pending]
    return {key: value for key, value in args.items() if key not in pending}, {**schema, "required": required}


def plan_schema(tools: Collection[str], max_steps: int) -> JsonSchema:
    """The schema that constrains the planner's answer: it may name only the tools of the request."""
    step = {
        "type": "object",
        "properties": {
            "id": {"type": "string", "maxLength": 32},
            "tool": {"type": "string", "enum": sorted(tools)},
            "args": {"type": "object"},
            "needs": {"type": "array", "items": {"type": "string"}, "maxItems": max_steps},
            "why": {"type": "string", "maxLength": 200},
        },
        "required": ["id", "tool", "args"],
    }
    return {
        "type": "object",
        "properties": {
            "direct": {"type": "boolean"},
            "steps": {"type": "array", "items": step, "maxItems": max_steps},
        },
        "required": ["direct", "steps"],
    }


def has_same_calls(one: Plan, other: Plan) -> bool:
    """Whether two plans make the same calls, whatever the ids of their steps."""
    try:
        return _calls(one) == _calls(other)
    except BadReference:  # a plan that is nested too deeply was never run
        return False


def _calls(plan: Plan) -> list[tuple[str, Any]]:
    """The calls of a plan, with references by the number of the step."""
    numbers = {step.id: f"step-{number}" for number, step in enumerate(plan.steps)}
    return [(step.tool, rename_steps(step.args, numbers)) for step in plan.steps]
