from __future__ import annotations

import asyncio
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish.errors import ConfigError, ToolError
from aish.safety.redaction.redactor import Redactor
from aish.tools.builtin.shell import BoundedOutput
from aish.types.chunks import StepEnd, StepFinished
from aish.types.decisions import Answer, Choice, Decision, Mode, QuestionKind, Verdict
from aish.types.events import DecisionAsked, DecisionMade, Status, TextDelta, TurnEnd
from aish.types.messages import AssistantMessage, ImagePart, TextPart, ToolMessage, text_of
from aish.types.requests import ToolChoice
from aish.types.tools import Effect, Repair, RepairKind, ResultStatus, ToolOutput
from support.engines import Bench, Tools, bodies, call, finish, policy_gate, results, said
from support.nesting import nested

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
DONE = [TextDelta("ok")]


def answering(*choices: Choice):
    """A person who gives these answers, in order; `.asked` keeps the questions."""
    left = list(choices)

    async def ask(question):
        ask.asked.append(question)
        return Answer(left.pop(0), "a note")

    ask.asked = []
    return ask


async def one_result(step, toolset, **run):
    bench = Bench(step, DONE, tools=toolset)
    events = await bench.run(**run)
    (result,) = results(events)
    return result, events


@pytest.mark.parametrize(
    ("arguments", "status", "said_so"),
    [
        ('{"n": 3}', ResultStatus.OK, ""),
        ("", ResultStatus.SCHEMA, "n"),
        ("null", ResultStatus.SCHEMA, "n"),
        ("[1]", ResultStatus.BAD_ARGUMENTS, "an array"),
        ('"3"', ResultStatus.BAD_ARGUMENTS, "a number"),
        ('"three"', ResultStatus.BAD_ARGUMENTS, "not complete"),
        ("3", ResultStatus.BAD_ARGUMENTS, "a number"),
        ("true", ResultStatus.BAD_ARGUMENTS, "a boolean"),
        ("{broken", ResultStatus.BAD_ARGUMENTS, "not complete"),
        ('{"n": 3', ResultStatus.BAD_ARGUMENTS, "not complete"),
        ("{'n': 3,}", ResultStatus.OK, ""),
        ('{"n": "3"}', ResultStatus.OK, ""),
        ('{"n": "three"}', ResultStatus.SCHEMA, "n:"),
        ('{"n": 3, "m": 1}', ResultStatus.SCHEMA, "m"),
        ('{"n": 3}' + " " * 1_000_000, ResultStatus.OK, ""),
        ("[" * 50_000, ResultStatus.BAD_ARGUMENTS, "nested too deeply"),
        ('{"n": ' + "[" * 300 + "]" * 300 + "}", ResultStatus.BAD_ARGUMENTS, "nested too deeply, 200 levels at most"),
    ],
)
async def test_arguments_are_parsed_and_checked_before_anything_runs(arguments, status, said_so):
    tools = Tools().add("t__x", schema=NUMBER)
    result, _ = await one_result([call("t__x", arguments)], tools)
    assert result.status is status
    assert said_so in result.parts[0].text
    assert (status is ResultStatus.OK) == bool(tools.calls)
    assert status is ResultStatus.OK or result.parts[0].text.startswith("[aish] ")


async def test_an_unknown_tool_names_the_near_ones():
    result, _ = await one_result([call("runtime__ad")], Tools().add("runtime__add").add("runtime__adx"))
    assert result.status is ResultStatus.UNKNOWN_TOOL
    assert "runtime__add" in result.parts[0].text


async def test_a_misspelt_tool_with_one_near_name_is_run_and_the_repair_is_recorded():
    tools = Tools().add("runtime__add")
    result, _ = await one_result([call("runtime__ad")], tools)
    assert (result.status, [name for name, _ in tools.calls]) == (ResultStatus.OK, ["runtime__add"])
    assert result.repairs == (Repair(RepairKind.TOOL_NAME, "", "runtime__ad", "runtime__add"),)


