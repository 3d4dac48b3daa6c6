from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing

import pytest

from aish.engine.engine import flatten
from aish.engine.model.selection import Routing
from aish.errors import (
    ModelNotFound,
    ProviderBusy,
    ProviderProtocolError,
    ProviderRejected,
    ProviderTimeout,
    ProviderUnavailable,
    SessionNotFound,
)
from aish.providers.scripted import Item, ScriptedProvider, from_steps
from aish.storage.sqlite.store import SqliteStore
from aish.types.chunks import StepEnd, StepFinished, UsageChunk
from aish.types.decisions import Answer, Choice
from aish.types.events import (
    Failed,
    ReasoningDelta,
    Status,
    StepStarted,
    TextDelta,
    TurnEnd,
    TurnStarted,
    UsageReported,
    decode_event,
    encode_event,
)
from aish.types.messages import AssistantMessage, ImagePart, SystemMessage, TextPart, ToolMessage, UserMessage, user
from aish.types.models import Capabilities, ModelProfile
from aish.types.requests import StepRequest
from aish.types.tools import Effect, ResultStatus, ToolOutput
from aish.types.usage import Usage
from support.engines import Bench, Tools, bodies, call, finish, results, said


async def test_a_plain_answer_is_one_step_with_numbered_events_from_start_to_finish():
    bench = Bench([TextDelta("Hel"), TextDelta("lo"), StepFinished(StepEnd.STOP)])
    events = await bench.run("hi")
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert isinstance(events[0].body, TurnStarted)
    assert "".join(body.text for body in bodies(events, TextDelta)) == "Hello"
    assert finish(events).reason is TurnEnd.ANSWERED
    assert await bench.engine.history(events[0].session) == (user("hi"), AssistantMessage("Hello"))


async def test_what_is_recorded_is_what_was_seen_byte_for_byte():
    bench = Bench([TextDelta("a"), call("t__x")], [TextDelta("done")], tools=Tools().add("t__x"))
    events = await bench.run()
    assert await bench.recorded(events) == b"".join(encode_event(event) + b"\n" for event in events)


async def test_text_before_the_calls_is_kept_in_the_assistant_message_that_makes_them():
    bench = Bench([TextDelta("Let me see."), call("t__x", id="c1")], [TextDelta("42")], tools=Tools().add("t__x"))
    events = await bench.run()
    history = await bench.engine.history(events[0].session)
    assert isinstance(history[1], AssistantMessage) and history[1].text == "Let me see."
    assert history[1].tool_calls[0].name == "t__x"
    assert history[2] == ToolMessage("c1", "t__x", said("done").parts)
    assert history[3] == AssistantMessage("42")


async def test_the_second_step_sees_the_result_of_the_first():
    bench = Bench([call("t__x", id="c1")], [TextDelta("ok")], tools=Tools().add("t__x"))
    await bench.run()
    assert [type(message) for message in bench.scripted.requests[1].messages] == [
        UserMessage,
        AssistantMessage,
        ToolMessage,
    ]


async def test_a_session_goes_on_where_it_was_and_its_turns_are_in_order():
    bench = Bench([TextDelta("one")], [TextDelta("two")])
    first = await bench.run("a")
    await bench.run("b", session=first[0].session)
    texts = [message.text for message in bench.scripted.requests[1].messages if not isinstance(message, SystemMessage)]
    assert texts == ["a", "one", "b"]


async def test_an_unknown_session_is_refused_before_anything_happens():
    bench = Bench([TextDelta("x")])
    with pytest.raises(SessionNotFound):
        await bench.run(session="sess_nope")
    assert bench.scripted.requests == []


async def test_an_unknown_model_leaves_no_session_behind():
    bench = Bench([TextDelta("x")])
    with pytest.raises(ModelNotFound):
        await bench.run(model="scripted:nope")
    assert await bench.store.list_sessions(limit=10) == []


