"""Calls that a turn leaves to others: the asker's own tools, and decisions that come later."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aish.engine.engine import flatten
from aish.engine.turn.events import record_from_events
from aish.errors import EffectUnknown, ProviderUnavailable, StoreError
from aish.providers.scripted import Item, from_steps
from aish.storage.memory import MemoryStore
from aish.types.chunks import StepEnd, StepFinished
from aish.types.decisions import Answer, Choice, Question
from aish.types.events import (
    DecisionMade,
    TextDelta,
    ToolCallReady,
    ToolResult,
    TurnEnd,
    TurnFinished,
    TurnStarted,
    decode_event,
)
from aish.types.messages import AssistantMessage, TextPart, ToolCall, ToolMessage, UserMessage, user
from aish.types.requests import ToolChoice
from aish.types.tools import Effect, ToolOutput, ToolSpec
from support.engines import ANYTHING, Bench, FixedLiveness, Tools, bodies, call, finish, policy_gate, results, said
from support.eventually import eventually

THEIRS = ToolSpec("read", "reads", ANYTHING, Effect.READ, "client")


def left(events) -> list[str]:
    answered = {event.call for event in events if event.body in results(events)}
    return [event.call for event in events if isinstance(event.body, ToolCallReady) and event.call not in answered]


async def test_a_call_of_the_askers_tool_ends_the_turn_without_a_result():
    bench = Bench([TextDelta("let me look"), call("read", '{"path": 1}')])
    events = await bench.run(client_tools=(THEIRS,), context=(), kept=False)
    assert finish(events).reason is TurnEnd.CLIENT_TOOLS
    assert results(events) == []
    assert [tool.name for tool in bench.scripted.requests[0].tools] == ["read"]


async def test_the_askers_calls_are_named_by_us_because_backends_use_ids_again():
    bench = Bench([call("read", id="call_0")])
    events = await bench.run(client_tools=(THEIRS,), context=(), kept=False)
    (id,) = left(events)
    assert id.startswith("call_") and id != "call_0"


async def test_in_a_mixed_step_ours_is_run_and_merged_in_order_when_the_asker_comes_back():
    steps = [call("read", index=0), call("t__x", index=1), call("read", index=2)], [TextDelta("done")]
    bench = Bench(*steps, tools=Tools().add("t__x"))
    events = await bench.run("go", client_tools=(THEIRS,), context=(), kept=False)
    first, second = left(events)
    seen = AssistantMessage("", (ToolCall(first, "read", "{}"), ToolCall(second, "read", "{}")))
    given = (ToolMessage(second, "", (TextPart("two"),)), ToolMessage(first, "", (TextPart("one"),)))
    await bench.run(context=(user("go"), seen), input=given, client_tools=(THEIRS,), kept=False)
    conversation = bench.scripted.requests[1].messages
    assert [type(message) for message in conversation] == [UserMessage, AssistantMessage, *[ToolMessage] * 3]
    assert [c.name for c in conversation[1].tool_calls] == ["read", "t__x", "read"]
    assert [message.text for message in conversation[2:]] == ["one", "done", "two"]
    assert len(bench.tools.calls) == 1


async def test_rounds_before_the_askers_call_are_not_forgotten():
    steps = [TextDelta("a"), call("t__x")], [TextDelta("b"), call("read")], [TextDelta("done")]
    bench = Bench(*steps, tools=Tools().add("t__x"))
    events = await bench.run("go", client_tools=(THEIRS,), context=(), kept=False)
    (id,) = left(events)
    seen = AssistantMessage("ab", (ToolCall(id, "read", "{}"),))
    result = ToolMessage(id, "", (TextPart("content"),))
    again = await bench.run(context=(user("go"), seen), input=(result,), client_tools=(THEIRS,), kept=False)
    said_ = [(type(m).__name__, m.text) for m in bench.scripted.requests[2].messages]
    assert said_ == [
        ("UserMessage", "go"),
        ("AssistantMessage", "a"),
        ("ToolMessage", "done"),
        ("AssistantMessage", "b"),
        ("ToolMessage", "content"),
    ]
    assert finish(again).reason is TurnEnd.ANSWERED


async def test_a_client_that_takes_one_step_apart_into_several_messages_is_understood():
    steps = [call("read", index=0), call("t__x", index=1), call("read", index=2)], [TextDelta("done")]
    bench = Bench(*steps, tools=Tools().add("t__x"))
    first, second = left(await bench.run(client_tools=(THEIRS,), context=(), kept=False))
    context = (
        user("hello"),
        AssistantMessage("", (ToolCall(first, "read", "{}"),)),
        ToolMessage(first, "", (TextPart("one"),)),
        AssistantMessage("", (ToolCall(second, "read", "{}"),)),
    )
    await bench.run(context=context, input=(ToolMessage(second, "", (TextPart("two"),)),), kept=False)
    assert [m.text for m in bench.scripted.requests[1].messages] == ["hello", "", "one", "done", "two"]


async def test_in_a_session_the_results_begin_the_next_turn():
    bench = Bench([call("t__x", index=0), call("read", index=1)], [TextDelta("done")], tools=Tools().add("t__x"))
    events = await bench.run("go", client_tools=(THEIRS,))
    (id,) = left(events)
    await bench.run(session=events[0].session, input=(ToolMessage(id, "read", (TextPart("mine"),)),))
    assert [m.text for m in bench.scripted.requests[1].messages] == ["go", "", "done", "mine"]


async def test_results_that_never_come_leave_a_valid_history():
    bench = Bench([call("read")], [TextDelta("fine")])
    events = await bench.run("go", client_tools=(THEIRS,))
    await bench.run("never mind", session=events[0].session)
    assert [m.text for m in bench.scripted.requests[1].messages] == [
        "go",
        "",
        "[aish] no result was given for this call.",
        "never mind",
    ]


async def test_half_a_call_of_the_askers_ends_the_turn_at_the_length():
    bench = Bench([call("read", '{"pa'), StepFinished(StepEnd.LENGTH)])
    assert finish(await bench.run(client_tools=(THEIRS,))).reason is TurnEnd.LENGTH


async def test_a_demand_to_call_is_made_of_the_first_step_only():
    bench = Bench([call("t__x")], [TextDelta("done")], tools=Tools().add("t__x"))
    await bench.run(tool_choice=ToolChoice("required"))
    assert [request.tool_choice.mode for request in bench.scripted.requests] == ["required", "auto"]


async def later(question: Question) -> Answer:
    return Answer(Choice.LATER)


@pytest.mark.parametrize(("choice", "ran"), [(Choice.YES, 1), (Choice.NO, 0)])
async def test_a_decision_that_comes_later_begins_the_next_turn(choice, ran):
    async def write(arguments, context):
        return said("written")

    tools = Tools().add("t__w", write, effect=Effect.WRITE)
    bench = Bench([call("t__w")], [TextDelta("done")], tools=tools, gate=policy_gate())
    events = await bench.run("go", ask=later)
    assert finish(events).reason is TurnEnd.APPROVAL
    assert bodies(events, DecisionMade) == [] and tools.calls == []
    (id,) = left(events)
    events = await bench.run(session=events[0].session, input=(), answers={id: Answer(choice)})
    assert finish(events).reason is TurnEnd.ANSWERED
    assert len(tools.calls) == ran
    assert bench.scripted.requests[1].messages[-1].text == ("written" if ran else results(events)[0].parts[0].text)


async def test_a_yes_that_is_sent_twice_runs_its_call_once():
    tools = Tools().add("t__w", effect=Effect.WRITE)
    bench = Bench([call("t__w")], [TextDelta("done")], tools=tools)
    events = await bench.run("go", ask=later, context=(), kept=False)
    (id,) = left(events)
    context = (user("go"), AssistantMessage("", (ToolCall(id, "t__w", "{}"),)))
    for _ in range(2):
        await bench.run(context=context, kept=False, input=(), answers={id: Answer(Choice.YES)})
    assert len(tools.calls) == 1
    assert "not run again" in bench.scripted.requests[-1].messages[-1].text


@pytest.mark.parametrize(("choice", "ran"), [(Choice.YES, 1), (Choice.NO, 0), (Choice.LATER, 0)])
async def test_what_the_asker_wants_to_be_asked_about_is_asked_even_where_the_gate_allows_it(choice, ran):
    async def answer(question: Question) -> Answer:
        return Answer(choice)

    bench = Bench([call("t__x")], [TextDelta("done")], tools=Tools().add("t__x"))
    events = await bench.run(ask=answer, ask_about=("t__*",))
    assert len(bench.tools.calls) == ran
    assert finish(events).reason is (TurnEnd.APPROVAL if choice is Choice.LATER else TurnEnd.ANSWERED)


@pytest.mark.parametrize("how", ["fails", "left"])
async def test_a_turn_that_broke_off_is_gone_on_with_and_its_tools_do_not_run_again(how):
    ends = [TextDelta("half"), ProviderUnavailable("lost")] if how == "fails" else [TextDelta("half"), 30.0]
    bench = Bench([call("t__x")], ends, tools=Tools().add("t__x"))
    fields = {"context": (), "kept": False, "retry_key": "k"}
    if how == "fails":
        await bench.run(**fields)
    else:
        async with bench.engine.turn(bench.request(**fields)) as batches:
            async for event in flatten(batches):
                if isinstance(event.body, TextDelta):
                    break
    bench.scripted._scripts["model"] = from_steps([[], [TextDelta("whole")]])
    events = await bench.run(**fields)
    assert "".join(body.text for body in bodies(events, TextDelta)) == "whole"
    assert len(bench.tools.calls) == 1
    assert [type(m) for m in bench.scripted.requests[-1].messages] == [UserMessage, AssistantMessage, ToolMessage]
    await bench.run(**fields)
    assert len(bench.scripted.requests[-1].messages) == 3, "the client may not have got the answer"
    await bench.engine.forget_attempts(events[-1].turn)
    again = await bench.run(**fields)
    assert len(bench.scripted.requests[-1].messages) == 1 and finish(again).reason is TurnEnd.ANSWERED


async def yes(question: Question) -> Answer:
    return Answer(Choice.YES)


async def slow_to_stop(arguments, context):
    try:
        await asyncio.Event().wait()
    finally:
        for _ in range(50):
            await asyncio.sleep(0)


async def test_a_tool_is_not_run_again_however_often_an_answer_breaks_off():
    gone = ProviderUnavailable("gone")
    bench = Bench([call("t__x")], [gone], tools=Tools().add("t__x", effect=Effect.WRITE))
    fields = {"context": (), "kept": False, "retry_key": "k", "ask": yes}
    assert finish(await bench.run(**fields)).reason is TurnEnd.FAILED
    for _ in range(3):
        events = await bench.run(**fields)
        assert finish(events).reason is TurnEnd.FAILED
        assert bodies(events, TurnStarted)[0].after_effect
    bench.scripted._scripts["model"] = from_steps([[], [TextDelta("whole")]])
    at_once = await asyncio.gather(bench.run(**fields), bench.run(**fields))
    assert [finish(events).reason for events in at_once] == [TurnEnd.ANSWERED] * 2
    assert len(bench.tools.calls) == 1


async def test_who_asks_again_while_the_tool_is_being_stopped_is_told_that_its_effect_is_unknown():
    tools = Tools().add("t__x", slow_to_stop, effect=Effect.WRITE)
    bench = Bench([call("t__x")], [TextDelta("whole")], tools=tools)
    fields = {"context": (), "kept": False, "retry_key": "k", "ask": yes}
    turn = asyncio.create_task(bench.run(**fields))
    await eventually(lambda: bool(tools.calls))
    turn.cancel()
    await asyncio.sleep(0)
    again = asyncio.create_task(bench.run(**fields))
    await asyncio.wait({turn, again}, timeout=10)
    assert turn.cancelled()
    assert isinstance(again.exception(), EffectUnknown)
    assert len(tools.calls) == 1


async def test_a_read_that_was_broken_off_is_made_again():
    tools = Tools().add("t__x", slow_to_stop)
    bench = Bench([call("t__x")], [TextDelta("whole")], tools=tools)
    fields = {"context": (), "kept": False, "retry_key": "k"}
    turn = asyncio.create_task(bench.run(**fields))
    await eventually(lambda: bool(tools.calls))
    turn.cancel()
    await asyncio.wait({turn}, timeout=10)
    tools._bodies["t__x"] = done_at_once
    events = await bench.run(**fields)
    assert [result.parts[0].text for result in bodies(events, ToolResult)] == ["done"]
    assert finish(events).reason is TurnEnd.ANSWERED
    assert len(tools.calls) == 2


async def done_at_once(arguments, context):
    return ToolOutput((TextPart("done"),))


class Processes:
    """Several on one store, each with a name and what its model says. `t__x` never ends where it is told something."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.tools = Tools().add("t__x", self._work, effect=Effect.WRITE)
        self.fields = {"context": (), "kept": False, "retry_key": "k", "ask": yes}
        self._running: list[asyncio.Task[Any]] = []

    async def _work(self, arguments, context):
        if arguments:
            await slow_to_stop(arguments, context)
        return ToolOutput((TextPart("done"),))

    def named(self, name: str, *steps, others_live: bool = False) -> Bench:
        liveness = AllAlive() if others_live else FixedLiveness()
        liveness.me = name
        return Bench(*steps, tools=self.tools, store=self.store, settings={"liveness": liveness})

    async def stuck(self, bench: Bench) -> asyncio.Task[Any]:
        """In its last call."""
        before = len(self.tools.calls)
        turn = asyncio.create_task(bench.run(**self.fields))
        self._running.append(turn)
        await eventually(lambda: any(call[1] for call in self.tools.calls[before:]))
        return turn

    async def asking(self, bench: Bench) -> None:
        """In its last model call."""
        self._running.append(asyncio.create_task(bench.run(**self.fields)))
        await eventually(
            lambda: bench.scripted.requests and isinstance(bench.scripted.requests[-1].messages[-1], ToolMessage)
        )

    async def end(self) -> None:
        for turn in self._running:
            turn.cancel()
        await asyncio.wait(self._running)