async def test_what_was_mended_in_the_arguments_is_recorded_with_the_result():
    tools = Tools().add("t__x", schema=NUMBER)
    result, _ = await one_result([call("t__x", '{"n": "3",}')], tools)
    assert tools.calls == [("t__x", {"n": 3})]
    assert [repair.kind for repair in result.repairs] == [RepairKind.COMMA, RepairKind.TYPE]


async def test_without_repair_a_call_is_taken_as_it_is_written():
    tools = Tools().add("t__x", schema=NUMBER)
    result, _ = await one_result([call("t__x", '{"n": "3"}')], tools, repair=False)
    assert (result.status, tools.calls) == (ResultStatus.SCHEMA, [])


async def test_a_known_tool_outside_the_requests_allowlist_is_not_allowed():
    tools = Tools().add("a__x").add("b__y")
    result, _ = await one_result([call("b__y")], tools, tools=("a__*",))
    assert result.status is ResultStatus.NOT_ALLOWED
    assert tools.calls == []


async def test_a_dot_is_accepted_for_the_double_underscore():
    tools = Tools().add("runtime__add")
    result, _ = await one_result([call("runtime.add")], tools)
    assert (result.status, result.name) == (ResultStatus.OK, "runtime__add")


async def test_a_call_without_a_name_gets_a_result_like_any_other():
    result, _ = await one_result([call("")], Tools().add("t__x"))
    assert result.status is ResultStatus.UNKNOWN_TOOL


@pytest.mark.parametrize(
    ("error", "status", "shown"),
    [
        (ToolError("x"), ResultStatus.FAILED, False),
        (ToolError("x", status=ResultStatus.TRANSPORT), ResultStatus.TRANSPORT, True),
        (ToolError("x", status=ResultStatus.RPC_ERROR), ResultStatus.RPC_ERROR, True),
        (ToolError("x", status=ResultStatus.SERVER_GONE), ResultStatus.SERVER_GONE, True),
        (ValueError("a bug"), ResultStatus.FAILED, False),
    ],
)
async def test_a_failing_tool_becomes_a_result_and_transport_failures_are_shown_to_the_user(error, status, shown):
    async def fail(arguments, context):
        raise error

    result, events = await one_result([call("t__x")], Tools().add("t__x", fail))
    assert result.status is status
    assert result.parts[0].text.startswith("[aish] ")
    assert any("t__x" in body.text for body in bodies(events, Status)) == shown


async def test_is_error_is_advisory_and_its_text_reaches_the_model_unchanged():
    async def complain(arguments, context):
        return said("no such file", is_error=True)

    result, _ = await one_result([call("t__x")], Tools().add("t__x", complain))
    assert (result.status, result.parts) == (ResultStatus.TOOL_ERROR, (TextPart("no such file"),))


async def test_a_tool_past_its_timeout_is_stopped_and_says_so():
    async def hang(arguments, context):
        await asyncio.get_running_loop().create_future()

    result, events = await one_result([call("t__x")], Tools().add("t__x", hang, timeout_s=0.05))
    assert result.status is ResultStatus.TIMEOUT
    assert "0.05 s" in result.parts[0].text
    assert finish(events).reason is TurnEnd.ANSWERED


async def test_a_tool_that_ignores_cancellation_cannot_hang_the_turn(monkeypatch):
    monkeypatch.setattr("aish.engine.tools.executor.CANCEL_GRACE_S", 0.05)
    release = asyncio.Event()

    async def stubborn(arguments, context):
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return said("late")

    result, _ = await one_result([call("t__x")], Tools().add("t__x", stubborn, timeout_s=0.05))
    assert result.status is ResultStatus.TIMEOUT
    release.set()
    await asyncio.sleep(0)