@pytest.mark.parametrize(
    ("limits", "end"),
    [
        ({"max_steps": 2}, TurnEnd.MAX_STEPS),
        ({"max_tool_calls": 2, "repeat_limit": 99}, TurnEnd.MAX_TOOL_CALLS),
        ({"max_tokens": 30, "repeat_limit": 99}, TurnEnd.TOKENS),
        ({"max_cost": 0.5, "repeat_limit": 99}, TurnEnd.COST),
        ({"repeat_limit": 3}, TurnEnd.REPEATED),
    ],
)
async def test_each_limit_ends_the_turn_cleanly_and_says_so(limits, end):
    usage = UsageChunk(Usage(10, 10, cost=0.3))
    bench = Bench([call("t__x"), usage], tools=Tools().add("t__x"))
    events = await bench.run(limits=limits)
    assert finish(events).reason is end
    assert bodies(events, Status)[-1].text == finish(events).detail != ""
    history = await bench.engine.history(events[0].session)
    assert isinstance(history[-1], AssistantMessage) and history[-1].text.startswith("[aish] stopped")
    calls = [c.id for m in history if isinstance(m, AssistantMessage) for c in m.tool_calls]
    assert calls == [message.tool_call_id for message in history if isinstance(message, ToolMessage)]


async def test_calls_past_the_limit_get_a_result_and_are_not_run():
    tools = Tools().add("t__x")
    bench = Bench([call("t__x", f'{{"n": {n}}}', index=n) for n in range(4)], tools=tools)
    events = await bench.run(limits={"max_tool_calls": 2})
    assert len(tools.calls) == 2
    assert [result.status for result in results(events)] == [ResultStatus.OK] * 2 + [ResultStatus.LIMIT] * 2


async def test_wall_time_ends_a_silent_model_and_says_so():
    bench = Bench([TextDelta("slow"), 30.0])
    events = await bench.run(limits={"wall_s": 0.05})
    assert finish(events).reason is TurnEnd.WALL_TIME


async def test_a_call_that_its_deadline_ended_ends_the_turn_though_the_meter_is_a_little_behind():
    others = [ScriptedProvider("other", {"m": from_steps([[TextDelta("instead")]])})]
    late = ProviderTimeout("not over in time", is_deadline=True)
    bench = Bench([late], others=others, settings={"routing": Routing(fallback="other:m")})
    events = await bench.run(limits={"wall_s": 5})
    assert finish(events).reason is TurnEnd.WALL_TIME
    assert [body.text for body in bodies(events, Status)] == ["stopped after 5 s, the time limit for one turn"]
    assert bodies(events, Failed) == []


@pytest.mark.parametrize(
    ("error", "end"),
    [
        (ProviderUnavailable("the connection was closed"), TurnEnd.WALL_TIME),
        (ProviderTimeout("fell silent"), TurnEnd.WALL_TIME),
        (ProviderRejected("no such key"), TurnEnd.FAILED),
    ],
)
async def test_what_might_be_tried_again_ends_with_the_time_of_the_turn_once_that_is_up(error, end):
    now_s = [1000.0]

    def late(request: StepRequest) -> Iterator[Item]:
        now_s[0] += 5
        yield error

    bench = Bench(provider=ScriptedProvider("scripted", {"model": late}))
    bench.clock.monotonic_s = lambda: now_s[0]
    assert finish(await bench.run(limits={"wall_s": 5})).reason is end
    assert finish(await bench.run(limits={"wall_s": 6})).reason is TurnEnd.FAILED


async def test_an_answer_cut_by_the_model_says_length():
    bench = Bench([TextDelta("half an ans"), StepFinished(StepEnd.LENGTH)])
    assert finish(await bench.run()).reason is TurnEnd.LENGTH


@pytest.mark.parametrize(
    ("error", "retry"),
    [
        (ProviderUnavailable("down"), True),
        (ProviderTimeout("late"), True),
        (ProviderBusy("busy"), True),
        (ProviderProtocolError("garbage"), True),
        (ProviderRejected("no", status=400), False),
    ],
)
async def test_a_failed_first_step_is_told_and_leaves_no_half_turn(error, retry):
    bench = Bench([error])
    events = await bench.run("please")
    (failed,) = bodies(events, Failed)
    assert (failed.message, failed.retry) == (error.message, retry)
    assert finish(events).reason is TurnEnd.FAILED
    assert await bench.engine.history(events[0].session) == ()
    (turn,) = await bench.store.list_turns(events[0].session)
    assert turn.input == (user("please"),)


async def test_a_failure_after_text_keeps_what_was_said():
    bench = Bench([TextDelta("so far"), ProviderUnavailable("cut")])
    events = await bench.run()
    assert finish(events).reason is TurnEnd.FAILED
    assert (await bench.engine.history(events[0].session))[-1] == AssistantMessage("so far")