@pytest.fixture
async def processes() -> AsyncIterator[Processes]:
    several = Processes()
    yield several
    await several.end()


def does(id: str) -> list[Item]:
    return [call("t__x", id=id)]


def hangs(id: str) -> list[Item]:
    return [call("t__x", '{"n": 1}', id=id)]


def seen_by(bench: Bench) -> list[str]:
    return [message.text[:40] for message in bench.scripted.requests[0].messages if isinstance(message, ToolMessage)]


HANGS: list[Item] = [60.0]


async def test_what_a_process_did_before_it_died_is_not_done_again_however_many_die(processes):
    await processes.asking(processes.named("host/dead/1", does("c1"), HANGS))
    second = processes.named("host/dead/2", [], does("c2"), HANGS)
    await processes.asking(second)
    assert seen_by(second) == ["done"]
    third = processes.named("host/1/1", [TextDelta("whole")])
    events = await third.run(**processes.fields)
    assert finish(events).reason is TurnEnd.ANSWERED and bodies(events, TurnStarted)[0].after_effect
    assert seen_by(third) == ["done", "done"]
    assert len(processes.tools.calls) == 2


async def test_an_effect_that_a_dying_process_left_unknown_is_told_to_the_client_and_hidden_by_no_answer(processes):
    await processes.stuck(processes.named("host/dead/1", does("c1"), hangs("c2")))
    for name in ("host/1/1", "host/1/2"):
        again = processes.named(name, [TextDelta("whole")])
        with pytest.raises(EffectUnknown, match=r"while it ran t__x \(/v1/traces/turn_"):
            await again.run(**processes.fields)
        assert again.scripted.requests == []
    assert len(processes.tools.calls) == 2


