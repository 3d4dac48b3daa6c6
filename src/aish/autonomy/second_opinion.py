"""What other models say of work that goes on by itself: a list of tasks before it, a second opinion on a step."""

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
    said = await engine.aside.ask(
        await engine.router.resolve(model),
        f"The goal: {goal}",
        system=PREPLANNER,
        category=Category.PREPLAN,
        session=session,
        max_tokens=_TASK_TOKENS,
        deadline_s=_DEADLINE_S,
    )
    return said.text


async def objection_to(engine: Engine, model: str, goal: str, question: Question, session: str) -> str:
    """What the model has against it, "" if nothing. Where it cannot be asked, that is an objection; so is what cannot
    be shown whole."""
    wanted = f"{question.tool} {msgspec.json.encode(question.arguments).decode()}"
    if len(wanted) > _MAX_CHARS:
        return f"none could be had ({len(wanted)} characters are too many to be looked at)"
    try:
        said = await engine.aside.ask(
            await engine.router.resolve(model),
            f"The goal: {goal[:_MAX_CHARS]}\nIt wants: {wanted}",
            system=OPINION,
            category=Category.NORRIS,
            session=session,
            max_tokens=_OPINION_TOKENS,
            deadline_s=_DEADLINE_S,
            sampling=Sampling(temperature=0.0, json_schema=_SCHEMA),
        )
        opinion = msgspec.json.decode(said.text, type=_Opinion)
    except (AishError, ValueError, RecursionError) as exc:
        return f"none could be had ({exc})"
    return (opinion.why or "halt") if opinion.halt else ""
