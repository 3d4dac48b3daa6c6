"""One turn on a terminal: waits with a sign of life, then narrates."""

from __future__ import annotations

from aish.engine.session import Engine, flattened
from aish.faces.shell.narrate import Narrator
from aish.faces.shell.waiting import Waiting
from aish.ports import Ask
from aish.types.events import StepStarted, TurnStarted
from aish.types.requests import TurnRequest


async def answer(engine: Engine, request: TurnRequest, narrator: Narrator, ask: Ask | None) -> None:
    async with (
        Waiting(narrator.output, f"waiting for {request.model or 'a model'}") as waiting,
        engine.turn(request, ask=ask) as batches,
    ):
        async for event in flattened(batches):
            if not isinstance(event.body, TurnStarted | StepStarted):
                waiting.over()
            narrator.show(event)
