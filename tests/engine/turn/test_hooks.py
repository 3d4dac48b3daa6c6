"""Hooks deny, ask, narrow and add at the points of a turn, and never allow what the gate does not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from aish.errors import UsageError
from aish.types.decisions import Answer, Choice, HookEvent, HookPoint, HookVerdict, Question, Verdict
from aish.types.events import DecisionMade, Status, TextDelta, ToolResult
from aish.types.messages import text_of
from aish.types.tools import Effect, ResultStatus
from support.engines import Bench, Tools, call, policy_gate, results


class Hooks:
    """Answers at one point. `events` are what it was told."""

    def __init__(self, point: HookPoint, verdict: HookVerdict | Callable[[HookEvent], HookVerdict]) -> None:
        self.events: list[HookEvent] = []
        self.refreshed = False
        self._point = point
        self._verdict = verdict

    async def refresh(self) -> Sequence[str]:
        self.refreshed = True
        return ()

    def has_hooks(self, point: HookPoint) -> bool:
        return point == self._point

    async def run_hooks(self, event: HookEvent) -> HookVerdict:
        self.events.append(event)
        return self._verdict(event) if callable(self._verdict) else self._verdict


def bench(hooks: Hooks, *steps: Any, effect: Effect = Effect.READ, **options: Any) -> Bench:
    tools = Tools().add("box__look", effect=effect, schema={"type": "object", "properties": {"at": {"type": "string"}}})
    given = steps or ([call("box__look", '{"at": "a"}')], [TextDelta("done")])
    return Bench(*given, tools=tools, settings={"extensions": hooks}, **options)


async def test_a_denied_call_does_not_run_and_the_model_reads_why():
    hooks = Hooks("before_tool", HookVerdict(refusal="not on Fridays"))
    made = bench(hooks)
    events = await made.run("go")
    (result,) = results(events)
    assert (result.status, text_of(result.parts)) == (
        ResultStatus.REFUSED, "[aish] refused by a hook: not on Fridays",
    )  # fmt: skip
    (decision,) = [event.body.decision for event in events if isinstance(event.body, DecisionMade)]
    assert (decision.verdict, decision.rule) == (Verdict.DENY, "a hook")
    assert made.tools.calls == []
    (told,) = hooks.events
    assert (told.tool, told.effect, told.arguments) == ("box__look", "read", {"at": "a"})
    assert told.turn and told.session


async def test_a_changed_call_runs_with_the_new_arguments_and_the_model_is_told():
    made = bench(Hooks("before_tool", HookVerdict(arguments={"at": "b"})))
    (result,) = results(await made.run("go"))
    assert made.tools.calls == [("box__look", {"at": "b"})]
    assert 'a hook ran this with other arguments: {"at":"b"}' in text_of(result.parts)


async def test_arguments_of_a_hook_that_do_not_fit_the_schema_do_not_run():
    made = bench(Hooks("before_tool", HookVerdict(arguments={"at": 3})))
    (result,) = results(await made.run("go"))
    assert result.status is ResultStatus.SCHEMA
    assert made.tools.calls == []


@pytest.mark.parametrize(("choice", "runs"), [(Choice.YES, 1), (Choice.NO, 0)])
async def test_a_hook_may_ask_about_a_call_that_the_gate_allows(choice: Choice, runs: int):
    asked: list[Question] = []

    async def ask(question: Question) -> Answer:
        asked.append(question)
        return Answer(choice)

    made = bench(Hooks("before_tool", HookVerdict(question="is it wise?")))
    await made.run("go", ask=ask)
    assert [question.reason for question in asked] == ["a hook asks: is it wise?"]
    assert len(made.tools.calls) == runs


async def test_where_no_one_can_be_asked_a_hook_that_asks_refuses():
    made = bench(Hooks("before_tool", HookVerdict(question="is it wise?")))
    (result,) = results(await made.run("go"))
    assert result.status is ResultStatus.REFUSED


async def test_no_hook_allows_what_the_gate_denies():
    """Also not by other arguments: the gate decides about the call as the hook has left it."""
    made = bench(
        Hooks("before_tool", HookVerdict(arguments={"at": "b"}, notes=("please",))),
        effect=Effect.WRITE,
        gate=policy_gate(write="ask"),
    )
    results_of_turn = results(await made.run("go"))
    assert all(result.status is not ResultStatus.OK for result in results_of_turn)
    assert made.tools.calls == []


async def test_notes_go_with_the_result_and_notices_to_the_user():
    hooks = Hooks("after_tool", HookVerdict(notes=("it is old",), notices=("a hook failed",)))
    made = bench(hooks)
    events = await made.run("go")
    (result,) = results(events)
    assert text_of(result.parts) == "[aish] a hook adds: it is old\ndone"
    assert any(isinstance(event.body, Status) and event.body.text == "a hook failed" for event in events)
    assert (hooks.events[0].status, hooks.events[0].text) == ("ok", "done")


async def test_hooks_see_turns_without_tools_as_well():
    hooks = Hooks("before_turn", HookVerdict(refusal="closed"))
    with pytest.raises(UsageError, match="closed"):
        await bench(hooks, [TextDelta("fine")]).run("go", tools=())
    assert hooks.refreshed


async def test_before_a_turn_notes_go_with_the_question():
    hooks = Hooks("before_turn", HookVerdict(notes=("today is a holiday",)))
    made = bench(hooks, [TextDelta("fine")])
    await made.run("go")
    (request,) = made.scripted.requests
    assert request.messages[-1].text.endswith("[hook] A hook of the user adds:\ntoday is a holiday")
    assert hooks.events[0].text == "go"


async def test_a_turn_can_be_refused():
    with pytest.raises(UsageError, match="a hook refused this turn: closed"):
        await bench(Hooks("before_turn", HookVerdict(refusal="closed"))).run("go")


async def test_after_a_turn_hooks_are_told_the_answer():
    hooks = Hooks("after_turn", HookVerdict())
    made = bench(hooks)
    await made.run("go")
    await made.engine.finish_hooks()
    assert [(event.text, event.status) for event in hooks.events] == [("done", "answered")]


async def test_a_hook_may_answer_a_question_with_no_only():
    async def ask(question: Question) -> Answer:
        raise AssertionError("the user was asked")

    hooks = Hooks("on_question", HookVerdict(refusal="never here"))
    made = bench(hooks, effect=Effect.WRITE, gate=policy_gate(write="ask"))
    (result,) = results(await made.run("go", ask=ask))
    assert "never here" in text_of(result.parts)
    assert made.tools.calls == []


async def test_a_hook_asks_also_about_a_call_that_an_earlier_yes_covers():
    """A yes for the turn was for calls of a kind, and not for what a hook wants to be asked about."""
    asked: list[tuple[str, str]] = []

    async def ask(question: Question) -> Answer:
        asked.append((question.call, question.reason))
        return Answer(Choice.TURN)

    def judge(event: HookEvent) -> HookVerdict:
        return HookVerdict(question="production!" if event.arguments["at"] == "b" else None)

    steps = [call("box__look", '{"at": "a"}', id="c1")], [call("box__look", '{"at": "b"}', id="c2")], [TextDelta("ok")]
    made = bench(Hooks("before_tool", judge), *steps, effect=Effect.WRITE, gate=policy_gate(write="ask"))
    await made.run("go", ask=ask)
    assert [call_id for call_id, _ in asked] == ["c1", "c2"]
    assert asked[1][1].endswith("; a hook asks: production!")


async def test_a_yes_for_the_step_does_not_cover_what_a_hook_has_changed():
    asked: list[Question] = []

    async def ask(question: Question) -> Answer:
        asked.append(question)
        return Answer(Choice.STEP)

    def judge(event: HookEvent) -> HookVerdict:
        return HookVerdict(arguments={"at": "changed"}) if event.arguments["at"] == "b" else HookVerdict()

    step = [call("box__look", '{"at": "a"}', index=0, id="c1"), call("box__look", '{"at": "b"}', index=1, id="c2")]
    made = bench(
        Hooks("before_tool", judge), step, [TextDelta("ok")], effect=Effect.WRITE, gate=policy_gate(write="ask")
    )
    await made.run("go", ask=ask)
    assert [question.arguments for question in asked] == [{"at": "a"}, {"at": "changed"}]


async def test_hooks_after_a_cancelled_turn_hold_no_one_up():
    begun, go_on = asyncio.Event(), asyncio.Event()

    class Slow(Hooks):
        async def run_hooks(self, event: HookEvent) -> HookVerdict:
            begun.set()
            await go_on.wait()
            return await super().run_hooks(event)

    hooks = Slow("after_turn", HookVerdict())
    made = bench(hooks, [30.0])
    async with asyncio.timeout(10):
        turn = asyncio.ensure_future(made.run("go"))
        await asyncio.sleep(0)
        async with made.engine.turn(made.request("other")):
            pass
        turn.cancel()
        await asyncio.wait({turn})
        await begun.wait()
        go_on.set()
        await made.engine.finish_hooks()
    assert {event.status for event in hooks.events} <= {"cancelled"}


async def test_calls_of_programs_meet_hooks_as_well():
    made = bench(Hooks("before_tool", HookVerdict(refusal="no")))
    result: ToolResult = await made.engine.call_tool("box__look", '{"at": "a"}')
    assert result.status is ResultStatus.REFUSED