async def test_a_long_result_is_cut_with_a_mark_that_says_how_much_is_gone():
    async def talk(arguments, context):
        return said("a" * 500 + "z" * 500)

    result, _ = await one_result([call("t__x")], Tools().add("t__x", talk), limits={"result_max_chars": 100})
    text = result.parts[0].text
    assert text.startswith("a" * 75) and text.endswith("z" * 25)
    assert "900 characters left out" in text
    assert result.truncated_chars == 900


@pytest.mark.parametrize("head", [500, 760, 70])
async def test_what_a_tool_has_left_out_itself_is_told_where_its_own_mark_is_cut_away(head):
    capture = BoundedOutput(head, 1000 - head)
    capture.add(b"x" * 20_000_000)

    async def talk(arguments, context):
        return said(capture.text())

    result, _ = await one_result([call("t__x")], Tools().add("t__x", talk), limits={"result_max_chars": 100})
    text = result.parts[0].text
    (sizes,) = re.findall(r"(\d+) characters and (\d+) bytes left out", text)
    assert sum(map(int, sizes)) + text.count("x") == 20_000_000
    assert text.count("[aish]") == 1


async def test_images_survive_truncation():
    async def draw(arguments, context):
        return ToolOutput((TextPart("x" * 200), ImagePart(data="aGk=")))

    result, _ = await one_result([call("t__x")], Tools().add("t__x", draw), limits={"result_max_chars": 50})
    assert result.parts[1] == ImagePart(data="aGk=")


async def test_known_secrets_are_taken_out_of_results_and_of_the_record():
    async def leak(arguments, context):
        return said("the key is sk-secret-123")

    bench = Bench([call("t__x")], DONE, tools=Tools().add("t__x", leak), redactor=Redactor(["sk-secret-123"]))
    events = await bench.run("my key is sk-secret-123")
    assert results(events)[0].parts == (TextPart("the key is [redacted]"),)
    assert b"sk-secret-123" not in await bench.recorded(events)


async def test_reads_run_together_and_their_results_keep_the_order_of_the_calls():
    both = asyncio.Barrier(2)

    async def meet(arguments, context):
        async with asyncio.timeout(5):
            await both.wait()
        return said(str(arguments["n"]))

    tools = Tools().add("t__x", meet)
    bench = Bench([call("t__x", '{"n": 1}', index=0), call("t__x", '{"n": 2}', index=1)], DONE, tools=tools)
    assert [result.parts[0].text for result in results(await bench.run())] == ["1", "2"]


async def test_writes_run_alone_and_in_order():
    running: list[str] = []
    most = 0

    async def work(arguments, context):
        nonlocal most
        running.append(context.call)
        most = max(most, len(running))
        await asyncio.sleep(0)
        running.remove(context.call)
        return said("ok")

    tools = Tools().add("t__w", work, effect=Effect.WRITE)
    calls = [call("t__w", f'{{"n": {n}}}', index=n) for n in range(3)]
    bench = Bench(calls, DONE, tools=tools, gate=policy_gate(write="allow"))
    await bench.run()
    assert most == 1
    assert [arguments["n"] for _, arguments in tools.calls] == [0, 1, 2]


async def test_a_tools_concurrency_is_kept_over_all_calls():
    running = most = 0

    async def work(arguments, context):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return said("ok")

    tools = Tools().add("t__x", work, concurrency=2)
    bench = Bench([call("t__x", f'{{"n": {n}}}', index=n) for n in range(6)], DONE, tools=tools)
    await bench.run()
    assert most == 2


async def test_a_tool_may_speak_while_it_runs():
    async def talk(arguments, context):
        context.status("half way")
        return said("ok")

    _, events = await one_result([call("t__x")], Tools().add("t__x", talk))
    assert [body.text for body in bodies(events, Status)] == ["half way"]


