"""One case asked of the real engine, with a model that follows a script."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aish.engine.engine import Engine
from aish.errors import ProviderUnavailable
from aish.frontends.eval.attempt import MAX_RETRIES, AttemptSettings, attempt
from aish.frontends.eval.cases import Case, Expectation, Final, World
from aish.frontends.eval.matching import ExpectedCall
from aish.frontends.eval.report import Result, Setting
from aish.frontends.eval.runner import MAX_FAILURES_IN_A_ROW, EvalPlan, run_plan
from aish.ports import Toolset
from aish.providers.scripted import Item
from aish.safety.redaction.redactor import Redactor
from aish.tools.registry import Registry
from aish.types.chunks import StepEnd, StepFinished, UsageChunk
from aish.types.events import TextDelta
from aish.types.messages import ToolMessage, user
from aish.types.tools import Effect, ToolSpec
from aish.types.usage import Usage
from support.engines import Bench, FixedLiveness, TickingClock, call, policy_gate

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
ADD = ToolSpec("add", "Add.", SCHEMA, Effect.READ, "case")
WANTS_ONE = Expectation(calls=(ExpectedCall("add", {"a": [1]}),))
HOW = AttemptSettings(
    setting=Setting("scripted:model", "native", repair=False), seed=7, repeat=2, temperature=0.0, timeout_s=20.0
)


def case(expect: Expectation = WANTS_ONE, **fields: Any) -> Case:
    given = {"id": "c1", "suite": "s", "messages": (user("add 1"),), "tools": (ADD,), "digest": "d", **fields}
    return Case(expect=expect, **given)


def nowhere(folder: Path, base: Engine, more: Mapping[str, Toolset]) -> Engine:
    raise AssertionError("only cases with real tools go there")


async def ask(bench: Bench, asked: Case, how: AttemptSettings = HOW) -> Result:
    async with asyncio.timeout(30):
        return await attempt(asked, how, bench.engine, nowhere)


async def test_the_right_call_is_right_and_is_not_run() -> None:
    bench = Bench([call("add", '{"a": 1}'), UsageChunk(Usage(10, 5))])
    result = await ask(bench, case())
    assert (result.outcome, result.right_tool, result.rounds) == ("right", True, 1)
    assert (result.prompt_tokens, result.completion_tokens) == (10, 5)
    assert [(got.name, got.fault) for got in result.calls] == [("add", "")]
    assert bench.tools.calls == []


async def test_the_model_is_asked_as_the_options_say() -> None:
    bench = Bench([TextDelta("no")])
    await ask(bench, case())
    (request,) = bench.scripted.requests
    assert (request.tool_mode, request.repair) == ("native", False)
    assert (request.sampling.seed, request.sampling.temperature) == (9, 0.0)
    assert [tool.name for tool in request.tools] == ["add"]


@pytest.mark.parametrize(
    ("said", "fault", "reason"),
    [
        (call("add", '{"a": 2}'), "", "add: a is 2, not 1"),
        (call("add", '{"a": 1'), "the arguments are no JSON object", "add: its arguments are no JSON object"),
        (call("add", "{}"), '"a" is a required property', "add: a is missing"),
    ],
)
async def test_a_wrong_call_is_wrong_and_says_why(said: Item, fault: str, reason: str) -> None:
    result = await ask(Bench([said]), case())
    assert (result.outcome, result.right_tool, result.reason) == ("wrong", True, reason)
    assert [got.fault for got in result.calls] == [fault]


MENDING = msgspec.structs.replace(HOW, setting=Setting("scripted:model", "native"))


async def test_a_call_that_is_sent_back_may_be_made_again_and_the_last_one_counts() -> None:
    steps: Sequence[Sequence[Item]] = ([call("subtract_it_all", '{"a": 1}')], [call("add", '{"a": 1}')])
    result = await ask(Bench(*steps), case(), MENDING)
    assert (result.outcome, result.rounds, result.retries) == ("right", 2, 1)
    assert [got.name for got in result.calls] == ["add"]


async def test_a_call_is_mended_as_dispatch_would_mend_it_unless_it_is_taken_raw() -> None:
    said = [call("add", "{'a': '1',}")]
    mended = await ask(Bench(said), case(), MENDING)
    assert mended.outcome == "right" and mended.repairs > 0
    assert [(got.name, got.fault) for got in mended.calls] == [("add", "")]
    raw = await ask(Bench(said), case())
    assert (raw.outcome, raw.repairs) == ("wrong", 0)


async def test_a_call_that_was_cut_off_is_not_mended() -> None:
    said = [call("add", '{"a": 1'), StepFinished(StepEnd.LENGTH)]
    assert (await ask(Bench(said), case(), MENDING)).outcome == "wrong"


async def test_without_repair_the_first_answer_counts() -> None:
    steps: Sequence[Sequence[Item]] = ([call("subtract_it_all", '{"a": 1}')], [call("add", '{"a": 1}')])
    result = await ask(Bench(*steps), case())
    assert (result.outcome, result.rounds) == ("wrong", 1)
    assert [got.fault for got in result.calls] == ["no such tool"]


async def test_a_model_that_never_mends_its_call_is_not_asked_for_ever() -> None:
    result = await ask(Bench([call("subtract_it_all", "{}")]), case(), MENDING)
    assert (result.outcome, result.rounds) == ("wrong", 1 + MAX_RETRIES)


async def test_an_answer_where_a_call_was_wanted_is_wrong_and_kept() -> None:
    result = await ask(Bench([TextDelta("It is "), TextDelta("two.")]), case())
    assert (result.outcome, result.text, result.reason) == ("wrong", "It is two.", "no call was made")


async def test_no_call_is_right_where_none_is_wanted() -> None:
    none = Expectation(no_call=True)
    assert (await ask(Bench([TextDelta("Hello!")]), case(none))).outcome == "right"
    assert (await ask(Bench([call("add", '{"a": 1}')]), case(none))).outcome == "wrong"


async def test_a_backend_that_fails_is_an_error_and_never_a_wrong_answer() -> None:
    result = await ask(Bench([ProviderUnavailable("it is down")]), case())
    assert (result.outcome, result.right_tool) == ("error", False)
    assert "it is down" in result.error


async def test_a_model_that_is_not_there_is_an_error() -> None:
    how = msgspec.structs.replace(HOW, setting=Setting("scripted:ghost", "native"))
    result = await ask(Bench([TextDelta("hi")]), case(), how)
    assert result.outcome == "error" and "ghost" in result.error


async def test_a_defect_that_a_case_brings_out_is_an_error_and_stops_nothing() -> None:
    result = await ask(Bench([TextDelta("hi")]), case(Expectation(final=Final(answer="x")), offer=("files__*",)))
    assert result.outcome == "error"
    assert "internal error: AssertionError: only cases with real tools go there" in result.error


async def test_an_answer_that_takes_too_long_is_an_error() -> None:
    how = msgspec.structs.replace(HOW, timeout_s=0.05)
    result = await ask(Bench([60.0]), case(), how)
    assert result.outcome == "error" and result.error


def scratch(folder: Path, base: Engine, more: Mapping[str, Toolset]) -> Engine:
    tools = Registry()
    for alias, source in more.items():
        tools.add(alias, source)
    return Engine(
        router=base.router, tools=tools, gate=policy_gate(), store=base.store, clock=TickingClock(),
        liveness=FixedLiveness(), redactor=Redactor(),
    )  # fmt: skip


MOVE = case(
    Expectation(final=Final(files={"a.txt": None, "b.txt": "hello"}, answer={"$contains": ["done"]})),
    tools=(),
    offer=("files__*",),
    world=World(files={"a.txt": "hello\n"}),
)


async def test_real_tools_run_in_a_scratch_folder_and_what_they_leave_is_judged() -> None:
    steps: Sequence[Sequence[Item]] = (
        [call("files__read", '{"path": "a.txt"}')],
        [
            call("files__write", '{"path": "b.txt", "content": "hello"}'),
            call("files__delete", '{"path": "a.txt"}', index=1),
        ],
        [TextDelta("Done.")],
    )
    result = await attempt(MOVE, HOW, Bench(*steps).engine, scratch)
    assert (result.outcome, result.rounds, result.reason) == ("right", 3, "")


async def test_what_was_left_undone_is_named() -> None:
    result = await attempt(MOVE, HOW, Bench([TextDelta("Done, I think.")]).engine, scratch)
    assert (result.outcome, result.reason) == ("wrong", "the file a.txt is still there; the file b.txt is missing")


async def test_a_following_question_goes_on_in_the_same_conversation_and_folder() -> None:
    two = msgspec.structs.replace(
        MOVE, expect=Expectation(final=Final(files={"b.txt": "x"}, used=("files__write",))), then=("Now write b.",)
    )
    steps: Sequence[Sequence[Item]] = (
        [call("files__read", '{"path": "a.txt"}')],
        [TextDelta("It says hello.")],
        [call("files__write", '{"path": "b.txt", "content": "x"}')],
        [TextDelta("Written.")],
    )
    bench = Bench(*steps)
    result = await attempt(two, HOW, bench.engine, scratch)
    assert (result.outcome, result.rounds) == ("right", 4)
    last = bench.scripted.requests[-1].messages
    assert [type(message).__name__ for message in last if isinstance(message, ToolMessage)] == ["ToolMessage"] * 2


async def test_a_call_that_the_schema_rejects_counts_as_a_retry() -> None:
    steps: Sequence[Sequence[Item]] = (
        [call("files__read", '{"file": 3}')],
        [call("files__read", '{"path": "a.txt"}')],
        [TextDelta("done")],
    )
    result = await attempt(MOVE, HOW, Bench(*steps).engine, scratch)
    assert result.retries == 1


async def test_all_cases_are_asked_in_every_setting_and_repetition() -> None:
    results: list[Result] = []
    plan = EvalPlan(
        cases=(case(), case(id="c2")),
        settings=(Setting("scripted:model", "native"), Setting("scripted:model", "auto")),
        repeat=3,
        concurrency=4,
    )
    async with asyncio.timeout(30):
        await run_plan(plan, Bench([call("add", '{"a": 1}')]).engine, nowhere, results.append)
    assert len({result.key for result in results}) == len(results) == plan.total == 12


async def test_a_backend_that_keeps_failing_is_not_asked_for_ever() -> None:
    results: list[Result] = []
    cases = tuple(case(id=f"c{at}") for at in range(MAX_FAILURES_IN_A_ROW + 5))
    bench = Bench([ProviderUnavailable("down")])
    plan = EvalPlan(cases=cases, settings=(HOW.setting,))
    async with asyncio.timeout(30):
        await run_plan(plan, bench.engine, nowhere, results.append)
    outcomes = [result.outcome for result in results]
    assert outcomes == ["error"] * MAX_FAILURES_IN_A_ROW + ["skipped"] * 5
