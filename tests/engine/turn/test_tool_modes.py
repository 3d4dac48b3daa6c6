"""Whole turns of models that write their calls as text: the same loop, the same gate, the same results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from aish.providers.scripted import Item, ScriptedProvider, from_steps
from aish.providers.tool_calling.provider import ToolCallingProvider
from aish.types.chunks import StepEnd, StepFinished
from aish.types.events import Event, TextDelta, ToolCallReady, TurnEnd, TurnFinished, decode_event
from aish.types.messages import ToolMessage
from aish.types.tools import RepairKind, ResultStatus
from support.engines import Bench, Tools, call, results

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
CALL = '<tool_call>{"name": "t__x", "arguments": {"n": 3}}</tool_call>'
DONE: list[Item] = [TextDelta("Done.")]


def bench(*steps: Sequence[Item], tools: Tools | None = None) -> Bench:
    inner = ScriptedProvider("scripted", {"model": from_steps(steps)})
    return Bench(provider=ToolCallingProvider(inner), tools=tools or Tools().add("t__x", schema=NUMBER))


def letters(text: str) -> list[Item]:
    return [TextDelta(letter) for letter in text]


def said(events: list[Event]) -> str:
    return "".join(event.body.text for event in events if isinstance(event.body, TextDelta))


def end_of(events: list[Event]) -> TurnEnd:
    assert isinstance(events[-1].body, TurnFinished)
    return events[-1].body.reason


@pytest.mark.parametrize("mode", ["native", "prompted"])
async def test_a_call_and_prose_that_interleave_are_told_apart(mode: str):
    made = bench(letters(f"First.\n{CALL}\nThen {CALL.replace('3', '4')} after."), DONE)
    events = await made.run(tool_mode=mode)
    assert made.tools.calls == [("t__x", {"n": 3}), ("t__x", {"n": 4})]
    assert said(events).split() == ["First.", "Then", "after.Done."]
    assert end_of(events) is TurnEnd.ANSWERED


async def test_the_model_gets_the_result_of_a_call_it_wrote_as_text():
    made = bench(letters(CALL), DONE)
    events = await made.run()
    history = await made.engine.history(events[0].session)
    assert [message.text for message in history if isinstance(message, ToolMessage)] == ["done"]


async def test_a_tool_that_does_not_exist_is_answered_as_such():
    made = bench(letters('<tool_call>{"name": "delete_all", "arguments": {}}</tool_call>'), DONE)
    (result,) = results(await made.run())
    assert (result.status, made.tools.calls) == (ResultStatus.UNKNOWN_TOOL, [])


async def test_a_call_cut_at_the_token_limit_is_never_run_and_the_model_is_told():
    made = bench([*letters(CALL[:50]), StepFinished(StepEnd.LENGTH)], DONE)
    events = await made.run()
    (result,) = results(events)
    assert (result.status, made.tools.calls) == (ResultStatus.BAD_ARGUMENTS, [])
    assert "token limit" in result.parts[0].text
    assert said(events) == "Done."


async def test_a_call_that_stops_in_the_middle_of_a_value_is_never_run():
    made = bench(letters('<tool_call>{"name": "t__x", "arguments": {"n": 3'), DONE)
    (result,) = results(await made.run())
    assert (result.status, made.tools.calls) == (ResultStatus.BAD_ARGUMENTS, [])


async def test_a_model_that_loops_the_same_call_is_stopped():
    made = bench(letters(CALL))
    events = await made.run()
    assert end_of(events) is TurnEnd.REPEATED
    assert len(made.tools.calls) == 2


async def test_every_repair_is_in_the_recorded_events():
    made = bench(letters("<tool_call>{'name': 't__x', 'arguments': {'n': '3'}}</tool_call>"), DONE)
    events = await made.run()
    lines = (await made.recorded(events)).splitlines()
    ready = [event.body for event in map(decode_event, lines) if isinstance(event.body, ToolCallReady)]
    assert [repair.kind for repair in ready[0].repairs] == [RepairKind.QUOTES, RepairKind.TYPE]
    assert made.tools.calls == [("t__x", {"n": 3})]


async def test_events_of_calls_that_needed_no_repair_look_as_before():
    made = bench(letters(CALL), DONE)
    assert b"repairs" not in await made.recorded(await made.run())


async def test_two_hundred_tools_and_odd_schemas_do_not_keep_the_good_one_from_being_called():
    odd: list[Any] = [
        {"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}},
        {"pattern": "(?=x)"},
        {"type": []},
    ]
    tools = Tools().add("t__x", schema=NUMBER)
    for n in range(200):
        tools.add(f"odd__tool{n}", schema=odd[n % len(odd)])
    made = bench(letters(CALL), DONE, tools=tools)
    await made.run(tool_mode="constrained")
    assert tools.calls == [("t__x", {"n": 3})]


@pytest.mark.parametrize("first", ["text", "native"])
async def test_a_call_that_is_written_and_made_natively_is_run_once(first: str):
    native = [call("t__x", '{"n":', id="c1"), call("", " 3}", id="")]
    written = letters(CALL)
    made = bench([*written, *native] if first == "text" else [*native, *written], DONE)
    await made.run(tool_mode="native")
    assert made.tools.calls == [("t__x", {"n": 3})]


async def test_calls_that_differ_are_both_run():
    made = bench([*letters(CALL), call("t__x", '{"n": 4}', id="c1")], DONE)
    await made.run(tool_mode="native")
    assert sorted(arguments["n"] for _, arguments in made.tools.calls) == [3, 4]