async def test_a_call_that_a_dying_process_had_not_begun_is_made_by_the_next(processes):
    both = [call("t__x", id="c1", index=0), call("t__x", '{"n": 1}', id="c2", index=1)]
    dead = processes.named("host/dead/1", both)
    dying = asyncio.create_task(dead.run(**{**processes.fields, "ask": ask_once()}))
    processes._running.append(dying)
    await eventually(lambda: len(processes.tools.calls) == 1 and len(dead.scripted.requests) == 1)
    processes.tools._bodies["t__x"] = done_at_once
    again = processes.named("host/1/1", [TextDelta("whole")])
    await eventually(lambda: has_result(processes.store))
    events = await again.run(**processes.fields)
    assert finish(events).reason is TurnEnd.ANSWERED
    assert processes.tools.calls == [("t__x", {}), ("t__x", {"n": 1})]
    assert seen_by(again) == ["done", "done"]


def ask_once() -> Any:
    """Says yes to the first question, and nothing to the second."""
    asked: list[Question] = []

    async def answer(question: Question) -> Answer:
        asked.append(question)
        if len(asked) > 1:
            await asyncio.Event().wait()
        return Answer(Choice.YES)

    return answer


def has_result(store: MemoryStore) -> bool:
    return any(b'"tool_result"' in lines for log in store._events.values() for *_, lines in log)


