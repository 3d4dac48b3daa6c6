"""Planning: what may be run, how it is run, and how it ends when the planner is bad at it or means harm."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish.engine.engine import flatten
from aish.errors import ProviderRejected, ProviderUnavailable
from aish.planner.references import BadReference, fill_in, references
from aish.planner.run import PlanBody, resume_request
from aish.planner.validation import NoPlanNeeded, parse_plan, plan_errors
from aish.providers.scripted import Item, ScriptedProvider
from aish.types.decisions import Answer, Choice, Question, QuestionKind
from aish.types.events import (
    Event,
    PlanAccepted,
    PlanProposed,
    PlanRejected,
    PlanStepFinished,
    Status,
    TextDelta,
    TurnEnd,
)
from aish.types.messages import AssistantMessage, ToolMessage
from aish.types.models import ModelProfile
from aish.types.requests import StepRequest
from aish.types.runs import Plan, Planning, PlanStep, RunState, StepState
from aish.types.tools import Effect, ToolSpec
from support.engines import Bench, Tools, finish, policy_gate, results, said

ADD = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]}


def step(id: str, tool: str = "x__read", needs: Sequence[str] = (), **args: Any) -> dict[str, Any]:
    return {"id": id, "tool": tool, "args": args, "needs": list(needs)}


def written(*steps: dict[str, Any]) -> str:
    return json.dumps({"direct": False, "steps": steps})


class PlanningModel:
    """Writes these plans, one after the other; answers as `model`."""

    def __init__(self, *plans: str | Exception) -> None:
        self.plans = list(plans)
        self.asked: list[StepRequest] = []
        self.provider = ScriptedProvider("planner", {"p": self._plan})

    def _plan(self, request: StepRequest) -> Sequence[Item]:
        self.asked.append(request)
        plan = self.plans.pop(0) if len(self.plans) > 1 else self.plans[0]
        return [plan] if isinstance(plan, ProviderUnavailable) else [TextDelta(str(plan))]


def tools() -> Tools:
    async def add(arguments: Any, context: Any) -> Any:
        return said(json.dumps({"sum": arguments["a"] + arguments["b"], "of": [arguments["a"], arguments["b"]]}))

    async def fail(arguments: Any, context: Any) -> Any:
        return said("no such file", is_error=True)

    return (
        Tools()
        .add("x__add", add, schema=ADD)
        .add("x__read")
        .add("x__fail", fail)
        .add("x__write", effect=Effect.WRITE)
        .add("x__secret")
    )


def bench(model: PlanningModel, **more: Any) -> Bench:
    gate = more.pop("gate", policy_gate(write="allow"))
    return Bench(
        [TextDelta("All in all: done.")], tools=more.pop("tools", tools()), gate=gate, others=[model.provider], **more
    )


async def run(bench: Bench, *, names: Sequence[str] = ("x__*",), **planning: Any) -> list[Event]:
    return await bench.run("do it", tools=tuple(names), planner=Planning(model="planner:p", **planning))


def bodies(events: Sequence[Event], kind: type) -> list[Any]:
    return [event.body for event in events if isinstance(event.body, kind)]


async def test_a_plan_is_followed_and_then_answered_from() -> None:
    model = PlanningModel(written(step("a", "x__add", a=1, b=2), step("b", "x__add", a="$a.sum", b="$a.of[1]")))
    under = bench(model)
    events = await run(under)
    assert finish(events).reason is TurnEnd.ANSWERED
    assert [json.loads(result.parts[0].text)["sum"] for result in results(events)] == [3, 5]  # type: ignore[union-attr]
    assert under.tools.calls == [("x__add", {"a": 1, "b": 2}), ("x__add", {"a": 3, "b": 2})]
    assert [body.id for body in bodies(events, PlanStepFinished)] == ["a", "b"]
    last = under.scripted.requests[-1]
    assert last.tool_choice.mode == "none"  # a summary, no more calls
    assert len(under.scripted.requests) == 1
    assert len([m for m in last.messages if isinstance(m, ToolMessage)]) == 2


async def test_the_planner_has_no_tools_and_a_schema_with_the_names_of_the_request() -> None:
    model = PlanningModel('{"direct": true, "steps": []}')
    under = bench(model)
    events = await run(under, names=("x__add", "x__read"))
    [asked] = model.asked
    assert asked.tools == ()
    assert asked.sampling.json_schema is not None
    names = asked.sampling.json_schema["properties"]["steps"]["items"]["properties"]["tool"]["enum"]
    assert names == ["x__add", "x__read"]
    assert finish(events).reason is TurnEnd.ANSWERED  # declined: the plain loop
    assert under.scripted.requests[0].tool_choice.mode == "auto"


async def test_reads_that_do_not_wait_for_each_other_run_together_and_writes_alone() -> None:
    running, most, order = 0, 0, []
    both = asyncio.Event()

    async def read(arguments: Any, context: Any) -> Any:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 2:
            both.set()
        await asyncio.wait_for(both.wait(), 5)
        running -= 1
        order.append(arguments["n"])
        return said("read")

    async def write(arguments: Any, context: Any) -> Any:
        assert running == 0
        order.append(arguments["n"])
        return said("written")

    some = Tools().add("x__read", read).add("x__write", write, effect=Effect.WRITE)
    plan = written(step("a", n=1), step("b", n=2), step("c", "x__write", n=3), step("d", "x__write", n=4))
    await run(bench(PlanningModel(plan), tools=some))
    assert most == 2
    assert order[2:] == [3, 4]


BAD_PLANS = {
    "unknown tool": written(step("a", "x__nothing")),
    "a tool that is not allowed": written(step("a", "y__other")),
    "a cycle": written(step("a", needs=["b"]), step("b", needs=["a"])),
    "itself": written(step("a", x="$a.y")),
    "a later step": written(step("a", x="$b"), step("b")),
    "no such step": written(step("a", x="$zzz.path")),
    "two of one id": written(step("a"), step("a")),
    "wrong arguments": written(step("a", "x__add", a="one", b=2)),
    "missing arguments": written(step("a", "x__add", a=1)),
    "ten thousand steps": written(*[step(f"s{n}") for n in range(10_000)]),
    "no steps": '{"direct": false, "steps": []}',
    "prose": "First I would read the file.",
    "a bad id": written(step("../a")),
    "a number": "7",
    "deep": "[" * 5000,
}


@pytest.mark.parametrize("plan", BAD_PLANS.values(), ids=list(BAD_PLANS))
async def test_a_bad_plan_goes_back_with_its_errors_and_no_step_of_it_runs(plan: str) -> None:
    model = PlanningModel(plan)
    under = bench(model)
    events = await run(under)
    assert under.tools.calls == []
    assert len(model.asked) == 3  # the plan and two rewrites
    rejected = bodies(events, PlanRejected)
    assert len(rejected) == 3
    assert all(body.errors for body in rejected)
    assert rejected[0].errors[0][:60] in model.asked[1].messages[-1].text
    assert bodies(events, PlanAccepted) == []
    assert finish(events).reason is TurnEnd.ANSWERED  # the plain loop took over
    assert under.scripted.requests[0].tool_choice.mode == "auto"


async def test_a_rewrite_continues_the_prompt_of_the_plan_and_is_no_part_of_the_conversation() -> None:
    model = PlanningModel(BAD_PLANS["unknown tool"], written(step("a")))
    await run(bench(model))
    first, second = (request.messages for request in model.asked)
    assert first[0] == second[0] and second[1].text.startswith(first[1].text)
    assert all(request.is_side_call for request in model.asked)


async def test_a_plan_that_is_mended_is_run() -> None:
    model = PlanningModel(BAD_PLANS["unknown tool"], written(step("a")))
    events = await run(bench(model))
    assert len(bodies(events, PlanProposed)) == 2
    assert [body.id for body in bodies(events, PlanStepFinished)] == ["a"]


async def test_a_step_outside_the_allowlist_of_the_request_is_never_run() -> None:
    model = PlanningModel(written(step("a", "x__secret")))
    under = bench(model)
    await run(under, names=("x__read",))
    assert under.tools.calls == []


async def test_a_failed_step_has_the_rest_planned_anew_and_what_is_done_stays() -> None:
    first = written(step("a", "x__add", a=1, b=1), step("b", "x__fail"), step("c", x="$b"))
    second = written(step("d", "x__add", a="$a.sum", b=40))
    model = PlanningModel(first, second)
    under = bench(model)
    events = await run(under)
    assert [name for name, _ in under.tools.calls] == ["x__add", "x__fail", "x__add"]
    assert under.tools.calls[-1][1] == {"a": 2, "b": 40}
    assert "no such file" in model.asked[1].messages[-1].text
    assert finish(events).reason is TurnEnd.ANSWERED


async def test_the_same_plan_again_is_not_run_again() -> None:
    model = PlanningModel(written(step("b", "x__fail"), step("c", needs=["b"])))
    under = bench(model)
    events = await run(under)
    assert under.tools.calls == [("x__fail", {})]
    assert any("same plan" in error for body in bodies(events, PlanRejected) for error in body.errors)
    assert finish(events).reason is TurnEnd.ANSWERED


async def test_the_same_plan_under_other_ids_is_not_run_again() -> None:
    first = written(step("b", "x__fail"), step("c", x="$b.name", y="of ${b}"))
    again = written(step("d", "x__fail"), step("e", x="$d.name", y="of ${d}"))
    under = bench(PlanningModel(first, again))
    events = await run(under)
    assert under.tools.calls == [("x__fail", {})]
    assert any("same plan" in error for body in bodies(events, PlanRejected) for error in body.errors)


async def test_a_plan_that_failed_before_the_last_is_not_run_again_either() -> None:
    one, other = written(step("a", "x__fail", n=1)), written(step("b", "x__fail", n=2))
    under = bench(PlanningModel(one, other, one))
    await run(under, max_replans=2)
    assert under.tools.calls == [("x__fail", {"n": 1}), ("x__fail", {"n": 2})]


async def test_replanning_ends() -> None:
    plans = [written(step(f"s{n}", "x__fail", n=n)) for n in range(9)]
    model = PlanningModel(*plans)
    under = bench(model)
    events = await run(under, max_replans=2)
    assert len(under.tools.calls) == 3
    assert finish(events).reason is TurnEnd.ANSWERED


async def test_a_reference_into_nothing_fails_its_step_and_says_what_there_was() -> None:
    model = PlanningModel(
        written(step("a", "x__add", a=1, b=2), step("b", x="$a.total.cents")), '{"direct": true, "steps": []}'
    )
    under = bench(model)
    events = await run(under)
    assert len(under.tools.calls) == 1
    told = " ".join(body.text for body in bodies(events, Status))
    assert "no total; it has sum, of" in told


async def test_a_planner_that_cannot_be_reached_is_said_and_done_without() -> None:
    model = PlanningModel(ProviderUnavailable("gone"))
    events = await run(bench(model))
    assert any("no plan could be had" in body.text for body in bodies(events, Status))
    assert finish(events).reason is TurnEnd.ANSWERED


async def test_a_backend_that_takes_no_schema_plans_by_the_rules_alone() -> None:
    def plan(request: StepRequest) -> Sequence[Item]:
        asked.append(request)
        if request.sampling.json_schema is not None:
            return [ProviderRejected("response_format is not supported", status=400)]
        return [TextDelta(f"```json\n{written(step('a'), step('b', 'x__nothing'))}\n```")]

    asked: list[StepRequest] = []
    model = PlanningModel()
    model.provider = ScriptedProvider("planner", {"p": plan})
    under = bench(model)
    events = await run(under, max_rewrites=1)
    assert [request.sampling.json_schema is None for request in asked] == [False, True, True]
    assert len(bodies(events, PlanRejected)) == 2  # it is checked all the same


async def test_the_gate_is_asked_about_each_step_of_a_plan() -> None:
    model = PlanningModel(written(step("a", "x__write", n=1)), '{"direct": true, "steps": []}')
    under = bench(model, gate=policy_gate())
    await run(under)
    assert under.tools.calls == []  # there was no user to ask


async def test_a_plan_given_is_checked_and_followed_without_asking_for_one() -> None:
    model = PlanningModel("never asked")
    under = bench(model)
    await run(under, plan=Plan((PlanStep("a", "x__add", {"a": 1, "b": 2}),)))
    assert under.tools.calls == [("x__add", {"a": 1, "b": 2})]
    under = bench(model)
    await run(under, plan=Plan((PlanStep("a", "x__nothing"),)))
    assert under.tools.calls == []
    assert model.asked == []


async def test_a_finished_plan_leaves_a_finished_run_with_its_journal() -> None:
    model = PlanningModel(written(step("a", "x__write", n=1), step("b", "x__add", a=1, b=2)))
    under = bench(model)
    await run(under)
    [record] = await under.engine.runs.list()
    assert record.state is RunState.FINISHED
    steps = await under.engine.runs.steps(record.id)
    assert [(one.key, one.state) for one in steps] == [("a", StepState.DONE), ("b", StepState.DONE)]
    assert [one.id for one in msgspec.json.decode(record.body, type=PlanBody).plan.steps] == ["a", "b"]  # type: ignore[union-attr]


async def test_a_plan_broken_off_is_gone_on_with_and_nothing_done_is_done_again() -> None:
    model = PlanningModel(written(step("a", "x__write", n=1), step("b", "x__write", n=2), step("c", "x__write", n=3)))
    some = tools()
    stop = asyncio.Event()

    async def write(arguments: Any, context: Any) -> Any:
        if arguments["n"] == 2 and not stop.is_set():
            stop.set()
            await asyncio.sleep(60)
        return said(f"wrote {arguments['n']}")

    some._bodies["x__write"] = write
    under = bench(model, tools=some)
    request = under.request("do it", tools=("x__*",), planner=Planning(model="planner:p"))

    async def work() -> None:
        async with under.engine.turn(request) as batches:
            async for _ in flatten(batches):
                pass

    async with asyncio.timeout(20):
        working = asyncio.create_task(work())
        await stop.wait()
        working.cancel()
        await asyncio.wait({working})
    [record] = await under.engine.runs.list()
    assert record.state is RunState.HALTED
    body = msgspec.json.decode(record.body, type=PlanBody)
    again = resume_request(body, record.id, record.session)
    async with asyncio.timeout(20), under.engine.turn(again) as batches:
        events = [event async for event in flatten(batches)]
    # b was cancelled in the middle: nobody knows, nobody is there to be asked, so it is not made again
    assert [arguments["n"] for _, arguments in some.calls] == [1, 2]
    assert any("may have been done" in result.parts[0].text for result in results(events))  # type: ignore[union-attr]


async def test_a_plan_is_kept_without_its_secrets_and_not_gone_on_with_in_another_form() -> None:
    from aish.errors import UsageError
    from aish.safety.redaction.redactor import Redactor

    under = bench(PlanningModel(written(step("a", word="hunter2secret"))), redactor=Redactor(["hunter2secret"]))
    await run(under)
    assert under.tools.calls == [("x__read", {"word": "hunter2secret"})]
    [record] = await under.engine.runs.list()
    assert b"hunter2" not in record.body
    with pytest.raises(UsageError, match="held a secret"):
        resume_request(msgspec.json.decode(record.body, type=PlanBody), record.id, record.session)


def test_references_are_found_and_dollars_that_are_none_stay() -> None:
    value = {"a": "$one.x[0]", "b": ["${two} and ${three.y}", "$$HOME", "costs $5", "$HOME/x"], "c": 7}
    assert list(references(value)) == ["one", "two", "three"]
    filled = fill_in(value, {"one": '{"x": [1]}', "two": "2", "three": '{"y": {"z": 3}}'})
    assert filled == {"a": 1, "b": ['2 and {"z":3}', "$HOME", "costs $5", "$HOME/x"], "c": 7}


def test_a_variable_of_the_shell_is_written_with_two_dollars_and_refers_to_nothing() -> None:
    value = ["echo $${HOME}", "$${HOME}", "$$HOME/${a}", "$$${a}", "pid $$"]
    assert list(references(value)) == ["a", "a"]
    assert fill_in(value, {"a": "5"}) == ["echo ${HOME}", "${HOME}", "$HOME/5", "$5", "pid $$"]


@pytest.mark.parametrize("text", ["$a.of[-1]", "$a['sum']", "$a.", "$a[]", "$a.of[*].x", "the last: ${a.of[-1]}"])
async def test_a_reference_with_a_path_that_leads_nowhere_is_refused_before_anything_runs(text: str) -> None:
    plan = written(step("a", "x__add", a=1, b=2), step("b", x=text))
    under = bench(PlanningModel(plan))
    events = await run(under, max_rewrites=0)
    assert under.tools.calls == []
    [rejected] = bodies(events, PlanRejected)
    assert "leads nowhere" in rejected.errors[0]


def test_what_only_looks_like_a_reference_is_text() -> None:
    plan = Plan((PlanStep("a", "x__read", {"x": ["$HOME.x[-1]", "costs $a.", "$$a[-1]", "$${a[-1]}", "${b[@]}"]}),))
    assert (
        plan_errors(plan, {"x__read": ToolSpec("x__read", "", {"type": "object"}, Effect.READ, "x")}, max_steps=8) == []
    )


@pytest.mark.parametrize("path", [".²", f"[{'9' * 5000}]", f".{'9' * 5000}", "[1]"])
@pytest.mark.parametrize("result", ["[1]", "[" * 100_000, "\udcff"])
def test_a_reference_into_odd_results_by_odd_ways_leads_nowhere(path: str, result: str) -> None:
    with pytest.raises(BadReference):
        fill_in(f"$a{path}", {"a": result})


@given(
    st.recursive(
        st.text() | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_filling_in_never_fails_but_for_bad_references(value: Any) -> None:
    try:
        fill_in(value, {"a": "[1]"})
    except BadReference:
        assert any(references(value))


def test_a_plan_nested_without_end_is_an_error() -> None:
    assert "not a plan" in str(parse_plan('{"steps": [{"id": "a", "tool": "x__read", "args": {"x": ' + "[" * 100_000))


@given(st.text() | st.from_regex(r'\{"steps": \[.*\]\}', fullmatch=True))
def test_whatever_a_planner_says_is_a_plan_or_an_error(said: str) -> None:
    plan = parse_plan(said)
    assert isinstance(plan, Plan | NoPlanNeeded | str)
    if isinstance(plan, Plan):
        plan_errors(plan, {"x__read": ToolSpec("x__read", "", {"type": "object"}, Effect.READ, "x")}, max_steps=8)


async def test_a_turn_with_a_plan_leaves_a_valid_history() -> None:
    model = PlanningModel(written(step("a"), step("b"), step("c", "x__fail")), '{"direct": true, "steps": []}')
    under = bench(model)
    events = await run(under)
    history = await under.engine.history(events[0].session)
    calls = [call.id for message in history if isinstance(message, AssistantMessage) for call in message.tool_calls]
    answered = [message.tool_call_id for message in history if isinstance(message, ToolMessage)]
    assert sorted(calls) == sorted(answered)
    assert len(calls) == 3


async def test_a_model_that_is_too_small_does_not_plan() -> None:
    class Small(ScriptedProvider):
        def _info(self, model: str) -> ModelProfile:
            return msgspec.structs.replace(super()._info(model), parameters=135_000_000)

    small = Small("scripted", {"model": lambda request: [TextDelta("Done.")]})
    under = Bench(tools=tools(), provider=small)
    events = await under.run("do it", tools=("x__*",), planner=Planning())
    assert any("too small" in body.text for body in bodies(events, Status))
    assert len(small.requests) == 1
    assert finish(events).reason is TurnEnd.ANSWERED


def confirming(*answers: Answer):
    """A user who answers so when a plan is put to them. `.asked` keeps the questions."""
    left = list(answers)

    async def ask(question: Question) -> Answer:
        ask.asked.append(question)  # type: ignore[attr-defined]
        return left.pop(0)

    ask.asked = []  # type: ignore[attr-defined]
    return ask


async def ask_for(under: Bench, ask: Any) -> list[Event]:
    planning = Planning(model="planner:p", confirm=True)
    return await under.run("do it", tools=("x__*",), planner=planning, ask=ask)


async def test_a_plan_is_put_to_the_user_before_any_of_it_runs_and_then_followed() -> None:
    under = bench(PlanningModel(written(step("s1"), step("s2", "x__write"))), gate=policy_gate(write="ask"))
    ask = confirming(Answer(Choice.YES), Answer(Choice.YES))
    events = await ask_for(under, ask)
    assert [question.kind for question in ask.asked] == [QuestionKind.PLAN, QuestionKind.EFFECT]
    assert [step["tool"] for step in ask.asked[0].arguments["steps"]] == ["x__read", "x__write"]
    assert len(results(events)) == 2 and finish(events).reason is TurnEnd.ANSWERED


async def test_of_a_refused_plan_nothing_runs_and_no_model_is_asked_for_more() -> None:
    under = bench(PlanningModel(written(step("s1"))))
    events = await ask_for(under, confirming(Answer(Choice.NO)))
    assert under.tools.calls == [] and finish(events).reason is TurnEnd.CANCELLED
    assert any("not approved" in body.text for body in bodies(events, Status))
    assert under.scripted.requests == []


async def test_an_edited_plan_is_what_runs_and_one_that_does_not_hold_is_asked_about_again() -> None:
    under = bench(PlanningModel(written(step("s1", "x__write"))))
    bad, good = ({"steps": [step("s1", tool)]} for tool in ("x__unknown", "x__read"))
    ask = confirming(*(Answer(Choice.EDIT, arguments=plan) for plan in (bad, good)))
    events = await ask_for(under, ask)
    assert [result.name for result in results(events)] == ["x__read"] and len(ask.asked) == 2


async def test_without_a_user_a_plan_is_followed_as_it_is() -> None:
    under = bench(PlanningModel(written(step("s1"))))
    assert len(results(await ask_for(under, None))) == 1


async def test_what_a_failed_step_says_is_bounded_and_keeps_its_lines_and_its_end() -> None:
    async def fail(arguments: Any, context: Any) -> Any:
        return said("\n".join(f"line {number} {'x' * 1000}" for number in range(500)), is_error=True)

    under = bench(PlanningModel(written(step("s1", "x__fails"))), tools=tools().add("x__fails", fail))
    events = await run(under, max_replans=0)
    [text] = [e.body.text for e in events if isinstance(e.body, Status) and "the plan failed" in e.body.text]
    assert "line 499" in text and "line 1 " not in text
    assert len(text) < 4000 and max(map(len, text.splitlines())) <= 300