async def test_a_failure_in_a_later_step_keeps_the_calls_and_their_results():
    bench = Bench([call("t__x", id="c1")], [ProviderUnavailable("gone")], tools=Tools().add("t__x"))
    events = await bench.run()
    history = await bench.engine.history(events[0].session)
    assert [type(message) for message in history] == [UserMessage, AssistantMessage, ToolMessage, AssistantMessage]
    assert bench.tools.calls == [("t__x", {})]


async def test_a_call_cut_off_in_the_middle_is_never_executed():
    tools = Tools().add("t__x")
    bench = Bench([call("t__x", '{"path": "/tmp'), StepFinished(StepEnd.LENGTH)], [TextDelta("sorry")], tools=tools)
    events = await bench.run()
    assert tools.calls == []
    assert results(events)[0].status is ResultStatus.BAD_ARGUMENTS


async def test_reasoning_is_an_event_and_stays_out_of_the_text():
    bench = Bench([ReasoningDelta("hmm"), TextDelta("yes")])
    events = await bench.run()
    assert bodies(events, ReasoningDelta)[0].text == "hmm"
    history = await bench.engine.history(events[0].session)
    assert history[-1] == AssistantMessage("yes", (), "hmm")


async def test_usage_is_reported_for_each_step_and_summed_for_the_turn():
    usage = UsageChunk(Usage(10, 5))
    bench = Bench([call("t__x"), usage], [TextDelta("ok"), usage], tools=Tools().add("t__x"))
    events = await bench.run()
    assert [body.usage.prompt_tokens for body in bodies(events, UsageReported)] == [10, 10]
    assert finish(events).usage.total_tokens == 30


async def test_usage_is_estimated_and_marked_so_where_the_backend_says_nothing():
    events = await Bench([TextDelta("x" * 400)]).run()
    (report,) = bodies(events, UsageReported)
    assert report.usage.estimated and report.usage.completion_tokens == 100


async def test_an_empty_answer_is_noted():
    events = await Bench([StepFinished(StepEnd.STOP)]).run()
    assert "empty answer" in bodies(events, Status)[0].text


REJECTION = ProviderRejected("Only user and assistant roles are supported!", status=400)


async def test_a_template_that_rejects_tool_messages_gets_results_as_text_and_is_remembered():
    steps = [[call("t__x", id="c1")], [REJECTION]]
    bench = Bench(*steps, tools=Tools().add("t__x"))
    scripts = bench.scripted._scripts

    def play(request):
        if any(isinstance(message, ToolMessage) for message in request.messages):
            return [REJECTION]
        asked = [message.text for message in request.messages if isinstance(message, UserMessage)]
        return [TextDelta("thanks")] if "[tool: t__x]" in asked[-1] else [call("t__x", id="c1")]

    scripts["model"] = play
    events = await bench.run("go")
    assert finish(events).reason is TurnEnd.ANSWERED
    assert any("rejects tool messages" in status.text for status in bodies(events, Status))
    await bench.run("again", session=events[0].session)
    assert all(not isinstance(m, ToolMessage) for m in bench.scripted.requests[-1].messages)


async def test_what_a_model_thought_before_its_calls_goes_back_to_it_and_stays_there():
    steps = ([ReasoningDelta("hm"), call("t__x", id="c1")], [ReasoningDelta("ah"), TextDelta("ok")], [TextDelta("yes")])
    bench = Bench(*steps, tools=Tools().add("t__x"))
    events = await bench.run()
    assert [m.reasoning for m in bench.scripted.requests[1].messages if isinstance(m, AssistantMessage)] == ["hm"]
    await bench.run("and now", session=events[0].session)
    thoughts = [m.reasoning for m in bench.scripted.requests[2].messages if isinstance(m, AssistantMessage)]
    assert thoughts == ["hm", ""]


async def test_system_messages_at_the_beginning_are_sent_as_one():
    bench = Bench([TextDelta("ok")])
    given = (SystemMessage("one"), SystemMessage("two"), user("hi"), SystemMessage("late"))
    await bench.run("go", context=given)
    first, *rest = bench.scripted.requests[0].messages
    assert isinstance(first, SystemMessage) and first.text.endswith("one\n\ntwo")
    assert rest == [*given[2:], user("go")], "where it comes late is nobody's to change"