async def test_once_an_answer_has_been_delivered_the_same_request_is_a_new_one(processes):
    await processes.asking(processes.named("host/dead/1", does("c1"), HANGS))
    second = processes.named("host/1/1", [TextDelta("whole")])
    events = await second.run(**processes.fields)
    third = processes.named("host/1/1", [TextDelta("whole")])
    await third.run(**processes.fields)
    assert seen_by(third) == ["done"], "the process may have died before the answer was sent"
    await second.engine.forget_attempts(events[-1].turn)
    fresh = processes.named("host/1/1", [TextDelta("again")])
    events = await fresh.run(**processes.fields)
    assert not bodies(events, TurnStarted)[0].after_effect and seen_by(fresh) == []


async def test_what_is_ending_in_another_process_is_waited_for(processes):
    turn = await processes.stuck(processes.named("host/alive/1", does("c1"), hangs("c2")))
    turn.cancel()
    again = processes.named("host/1/1", [TextDelta("whole")])
    with pytest.raises(EffectUnknown):
        await again.run(**processes.fields)
    assert turn.done()
    assert len(processes.tools.calls) == 2


async def test_what_takes_too_long_in_another_process_is_read_as_it_stands(processes, monkeypatch):
    monkeypatch.setattr("aish.engine.turn.runner._CLOSING_S", 0.1)
    turn = await processes.stuck(processes.named("host/alive/1", does("c1"), hangs("c2")))
    with pytest.raises(EffectUnknown):
        await processes.named("host/1/1", [TextDelta("whole")], others_live=True).run(**processes.fields)
    assert not turn.done()