async def test_ask_means_deny_when_nobody_is_there_and_the_tool_is_not_even_shown():
    tools = Tools().add("t__w", effect=Effect.WRITE).add("t__r")
    bench = Bench([call("t__w")], DONE, tools=tools)
    (result,) = results(await bench.run())
    assert result.status is ResultStatus.NOT_ALLOWED
    assert [tool.name for tool in bench.scripted.requests[0].tools] == ["t__r"]


@pytest.mark.parametrize(("choice", "status"), [(Choice.YES, ResultStatus.OK), (Choice.NO, ResultStatus.REFUSED)])
async def test_a_person_is_asked_and_their_word_counts(choice, status):
    ask = answering(choice)
    tools = Tools().add("t__w", effect=Effect.WRITE)
    bench = Bench([call("t__w", '{"path": "x"}')], DONE, tools=tools)
    events = await bench.run(ask=ask)
    assert results(events)[0].status is status
    (question,) = ask.asked
    assert (question.kind, question.tool, question.arguments) == (QuestionKind.EFFECT, "t__w", {"path": "x"})
    assert bodies(events, DecisionAsked)[0].question == msgspec.structs.replace(question, schema={}, turn="")
    assert bodies(events, DecisionMade)[0].decision.rule == "the user"
    assert status is ResultStatus.OK or "a note" in results(events)[0].parts[0].text


class Previews(Tools):
    """Tools that can tell what a call would change; or cannot."""

    def __init__(self, shown):
        super().__init__()
        self._shown = shown
        self.previewed = []

    async def preview(self, name, arguments, call):
        self.previewed.append((name, arguments, call))
        return await self._shown()


async def diff():
    return "--- a/x\n+++ b/x\n-sk-live-0123456789abcdefghijkl\n+b"


async def fails():
    raise ToolError("x is gone")


async def breaks():
    raise RuntimeError


@pytest.mark.parametrize(
    ("shown", "seen"),
    [(diff, "--- a/x\n+++ b/x\n"), (breaks, "")],
)
async def test_the_question_shows_what_would_change_where_the_tools_can_tell(shown, seen):
    ask = answering(Choice.YES)
    tools = Previews(shown).add("t__w", effect=Effect.WRITE).add("t__r")
    step = [call("t__r"), call("t__w", '{"path": "x"}', index=1, id="the_call")]
    bench = Bench(step, DONE, tools=tools, redactor=Redactor(["sk-live-0123456789abcdefghijkl"]))
    events = await bench.run(ask=ask)
    (question,) = ask.asked
    assert question.preview.startswith(seen) and bool(question.preview) == bool(seen)
    assert "sk-live" not in question.preview
    assert [name for name, _, _ in tools.previewed] == ["t__w"]  # not what is not asked about
    assert tools.previewed[0][1] == {"path": "x"}
    assert results(events)[1].status is ResultStatus.OK


async def test_a_call_that_cannot_be_done_is_not_asked_about_and_the_model_learns_why_at_once():
    ask = answering()
    tools = Previews(fails).add("t__w", effect=Effect.WRITE)
    result, events = await one_result([call("t__w", '{"path": "x"}')], tools, ask=ask)
    assert result.status is ResultStatus.TOOL_ERROR and text_of(result.parts) == "x is gone"
    assert ask.asked == [] and tools.calls == [] and not bodies(events, DecisionAsked)


STEP = [call("t__w", f'{{"path": "{name}"}}', index=index, id=name) for index, name in enumerate("abc")]


async def test_calls_of_one_kind_in_a_step_are_asked_about_in_one_question():
    ask = answering(Choice.STEP)
    tools = Previews(diff).add("t__w", effect=Effect.WRITE)
    events = await Bench(STEP, DONE, tools=tools, redactor=Redactor(["sk-live-0123456789abcdefghijkl"])).run(ask=ask)
    (question,) = ask.asked
    assert [(other.call, other.arguments) for other in question.others] == [("b", {"path": "b"}), ("c", {"path": "c"})]
    assert all(other.preview.startswith("--- a/x") and "sk-live" not in other.preview for other in question.others)
    assert [result.status for result in results(events)] == [ResultStatus.OK] * 3


