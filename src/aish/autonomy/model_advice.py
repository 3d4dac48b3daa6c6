"""Asks other models for advice on autonomous work: a list of tasks before it, a second opinion on a call."""

from __future__ import annotations

import msgspec

from aish.autonomy.prompts import OPINION, PREPLANNER
from aish.engine.engine import Engine
from aish.errors import AishError
from aish.types.decisions import Question
from aish.types.requests import Sampling
from aish.types.usage import Category

_DEADLINE_S = 120.0
_TASK_TOKENS = 600
_OPINION_TOKENS = 120
_MAX_CHARS = 8000
_SCHEMA = {
    "type": "object",
    "properties": {"halt": {"type": "boolean"}, "why": {"type": "string", "maxLength": 200}},
    "required": ["halt", "why"],
}


class _Opinion(msgspec.Struct):
    halt: bool
    why: str = ""


async def write_tasks(engine: Engine, model: str, goal: str, session: str) -> str:
    """Raises AishError."""
    answer = await engine.side_calls.ask(
        await engine.router.resolve(model),
        f"The goal: {goal}",
        system=PREPLANNER,
        category=Category.PREPLAN,
        session=session,
        max_tokens=_TASK_TOKENS,
        deadline_s=_DEADLINE_S,
    )
    return answer.text


async def find_objection(engine: Engine, model: str, goal: str, question: Question, session: str) -> str:
    """The model's objection to a call, or "". It counts as one if the model cannot be asked or the call is too long."""
    call = f"{question.tool} {msgspec.json.encode(question.arguments).decode()}"
    if len(call) > _MAX_CHARS:
        return f"not available ({len(call)} characters are too many to be looked at)"
    try:
        answer = await engine.side_calls.ask(
            await engine.router.resolve(model),
            f"The goal: {goal[:_MAX_CHARS]}\nIt wants: {call}",
            system=OPINION,
            category=Category.NORRIS,
            session=session,
            max_tokens=_OPINION_TOKENS,
            deadline_s=_DEADLINE_S,
            sampling=Sampling(temperature=0.0, json_schema=_SCHEMA),
        )
        opinion = msgspec.json.decode(answer.text, type=_Opinion)
    except (AishError, ValueError, RecursionError) as exc:
        return f"not available ({exc})"
    return (opinion.why or "halt") if opinion.halt else ""
