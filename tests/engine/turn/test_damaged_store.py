"""The corruption suite through the whole engine: what a damaged call comes to when it is executed.

The model's words go in where a backend's would; what comes out is what a tool was called with. Held to its bars: nearly
all that can be repaired is, and nothing is ever called that was not meant.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from hypothesis import HealthCheck, given, settings

from aish.providers.scripted import Item, ScriptedProvider
from aish.providers.tool_calling.provider import ToolCallingProvider
from aish.types.chunks import StepEnd, StepFinished
from aish.types.events import TextDelta
from aish.types.requests import StepRequest
from support.damage import Damaged, Verdict, damaged, damaged_calls, judge
from support.engines import Bench, Tools, call

BAR_PERCENT = 95.0


async def come_to(case: Damaged) -> Verdict:
    """Gives the text to the engine as the model's only step."""

    def say(request: StepRequest) -> Sequence[Item]:
        said = TextDelta(case.text) if case.form == "text" else call(case.called, case.text)
        return [said, StepFinished(StepEnd(case.finish))]

    tools = Tools()
    for tool in case.tools:
        tools.add(tool.name, schema=tool.schema)
    bench = Bench(tools=tools, provider=ToolCallingProvider(ScriptedProvider("scripted", {"model": say})))
    mode = "prompted" if case.form == "text" else "native"
    await bench.run(kept=False, context=(), tool_mode=mode, limits={"max_steps": 1})
    return judge(case, tools.calls)


async def test_no_damaged_call_is_executed_wrongly_and_nearly_all_that_can_be_is_repaired() -> None:
    verdicts = [(case, await come_to(case)) for case in damaged_calls()]
    assert [(case.id, case.text) for case, verdict in verdicts if verdict == "wrong"] == []
    repairable = Counter(verdict for case, verdict in verdicts if case.repairable)
    assert 100.0 * repairable["repaired"] / repairable.total() >= BAR_PERCENT


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(damaged())
def test_no_seed_brings_forth_a_wrong_call(case: Damaged) -> None:
    assert asyncio.run(come_to(case)) != "wrong"