async def test_a_plain_yes_covers_only_the_first_of_them_and_the_others_are_asked_one_by_one():
    ask = answering(Choice.YES, Choice.NO, Choice.YES)
    events = await Bench(STEP, DONE, tools=Tools().add("t__w", effect=Effect.WRITE)).run(ask=ask)
    assert [len(question.others) for question in ask.asked] == [2, 1, 0]
    statuses = [result.status for result in results(events)]
    assert statuses == [ResultStatus.OK, ResultStatus.REFUSED, ResultStatus.OK]


async def test_a_yes_to_all_of_a_step_does_not_cover_the_next_step():
    ask = answering(Choice.STEP, Choice.NO)
    again = [call("t__w", '{"path": "b"}', id="b")]
    events = await Bench(STEP, again, DONE, tools=Tools().add("t__w", effect=Effect.WRITE)).run(ask=ask)
    assert [result.status for result in results(events)] == [ResultStatus.OK] * 3 + [ResultStatus.REFUSED]


async def test_a_second_call_for_the_same_file_is_not_shown_before_the_first_has_changed_it():
    ask = answering(Choice.STEP, Choice.YES)
    step = [call("t__w", '{"path": "a"}', index=index, id=f"c{index}") for index in range(2)]
    await Bench(step, DONE, tools=Tools().add("t__w", effect=Effect.WRITE)).run(ask=ask)
    assert [question.others for question in ask.asked] == [(), ()]


async def test_calls_of_other_kinds_are_asked_about_by_themselves():
    ask = answering(Choice.STEP, Choice.NO)
    step = [call("t__w", '{"path": "a"}', id="a"), call("t__v", '{"path": "b"}', index=1, id="b")]
    tools = Tools().add("t__w", effect=Effect.WRITE).add("t__v", effect=Effect.WRITE)
    await Bench(step, DONE, tools=tools).run(ask=ask)
    assert [question.others for question in ask.asked] == [(), ()]


async def test_the_mode_of_the_request_decides_and_the_question_names_it():
    tools = Tools().add("ide__edit", effect=Effect.WRITE, undoable=True).add("t__w", effect=Effect.WRITE)
    step = [call("ide__edit", '{"path": "a"}', id="a"), call("t__w", "{}", index=1, id="b")]
    ask = answering(Choice.NO)
    events = await Bench(step, DONE, tools=tools).run(ask=ask, mode=Mode.EDITS)
    assert [result.status for result in results(events)] == [ResultStatus.OK, ResultStatus.REFUSED]
    assert [(question.tool, question.mode) for question in ask.asked] == [("t__w", Mode.EDITS)]


async def test_the_same_call_after_a_change_is_no_repetition_but_the_same_change_again_is():
    tools = Tools().add("t__w", effect=Effect.WRITE).add("t__test", effect=Effect.EXEC)
    steps = [[call("t__w", f'{{"n": {number}}}')] for number in range(5)]
    cycle = [step for change in steps for step in (change, [call("t__test")])]
    ask = answering(*[Choice.YES] * 12)
    events = await Bench(*cycle, DONE, tools=tools).run(ask=ask, limits={"max_steps": 20})
    assert len(results(events)) == 10 and {question.kind for question in ask.asked} == {QuestionKind.EFFECT}
    ask = answering(*[Choice.YES] * 3, Choice.NO)
    same = [[call("t__w", '{"n": 1}')]] * 3
    await Bench(*same, DONE, tools=tools).run(ask=ask)
    assert QuestionKind.REPEAT in [question.kind for question in ask.asked]


