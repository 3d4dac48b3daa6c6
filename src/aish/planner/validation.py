"""Whether a plan may be run: read from the model's words, and held against the tools of the request. Pure.

A plan with any error is not run, not even in part. The errors are for the model that wrote it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

from aish.planner.references import BadReference, misshapen, references, renamed
from aish.tool_calls.schema.validator import schema_errors
from aish.types.plans import Plan, PlanStep
from aish.types.tools import JsonSchema, ToolSpec

_ID = re.compile(r"[A-Za-z][\w-]{0,31}")
_MAX_ERRORS = 12
_FENCE = re.compile(r"\A\s*```[a-z]*\n(.*?)\n?```\s*\Z", re.DOTALL)


class Direct(msgspec.Struct, frozen=True):
    """The planner declined: nothing needs a plan."""


class _Draft(msgspec.Struct):
    direct: bool = False
    steps: list[PlanStep] = []


def read_plan(said: str) -> Plan | Direct | str:
    """What the planner wrote; a text says what is wrong with it."""
    if fenced := _FENCE.match(said):
        said = fenced[1]
    try:
        draft = msgspec.json.decode(said, type=_Draft)
    except (ValueError, RecursionError) as exc:
        return f"that is not a plan: {exc}"
    if draft.steps:
        return Plan(tuple(draft.steps))
    return Direct() if draft.direct else "the plan has no steps"


def plan_errors(
    plan: Plan, tools: Mapping[str, ToolSpec], *, max_steps: int, done: Collection[str] = (), calls_left: int = 1000
) -> list[str]:
    """All that speaks against running it; `done` are earlier steps whose results may be referred to."""
    count = len(plan.steps)
    if count > max_steps:  # no use in looking at each of ten thousand
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
    for other, text in misshapen(step.args):
        if other in known or other in all_ids:
            yield f"{name}: {text[:60]} leads nowhere; write ${other}.key or ${other}[0], and $$ for a plain $"
    spec = tools.get(step.tool)
    if spec is None:
        yield f"{name}: {step.tool[:80]!r} is not one of the tools: {', '.join(sorted(tools)[:20])}"
        return
    args, schema = _without_references(step.args, spec.schema)
    yield from (f"{name}: {error}" for error in schema_errors(schema, args))


def _without_references(args: Mapping[str, Any], schema: JsonSchema) -> tuple[dict[str, Any], JsonSchema]:
    """What can be checked before anything has run. The rest is checked when it is filled in, as any call is."""
    open_ = {key for key, value in args.items() if any(references(value))}
    if not open_:
        return dict(args), schema
    required = [key for key in schema.get("required", []) if key not in open_]
    return {key: value for key, value in args.items() if key not in open_}, {**schema, "required": required}


def plan_schema(tools: Collection[str], max_steps: int) -> JsonSchema:
    """What the planner's answer is constrained to: tool names are those of the request."""
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


def same_work(one: Plan, other: Plan) -> bool:
    """Whether they ask for the same calls, whatever the steps are called."""
    try:
        return _work(one) == _work(other)
    except BadReference:  # what cannot even be looked at is no plan that was run
        return False


def _work(plan: Plan) -> list[tuple[str, Any]]:
    """Its calls, where references name steps by their place."""
    places = {step.id: f"step-{number}" for number, step in enumerate(plan.steps)}
    return [(step.tool, renamed(step.args, places)) for step in plan.steps]