async def test_a_template_that_takes_system_messages_only_first_gets_later_ones_as_text_and_is_remembered():
    refusal = ProviderRejected("Unable to apply the template: System message must be at the beginning.", status=400)

    def play(request):
        kinds = [type(message) for message in request.messages]
        return [refusal] if SystemMessage in kinds[1:] else [TextDelta("fine")]

    bench = Bench()
    bench.scripted._scripts["model"] = play
    given = (SystemMessage("one"), user("hi"), SystemMessage("late"))
    events = await bench.run("go", context=given)
    assert finish(events).reason is TurnEnd.ANSWERED
    assert any("at the beginning only" in status.text for status in bodies(events, Status))
    _, asked = bench.scripted.requests[1].messages
    assert isinstance(asked, UserMessage) and asked.text == "hi\n\n[system]\nlate\n\ngo"
    await bench.run("again", context=given)
    assert len(bench.scripted.requests) == 3


async def test_a_rejection_with_nothing_to_re_render_ends_the_turn_once():
    bench = Bench([REJECTION])
    events = await bench.run()
    assert finish(events).reason is TurnEnd.FAILED
    assert len(bench.scripted.requests) == 1


async def test_use_tool_role_false_renders_results_as_user_text_from_the_start():
    bench = Bench([call("t__x", id="c1")], [TextDelta("ok")], tools=Tools().add("t__x"), strict={"scripted"})
    await bench.run("go")
    second = bench.scripted.requests[1].messages
    assert isinstance(second[-1], UserMessage) and second[-1].text == "[tool: t__x]\ndone"
    assert isinstance(second[-2], AssistantMessage) and second[-2].text == "[call: t__x] {}"


async def test_what_a_backend_said_of_its_model_is_asked_for_again_once_it_has_failed():
    class Restarted(ScriptedProvider):
        window = 8192

        def _info(self, model):
            return ModelProfile("scripted", model, self.window)

    model = Restarted("scripted", {"model": lambda request: said_now})
    bench = Bench(provider=model)
    said_now = [TextDelta("fine")]
    await bench.run()
    model.window = 4096
    assert (await bench.engine.view_context(bench.request())).window == 8192
    said_now = [ProviderRejected("the request exceeds the available context size", status=400)]
    await bench.run()
    assert (await bench.engine.view_context(bench.request())).window == 4096


@pytest.mark.parametrize("strict", [(), ("scripted",)])
@pytest.mark.parametrize("sees", [True, False])
async def test_an_image_of_a_tool_is_shown_to_a_model_that_sees_and_told_to_any_other(sees, strict):
    async def draw(arguments, context):
        return ToolOutput((TextPart("drawn "), ImagePart(data="aGk=")))

    class Model(ScriptedProvider):
        def _info(self, model):
            return ModelProfile("scripted", model, 8192, Capabilities(tokenize=True, vision=sees))

    model = Model("scripted", {"model": from_steps([[call("t__draw", id="c1")], [TextDelta("ok")]])})
    await Bench(tools=Tools().add("t__draw", draw), provider=model, strict=strict).run("go")
    last = model.requests[1].messages[-1]
    assert isinstance(last, UserMessage if strict else ToolMessage)
    assert last.parts[-1] == (ImagePart(data="aGk=") if sees else TextPart("[image: image/png]"))


async def test_leaving_in_the_middle_of_text_keeps_it_and_records_the_cancellation():
    bench = Bench([TextDelta("half "), TextDelta("said"), 30.0])
    async with bench.engine.turn(bench.request()) as events:
        async for event in flatten(events):
            if isinstance(event.body, TextDelta) and event.body.text == "said":
                break
    (turn,) = await bench.store.list_turns(event.session)
    assert turn.end is TurnEnd.CANCELLED
    assert turn.messages[-1] == AssistantMessage("half said")
    recorded = [decode_event(line) for line in (await bench.recorded([event])).splitlines()]
    assert [event.seq for event in recorded] == [*range(1, len(recorded) + 1)]
    assert isinstance(recorded[-2].body, UsageReported)


async def test_cancelling_a_running_tool_stops_it_and_leaves_a_result_for_every_call():
    started, stopped = asyncio.Event(), asyncio.Event()

    async def hang(arguments, context):
        started.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            stopped.set()

    bench = Bench(
        [call("t__hang", id="a", index=0), call("t__other", id="b", index=1)],
        tools=Tools().add("t__hang", hang).add("t__other"),
    )

    async def consume():
        async with bench.engine.turn(bench.request()) as events:
            return [event async for event in flatten(events)]

    consumer = asyncio.create_task(consume())
    async with asyncio.timeout(10):
        await started.wait()
        consumer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await consumer
    assert stopped.is_set()
    (session,) = await bench.store.list_sessions(limit=1)
    history = await bench.engine.history(session.id)
    tool_messages = [message for message in history if isinstance(message, ToolMessage)]
    assert [message.tool_call_id for message in tool_messages] == ["a", "b"]
    assert "may or may not" in tool_messages[0].text
    assert isinstance(history[-1], AssistantMessage) and not history[-1].tool_calls


