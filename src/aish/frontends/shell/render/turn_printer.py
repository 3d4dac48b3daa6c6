"""One turn on a terminal: waits with a sign of life, then narrates."""

from __future__ import annotations

from aish.engine.engine import Engine
from aish.frontends.shell.render.event_printer import Narrator
from aish.ports import Ask
from aish.types.requests import TurnRequest


async def answer(engine: Engine, request: TurnRequest, narrator: Narrator, ask: Ask | None) -> None:
    async with (
        narrator.waiting(f"waiting for {request.model or 'a model'}"),
        engine.turn(request, ask=ask) as batches,
    ):
        async for events in batches:
            narrator.show_all(events)