async def test_yes_for_the_session_holds_in_its_next_turn():
    ask = answering(Choice.SESSION)
    tools = Tools().add("t__w", effect=Effect.WRITE)
    bench = Bench([call("t__w")], DONE, [call("t__w")], DONE, tools=tools)
    first = await bench.run(ask=ask)
    second = await bench.run(ask=ask, session=first[0].session)
    assert results(second)[0].status is ResultStatus.OK and len(ask.asked) == 1


async def test_yes_for_this_turn_is_asked_once_and_forgotten_after_it():
    ask = answering(Choice.TURN, Choice.NO)
    tools = Tools().add("t__w", effect=Effect.WRITE)
    bench = Bench(
        [call("t__w", '{"n": 1}'), call("t__w", '{"n": 2}', index=1)], DONE, [call("t__w")], DONE, tools=tools
    )
    first = await bench.run(ask=ask)
    assert [result.status for result in results(first)] == [ResultStatus.OK] * 2
    second = await bench.run(ask=ask, session=first[0].session)
    assert results(second)[0].status is ResultStatus.REFUSED
    assert len(ask.asked) == 2


class BrokenGate:
    def __init__(self, behaviour):
        self._behaviour = behaviour

    def is_visible(self, tool, *, interactive):
        return True

    async def authorise(self, effect, ask):
        return self._behaviour()


def _raise():
    raise RuntimeError("boom")


@pytest.mark.parametrize("behaviour", [_raise, lambda: Decision(Verdict.ASK, "undecided"), lambda: None])
async def test_a_gate_that_fails_or_does_not_plainly_allow_is_a_refusal(behaviour):
    tools = Tools().add("t__x")
    bench = Bench([call("t__x")], DONE, tools=tools, gate=BrokenGate(behaviour))
    (result,) = results(await bench.run())
    assert result.status is ResultStatus.REFUSED
    assert tools.calls == []


async def test_a_gate_that_fails_says_what_a_person_can_mend():
    def unkept():
        raise ConfigError("approved.json cannot be written: Read-only file system")

    bench = Bench([call("t__x")], DONE, tools=Tools().add("t__x"), gate=BrokenGate(unkept))
    (result,) = results(await bench.run())
    assert "the gate failed (approved.json cannot be written: Read-only file system)" in text_of(result.parts)


async def test_a_person_who_cannot_be_asked_has_not_said_yes():
    async def ask(question):
        raise OSError("the terminal is gone")

    tools = Tools().add("t__w", effect=Effect.EXEC)
    bench = Bench([call("t__w")], DONE, tools=tools)
    (result,) = results(await bench.run(ask=ask))
    assert result.status is ResultStatus.REFUSED
    assert tools.calls == []


async def test_the_intent_of_an_effect_is_durable_before_it_happens_and_its_outcome_before_the_next_step():
    order: list[str] = []

    async def write(arguments, context):
        order.append("effect")
        return said("ok")

    bench = Bench([call("t__w")], DONE, tools=Tools().add("t__w", write, effect=Effect.WRITE))
    flush = bench.store.flush

    async def noted_flush(*, durable=True):
        order.append("durable")
        await flush()

    bench.store.flush = noted_flush
    await bench.run(ask=answering(Choice.YES))
    assert order == ["durable", "effect", "durable"]


async def test_a_read_costs_no_durable_write():
    bench = Bench([call("t__r")], DONE, tools=Tools().add("t__r"))

    async def never(*, durable=True):
        raise AssertionError("flushed")

    bench.store.flush = never
    assert finish(await bench.run()).reason is TurnEnd.ANSWERED


async def test_the_same_call_three_times_stops_the_turn_when_nobody_can_be_asked():
    tools = Tools().add("t__x")
    bench = Bench(
        [call("t__x", '{"a": 1, "b": 2}')],
        [call("t__x", '{"b": 2, "a": 1}')],
        [call("t__x", '{"a":1,"b":2}')],
        tools=tools,
    )
    events = await bench.run()
    assert finish(events).reason is TurnEnd.REPEATED
    assert len(tools.calls) == 2
    assert results(events)[-1].status is ResultStatus.REPEATED