async def test_an_outcome_that_was_not_delivered_before_the_cancellation_is_still_the_result():
    bench = Bench([call("t__x", id="c1")], tools=Tools().add("t__x"))
    async with bench.engine.turn(bench.request()) as events, aclosing(events):
        async for _ in events:
            if bench.tools.calls:
                break
    (session,) = await bench.store.list_sessions(limit=1)
    (turn,) = await bench.store.list_turns(session.id)
    (result,) = [message for message in turn.messages if isinstance(message, ToolMessage)]
    assert result.text == "done"


async def test_no_task_is_left_after_a_turn_however_it_ends():
    before = asyncio.all_tasks()
    bench = Bench([call("t__x")], [TextDelta("x"), 30.0], tools=Tools().add("t__x"))
    async with bench.engine.turn(bench.request()) as events:
        async for event in flatten(events):
            if isinstance(event.body, StepStarted) and event.step == 2:
                break
    assert asyncio.all_tasks() == before


async def test_a_call_cut_off_before_its_arguments_is_not_taken_for_one_without_any():
    tools = Tools().add("t__wipe")
    bench = Bench([call("t__wipe", ""), StepFinished(StepEnd.LENGTH)], [TextDelta("sorry")], tools=tools)
    events = await bench.run()
    assert tools.calls == []
    assert "cut off at the token limit" in results(events)[0].parts[0].text


async def test_a_turn_that_was_entered_and_left_at_once_does_not_lock_its_session():
    bench = Bench([TextDelta("one")])
    first = await bench.run()
    async with bench.engine.turn(bench.request(session=first[0].session)):
        pass
    assert finish(await bench.run(session=first[0].session)).reason is TurnEnd.ANSWERED


@pytest.mark.parametrize("steps", range(1, 40, 3))
async def test_a_cancellation_at_any_moment_leaves_the_session_usable(steps, tmp_path):
    store = SqliteStore(tmp_path / "x.db")
    bench = Bench([call("t__x")], [TextDelta("one")], tools=Tools().add("t__x"), store=store)
    session = (await bench.run())[0].session
    task = asyncio.create_task(bench.run(session=session))
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task}, timeout=10)
    assert finish(await bench.run(session=session)).reason is TurnEnd.ANSWERED
    await bench.engine.aclose()


async def test_a_defect_is_recorded_as_a_failure_not_as_the_users_wish():
    def play(request):
        raise KeyError("a bug")

    bench = Bench([TextDelta("x")])
    bench.scripted._scripts["model"] = play
    with pytest.raises(KeyError):
        await bench.run()
    (session,) = await bench.store.list_sessions(limit=1)
    (turn,) = await bench.store.list_turns(session.id)
    assert turn.end is TurnEnd.FAILED


async def test_a_persons_time_to_think_is_not_the_turns():
    tools = Tools().add("t__w", effect=Effect.WRITE)
    bench = Bench([call("t__w")], [TextDelta("ok")], tools=tools)
    now_s = [0.0]
    bench.clock.monotonic_s = lambda: now_s[0]

    async def slow(question):
        now_s[0] += 1000.0
        return Answer(Choice.YES)

    events = await bench.run(ask=slow, limits={"wall_s": 10.0})
    assert results(events)[0].status is ResultStatus.OK


async def test_an_answer_without_end_is_cut(monkeypatch):
    monkeypatch.setattr("aish.engine.model.stream_assembly.MAX_TEXT_CHARS", 80_000)
    bench = Bench([TextDelta(f"piece {number}, ") for number in range(20_000)])
    events = await bench.run()
    assert finish(events).reason is TurnEnd.LENGTH
    assert 80_000 <= sum(len(body.text) for body in bodies(events, TextDelta)) <= 82_000


async def test_a_key_in_a_backends_complaint_is_not_shown():
    key = "sk-" + "proj-" + "Ab1" * 12
    events = await Bench([ProviderRejected(f"Incorrect API key provided: {key}", status=401)]).run()
    assert key not in str(events)
    assert "Incorrect API key" in bodies(events, Failed)[0].message