async def test_of_two_attempts_at_once_each_is_known_until_it_ends(processes, monkeypatch):
    monkeypatch.setattr("aish.engine.turn.runner._CLOSING_S", 0.1)
    await processes.asking(processes.named("host/dead/1", does("c1"), HANGS))
    other = processes.named("host/1/1", [], does("c2"), [TextDelta("ok")], others_live=True)
    events = await other.run(**processes.fields)
    await other.engine.forget_attempts(events[-1].turn)
    last = processes.named("host/1/1", [TextDelta("whole")])
    await last.run(**processes.fields)
    assert seen_by(last) == ["done"], "the one that ended well took only its own note with it"
    assert len(processes.tools.calls) == 2


async def test_a_request_that_breaks_off_again_and_again_is_refused_in_the_end(processes, monkeypatch):
    monkeypatch.setattr("aish.engine.turn.resume_state.MAX_ATTEMPTS", 2)
    for number in range(3):
        await processes.asking(processes.named(f"host/dead/{number}", *[[]] * number, does(f"c{number}"), HANGS))
    with pytest.raises(EffectUnknown, match="tried 3 times"):
        await processes.named("host/1/1", [TextDelta("whole")]).run(**processes.fields)


class AllAlive:
    me = "host/1/1"

    def is_alive(self, owner: str) -> bool:
        return True