async def test_the_same_call_three_times_of_a_tool_that_nobody_has_stops_the_turn():
    bench = Bench(*[[call("t__none", '{"a": 1}', id=f"c{n}")] for n in range(9)], tools=Tools().add("t__x"))
    events = await bench.run()
    assert finish(events).reason is TurnEnd.REPEATED
    assert [result.status for result in results(events)] == [ResultStatus.UNKNOWN_TOOL] * 3


async def test_a_person_may_let_a_repeated_call_go_on():
    ask = answering(Choice.YES)
    bench = Bench([call("t__x")], [call("t__x")], [call("t__x")], DONE, tools=Tools().add("t__x"))
    events = await bench.run(ask=ask)
    assert finish(events).reason is TurnEnd.ANSWERED
    assert [question.kind for question in ask.asked] == [QuestionKind.REPEAT]


@given(
    names=st.lists(st.sampled_from(["t__ok", "t__fail", "t__ask", "nope", ""]), min_size=1, max_size=6),
    arguments=st.sampled_from(["{}", "[]", "{", '{"n": 1}', ""]),
    max_tool_calls=st.integers(0, 6),
)
def test_every_call_has_exactly_one_result_in_order_whatever_happens(names, arguments, max_tool_calls):
    async def fail(arguments, context):
        raise ToolError("no")

    async def scenario():
        tools = Tools().add("t__ok").add("t__fail", fail).add("t__ask", effect=Effect.EXEC)
        step = [call(name, arguments, index=n, id=f"c{n}") for n, name in enumerate(names)]
        bench = Bench(step, DONE, tools=tools)
        events = await bench.run(limits={"max_tool_calls": max_tool_calls})
        return await bench.engine.history(events[0].session)

    history = asyncio.run(scenario())
    made = [c.id for m in history if isinstance(m, AssistantMessage) for c in m.tool_calls]
    answered = [message.tool_call_id for message in history if isinstance(message, ToolMessage)]
    assert made == answered == [f"c{n}" for n in range(len(names))]
    assert isinstance(history[-1], AssistantMessage) and not history[-1].tool_calls


async def test_a_person_may_change_the_arguments_and_the_model_is_told():
    async def ask(question):
        return Answer(Choice.EDIT, arguments={"n": 7})

    tools = Tools().add("t__w", effect=Effect.WRITE, schema=NUMBER)
    bench = Bench([call("t__w", '{"n": 1}')], DONE, tools=tools)
    (result,) = results(await bench.run(ask=ask))
    assert tools.calls == [("t__w", {"n": 7})]
    assert '{"n":7}' in result.parts[0].text


async def test_arguments_changed_to_something_that_does_not_fit_are_not_run():
    async def ask(question):
        return Answer(Choice.EDIT, arguments={"n": "seven"})

    tools = Tools().add("t__w", effect=Effect.WRITE, schema=NUMBER)
    bench = Bench([call("t__w", '{"n": 1}')], DONE, tools=tools)
    (result,) = results(await bench.run(ask=ask))
    assert (result.status, tools.calls) == (ResultStatus.SCHEMA, [])


async def test_arguments_changed_to_something_too_deep_are_not_run():
    async def ask(question):
        return Answer(Choice.EDIT, arguments={"n": nested(300)})

    tools = Tools().add("t__w", effect=Effect.WRITE, schema=NUMBER)
    bench = Bench([call("t__w", '{"n": 1}')], DONE, tools=tools)
    (result,) = results(await bench.run(ask=ask))
    assert (result.status, tools.calls) == (ResultStatus.SCHEMA, [])
    assert "nested too deeply, 200 levels at most" in result.parts[0].text


