"""Makes one tool call without a model, for programs: the MCP server, `CMD:` lines, admin commands.

It goes through the same dispatch and the same gate as a model's call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import aclosing

import msgspec

from aish.engine.tools.structured_results import with_structured
from aish.engine.turn.builder import TurnBuilder
from aish.engine.turn.events import EventFactory
from aish.engine.turn.turn_limits import start_budget
from aish.ports import Ask, Clock
from aish.runs.journal import Journal
from aish.safety.redaction.redactor import Redactor
from aish.types.decisions import Mode
from aish.types.events import Status, ToolResult
from aish.types.ids import new_id
from aish.types.messages import ToolCall
from aish.types.requests import TurnLimits


async def call_tool(
    builder: TurnBuilder,
    clock: Clock,
    redactor: Redactor,
    call: ToolCall,
    limits: TurnLimits,
    *,
    globs: Sequence[str],
    ask: Ask | None,
    on_status: Callable[[str], None],
    journal: Journal | None,
    ask_about: Sequence[str],
    owner: str,
    mode: Mode | None,
    after: str,
) -> ToolResult:
    events = EventFactory("", new_id("turn"), clock.now_ns)
    tools = builder.select_tools(globs, interactive=ask is not None, owner=owner, mode=mode)
    budget = start_budget(limits, clock)
    dispatcher = builder.dispatcher(
        events, budget, tools, ask, journal=journal, ask_about=ask_about, owner=owner, mode=mode, after=after
    )
    call = msgspec.structs.replace(call, name=tools.canonical(call.name))
    async with aclosing(dispatcher.run([call])) as batches:
        async for batch in batches:
            for event in batch:
                if isinstance(event.body, ToolResult):
                    structured, spec = dispatcher.find_structured(call), tools.find(call.name)
                    return with_structured(event.body, structured, spec, redactor.json)
                if isinstance(event.body, Status):
                    on_status(event.body.text)
    raise AssertionError("dispatch gives every call a result")