class Held(MemoryStore):
    """Its last write of a turn takes until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.go = asyncio.Event(), asyncio.Event()

    async def finish_turn(self, turn, **fields):
        self.reached.set()
        await self.go.wait()
        await super().finish_turn(turn, **fields)

    async def record_turn(self, turn, last_seq, lines):
        self.reached.set()
        await self.go.wait()
        await super().record_turn(turn, last_seq, lines)


async def test_a_turn_that_is_cancelled_again_while_it_closes_is_gone_on_with_all_the_same():
    store = Held()
    bench = Bench([call("t__x")], [TextDelta("half"), 30.0], tools=Tools().add("t__x"), store=store)
    fields = {"context": (), "kept": False, "retry_key": "k"}
    turn = asyncio.create_task(bench.run(**fields))
    await eventually(lambda: len(bench.scripted.requests) == 2)
    turn.cancel()
    await eventually(store.reached.is_set)
    turn.cancel()
    store.go.set()
    await asyncio.wait({turn}, timeout=10)
    assert turn.cancelled()
    bench.scripted._scripts["model"] = from_steps([[], [TextDelta("whole")]])
    await bench.run(**fields)
    assert [type(m) for m in bench.scripted.requests[-1].messages] == [UserMessage, AssistantMessage, ToolMessage]


async def test_a_turn_of_no_session_can_be_looked_at_and_is_listed_nowhere():
    bench = Bench([TextDelta("hi")])
    events = await bench.run(context=(), kept=False)
    assert events[0].session == ""
    assert await bench.store.list_sessions(limit=9) == []
    lines = (await bench.store.read_events(events[0].turn)).splitlines()
    turn = record_from_events(lines, await bench.store.find_turn(events[0].turn))
    assert turn.end is TurnEnd.ANSWERED and turn.messages[-1] == AssistantMessage("hi")


class Holding(MemoryStore):
    """While something is held, `meanwhile` happens."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile = lambda: None

    async def put(self, document, *, wait=True):
        await super().put(document, wait=wait)
        self.meanwhile()
        await asyncio.sleep(0)


async def ends(store: MemoryStore) -> list[TurnEnd]:
    (turn,) = store._turns
    recorded = [decode_event(line) for line in (await store.read_events(turn)).splitlines()]
    assert [event.seq for event in recorded] == list(range(1, len(recorded) + 1))
    return [event.body.reason for event in recorded if isinstance(event.body, TurnFinished)]


async def test_what_is_written_meanwhile_does_not_end_a_turn_twice_whose_results_are_held():
    store = Holding()
    bench = Bench([call("t__x")], [TextDelta("b"), call("read")], tools=Tools().add("t__x"), store=store)
    store.meanwhile = bench.engine.flush_running_turns
    events = await bench.run(client_tools=(THEIRS,), context=(), kept=False, stream=True)
    assert finish(events).reason is TurnEnd.CLIENT_TOOLS
    assert await ends(store) == [TurnEnd.CLIENT_TOOLS]


async def test_a_turn_whose_results_cannot_be_held_has_one_end():
    store = Holding()

    def refuse() -> None:
        raise StoreError("the disk is full")

    store.meanwhile = refuse
    bench = Bench([call("t__x")], [TextDelta("b"), call("read")], tools=Tools().add("t__x"), store=store)
    with pytest.raises(StoreError):
        await bench.run(client_tools=(THEIRS,), context=(), kept=False, stream=True)
    assert await ends(store) == [TurnEnd.FAILED]