async def test_arguments_are_changed_also_where_the_asker_wanted_to_be_asked():
    asked = []

    async def ask(question):
        asked.append(question)
        return Answer(Choice.EDIT, arguments={"n": 7})

    tools = Tools().add("t__r", schema=NUMBER)
    bench = Bench([call("t__r", '{"n": 1}')], DONE, tools=tools)
    events = await bench.run(ask=ask, ask_about=("t__r",))
    assert tools.calls == [("t__r", {"n": 7})]
    assert [question.schema for question in asked] == [NUMBER]
    assert [event.body.question.schema for event in events if isinstance(event.body, DecisionAsked)] == [{}]


UNFINISHED = '{"text": "half"'


@pytest.mark.parametrize("end", [StepEnd.FILTERED, StepEnd.UNKNOWN, StepEnd.LENGTH])
async def test_a_call_that_lacks_its_end_runs_only_if_the_model_ended_by_its_own_will(end):
    tools = Tools().add("t__r")
    calls = [call("t__r", UNFINISHED, index=0), call("t__r", '{"text": "whole"}', index=1), StepFinished(end)]
    bench = Bench(calls, [TextDelta("done")], tools=tools)
    events = await bench.run()
    assert [arguments for _, arguments in tools.calls if arguments["text"] == "half"] == []
    assert results(events)[0].status is ResultStatus.BAD_ARGUMENTS


async def test_after_a_comma_more_was_to_come():
    tools = Tools().add("t__r")
    bench = Bench([call("t__r", '{"text": "half",'), StepFinished(StepEnd.STOP)], [TextDelta("done")], tools=tools)
    events = await bench.run()
    assert tools.calls == [] and results(events)[0].status is ResultStatus.BAD_ARGUMENTS


async def test_arguments_too_long_to_be_read_are_not_run_without_their_end(monkeypatch):
    monkeypatch.setattr("aish.engine.model.stream_assembly.MAX_ARGUMENTS_CHARS", 100)
    tools = Tools().add("t__r")
    pieces = [call("t__r", '{"text": "x"'), call("", f', "more": "{"y" * 200}"}}'), StepFinished(StepEnd.TOOL_CALLS)]
    bench = Bench(pieces, [TextDelta("done")], tools=tools)
    events = await bench.run()
    assert tools.calls == [] and "too long" in results(events)[0].parts[0].text


@pytest.mark.parametrize("choice", [ToolChoice("none"), ToolChoice("required", "t__other")])
async def test_what_the_request_does_not_allow_to_be_called_is_not_run(choice):
    tools = Tools().add("t__r").add("t__other")
    bench = Bench([call("t__r")], [TextDelta("done")], tools=tools)
    events = await bench.run(tool_choice=choice)
    assert tools.calls == [] and results(events)[0].status is ResultStatus.NOT_ALLOWED


async def test_a_tool_that_no_longer_only_reads_is_told_of_once():
    tools = Tools().add("git__log", hints={"readOnly": True})
    bench = Bench(*[[TextDelta("x")]] * 3, tools=tools)
    told = []
    for effect in (Effect.READ, Effect.EXEC, Effect.EXEC):
        tools._specs[0] = msgspec.structs.replace(tools._specs[0], effect=effect)
        events = await bench.run(ask=answering())
        told.append(["git__log has changed" in status.text for status in bodies(events, Status)])
    assert told == [[], [True], []]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("proved read-only", "proved"), ("gate.exec", ""), ("the user", ""), ("mode auto", "unasked"),
        ("autonomous work", "unasked"),
    ],
)  # fmt: skip
async def test_a_tool_knows_whether_its_call_was_proved_harmless_or_runs_unasked(rule, expected):
    async def body(arguments, context):
        return said("proved" * context.is_proved + "unasked" * context.is_unasked)

    gate = BrokenGate(lambda: Decision(Verdict.ALLOW, rule))
    bench = Bench([call("t__x")], DONE, tools=Tools().add("t__x", body), gate=gate)
    (result,) = results(await bench.run())
    assert text_of(result.parts) == expected
