"""An agent works in a turn of its own: with no more rights than its caller, recorded, and ended with its caller."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import pytest

from aish.agents.roster import AgentRoster
from aish.agents.toolset import AgentTools
from aish.engine.rewind import find_rewinds
from aish.errors import ProviderError
from aish.ports import Ask, CallContext, Gate, Store
from aish.providers.scripted import Item, ScriptedProvider, from_steps
from aish.storage.memory import MemoryStore
from aish.tools.registry import Registry
from aish.types.checkpoints import Checkpoint, FileChanges, RestoredFiles
from aish.types.chunks import UsageChunk
from aish.types.decisions import Answer, Choice, Mode, Question
from aish.types.events import (
    DecisionAsked,
    DecisionMade,
    Event,
    TextDelta,
    ToolOutputDelta,
    TurnEnd,
    decode_event,
)
from aish.types.messages import SystemMessage, text_of
from aish.types.models import AgentDefinition, Capabilities, ModelProfile
from aish.types.records import SessionRecord
from aish.types.tools import Arguments, Effect, ResultStatus, ToolOutput
from aish.types.usage import Category, KeyBudget, Usage
from support.engines import Bench, Tools, bodies, call, finish, policy_gate, results, said

READER = AgentDefinition("reader", "reads things", "You read.", model="scripted:reader")
WRITER = AgentDefinition(
    "writer", "writes things", "You write.", tools=("box__*", "agents__*"), model="scripted:writer"
)


def run(agent: str, task: str = "look", *, index: int = 0) -> Item:
    arguments = msgspec.json.encode({"agent": agent, "task": task}).decode()
    return call("agents__run", arguments, index=index, id=f"run_{index}_{agent}")


def says(text: str) -> list[Item]:
    return [TextDelta(text)]


class FakeCheckpoints:
    """Counts the checkpoints that were taken."""

    def __init__(self) -> None:
        self.count = 0

    async def take(self, before: Checkpoint | None = None) -> Checkpoint:
        self.count += 1
        return Checkpoint("/work", self.count)

    async def compare(self, root: str, numbers: Iterable[int]) -> Mapping[int, FileChanges]:
        raise NotImplementedError

    async def restore(self, checkpoint: Checkpoint) -> RestoredFiles:
        raise NotImplementedError


class World:
    """An engine whose models follow scripts: `model` calls agents, each agent has a script of its name."""

    def __init__(
        self,
        scripts: dict[str, Sequence[Sequence[Item]]],
        agents: Sequence[AgentDefinition] = (READER, WRITER),
        *,
        gate: Gate | None = None,
        store: Store | None = None,
        **settings: Any,
    ) -> None:
        self.box = Tools().add("look").add("change", effect=Effect.WRITE)
        self.registry = Registry()
        self.registry.add("box", self.box)
        self.roster = AgentRoster(find_more=lambda: agents)
        self.registry.add("agents", AgentTools(self.roster, lambda: self.bench.engine))
        self.scripted = ScriptedProvider("scripted", {name: from_steps(steps) for name, steps in scripts.items()})
        self.bench = Bench(
            provider=self.scripted,
            tools=self.registry,  # type: ignore[arg-type]
            gate=gate or policy_gate(),
            store=store,
            settings={"as_agent": lambda request: self.roster.as_agent(request, self.registry), **settings},
            find_alias=self.roster.find_model,
        )

    async def ask(self, *, ask: Ask | None = None, **fields: Any) -> list[Event]:
        return await self.bench.run("go", ask=ask, **fields)

    async def children(self) -> list[SessionRecord]:
        return [one for one in await self.bench.store.list_sessions(limit=99, parent=None) if one.parent]

    async def events_of(self, session: str) -> list[Event]:
        (turn,) = await self.bench.store.list_turns(session)
        return [decode_event(line) for line in (await self.bench.store.read_events(turn.id)).splitlines()]

    def requests_of(self, model: str) -> list[Any]:
        return [request for request in self.scripted.requests if request.model == model]


async def agree(question: Question) -> Answer:
    return Answer(Choice.YES)


def text_of_result(events: Sequence[Event], at: int = 0) -> str:
    return text_of(results(events)[at].parts)


async def test_the_report_of_an_agent_is_the_result_of_the_call() -> None:
    world = World({"model": [[run("reader", "what is there?")], says("thanks")], "reader": [says("a heron")]})
    events = await world.ask()
    (result,) = results(events)
    assert (result.status, text_of(result.parts), result.effect) == (ResultStatus.OK, "a heron", Effect.READ)
    (request,) = world.requests_of("reader")
    assert isinstance(request.messages[0], SystemMessage) and "You read." in request.messages[0].text
    assert request.messages[-1].text == "what is there?"
    assert finish(events).reason is TurnEnd.ANSWERED


async def test_the_turn_of_an_agent_has_a_session_that_names_its_caller_and_is_not_among_the_users() -> None:
    world = World({"model": [[run("reader")], says("ok")], "reader": [says("seen")]})
    events = await world.ask()
    (child,) = await world.children()
    assert child.parent == events[0].turn and child.title == "reader: look"
    assert results(events)[0].child_turn == (await world.events_of(child.id))[0].turn
    assert [one.id for one in await world.bench.store.list_sessions(limit=9)] == [events[0].session]


async def test_the_cost_of_an_agent_is_charged_to_the_session_of_its_caller() -> None:
    used = UsageChunk(Usage(10, 5, cost=0.5))
    world = World({"model": [[run("reader")], says("ok")], "reader": [[TextDelta("seen"), used]]})
    events = await world.ask(payer=KeyBudget("key"))
    rows = await world.bench.store.list_spent(session=events[0].session)
    assert {row.category: row.spent.cost for row in rows if row.category is Category.AGENT} == {Category.AGENT: 0.5}


async def test_an_agent_without_tools_of_its_own_only_reads() -> None:
    world = World(
        {
            "model": [[run("reader")], says("ok")],
            "reader": [[call("box__look"), call("box__change", index=1)], says("seen")],
        }
    )
    events = await world.ask(ask=agree)
    (child,) = await world.children()
    statuses = [result.status for result in results(await world.events_of(child.id))]
    assert statuses == [ResultStatus.OK, ResultStatus.NOT_ALLOWED]
    assert [tool.name for tool in world.requests_of("reader")[0].tools] == ["box__look"]
    assert world.box.calls == [("look", {})] and text_of_result(events) == "seen"


async def test_an_agent_gets_no_tool_that_its_caller_does_not_have() -> None:
    world = World({"model": [[run("writer")], says("ok")], "writer": [says("done")]})
    await world.ask(tools=("agents__*", "box__look"))
    assert [tool.name for tool in world.requests_of("writer")[0].tools] == ["agents__run", "box__look"]


@pytest.mark.parametrize(
    ("callers", "own", "expected"),
    [
        (Mode.PLAN, Mode.AUTO, ResultStatus.REFUSED),
        (Mode.AUTO, Mode.PLAN, ResultStatus.NOT_ALLOWED),
        (Mode.ASK, Mode.AUTO, ResultStatus.REFUSED),
        (None, Mode.EDITS, ResultStatus.REFUSED),
        (Mode.EDITS, Mode.AUTO, ResultStatus.OK),
        (Mode.EDITS, Mode.ASK, ResultStatus.REFUSED),
    ],
)
async def test_the_mode_of_an_agent_is_never_looser_than_that_of_its_caller(
    callers: Mode | None, own: Mode, expected: ResultStatus
) -> None:
    agent = msgspec.structs.replace(WRITER, mode=own)
    world = World({"model": [[run("writer")], says("ok")], "writer": [[call("box__edit")], says("done")]}, [agent])
    world.box.add("edit", effect=Effect.WRITE, undoable=True)

    async def refuse(question: Question) -> Answer:
        return Answer(Choice.NO)

    await world.ask(mode=callers, ask=refuse)
    (child,) = await world.children()
    assert results(await world.events_of(child.id))[0].status is expected


async def test_questions_about_an_agents_calls_go_to_the_user_of_its_caller() -> None:
    world = World({"model": [[run("writer")], says("ok")], "writer": [[call("box__change")], says("done")]})
    asked: list[Question] = []

    async def ask(question: Question) -> Answer:
        asked.append(question)
        return Answer(Choice.YES)

    events = await world.ask(ask=ask)
    assert [question.tool for question in asked] == ["box__change"]
    assert asked[0].reason.endswith("(for the agent writer)")
    shown = [event for event in events if isinstance(event.body, DecisionAsked)]
    assert [event.call for event in shown] == ["run_0_writer"]  # so that a terminal is free for the question
    assert world.box.calls == [("change", {})]


async def test_without_a_user_to_ask_an_agent_is_refused_what_needs_consent() -> None:
    world = World({"model": [[run("writer")], says("ok")], "writer": [[call("box__change")], says("could not")]})
    events = await world.ask()
    assert world.box.calls == [] and text_of_result(events) == "could not"


async def test_a_decision_that_comes_later_is_a_no_for_an_agent() -> None:
    world = World({"model": [[run("writer")], says("ok")], "writer": [[call("box__change")], says("could not")]})

    async def later(question: Question) -> Answer:
        return Answer(Choice.LATER)

    events = await world.ask(ask=later)
    assert finish(events).reason is TurnEnd.ANSWERED
    (child,) = await world.children()
    assert "cannot wait" in text_of(results(await world.events_of(child.id))[0].parts)


async def test_a_yes_for_the_session_covers_the_agents_of_the_session() -> None:
    twice = [[run("writer", "one")], [run("writer", "two")], says("ok")]
    world = World({"model": twice, "writer": [[call("box__change")], says("done")]})
    asked: list[Question] = []

    async def ask(question: Question) -> Answer:
        asked.append(question)
        return Answer(Choice.SESSION)

    await world.ask(ask=ask)
    assert len(asked) == 1 and len(world.box.calls) == 2


async def test_agents_that_only_read_run_at_the_same_time() -> None:
    calls = [run("reader", str(number), index=number) for number in range(3)]
    world = World({"model": [calls, says("ok")], "reader": [[call("box__meet")], says("seen")]})
    barrier = asyncio.Barrier(3)

    async def meet(arguments: Arguments, context: CallContext) -> ToolOutput:
        await barrier.wait()  # passes only if all three are here
        return said("met")

    world.box.add("meet", meet)
    events = await world.ask()
    assert [text_of(result.parts) for result in results(events)] == ["seen"] * 3


async def test_agents_that_can_change_things_work_one_after_the_other_in_several_turns() -> None:
    world = World({"model": [[run("writer")], says("ok")], "writer": [[call("box__work")], says("done")]})
    inside, most = 0, 0

    async def work(arguments: Arguments, context: CallContext) -> ToolOutput:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0)
        inside -= 1
        return said("worked")

    world.box.add("work", work)
    await asyncio.gather(*(world.ask() for _ in range(3)))
    assert most == 1 and len(world.box.calls) == 3


async def test_a_call_of_an_agent_that_can_change_things_is_recorded_as_an_effect() -> None:
    world = World({"model": [[run("writer")], says("ok")], "writer": [says("done")]})
    events = await world.ask()
    assert [body.effect for body in bodies(events, DecisionMade)] == [Effect.EXEC]
    assert results(events)[0].effect is Effect.EXEC


async def test_agents_start_agents_to_a_depth_of_two_and_a_loop_ends_there() -> None:
    loop = [[run("writer", "again")], says("back")]
    world = World({"model": loop, "writer": loop})
    events = await world.ask()
    assert finish(events).reason is TurnEnd.ANSWERED
    children = await world.children()
    assert len(children) == 2
    found = [results(await world.events_of(one.id))[0] for one in children]
    assert sorted(result.status for result in found) == [ResultStatus.OK, ResultStatus.REFUSED]
    assert any("depth of 2" in text_of(result.parts) for result in found)


async def test_an_agent_may_spend_no_more_than_its_caller_has_left() -> None:
    world = World(
        {
            "model": [[run("writer")], says("ok")],
            "writer": [[call("box__look", '{"n": 1}')], [call("box__look", '{"n": 2}')], says("done")],
        }
    )
    events = await world.ask(limits={"max_steps": 3})
    result = results(events)[0]
    assert result.status is ResultStatus.TOOL_ERROR and "stopped after 2 steps" in text_of(result.parts)


async def test_tool_calls_and_tokens_of_an_agent_are_taken_from_its_callers_budget() -> None:
    looks = [[call("box__look", f'{{"n": {n}}}')] for n in range(5)]
    world = World({"model": [[run("writer")], [call("box__look")], says("ok")], "writer": [*looks, says("done")]})
    events = await world.ask(limits={"max_tool_calls": 4})
    assert "stopped after 3 tool calls" in text_of_result(events)
    assert finish(events).reason is TurnEnd.MAX_TOOL_CALLS


async def test_what_agents_spend_counts_at_once_for_their_caller() -> None:
    small, large = UsageChunk(Usage(1, 1)), UsageChunk(Usage(60, 60))
    world = World({"model": [[run("reader"), small], says("ok")], "reader": [[TextDelta("seen"), large]]})
    events = await world.ask(limits={"max_tokens": 100})
    assert text_of_result(events) == "seen" and finish(events).reason is TurnEnd.TOKENS
    assert finish(events).usage.total_tokens == 2  # its own


async def test_the_definition_can_lower_the_steps() -> None:
    agent = msgspec.structs.replace(WRITER, max_steps=1)
    world = World({"model": [[run("writer")], says("ok")], "writer": [[call("box__look")], says("done")]}, [agent])
    assert "stopped after 1 step" in text_of_result(await world.ask())


async def test_a_failing_agent_is_an_error_result_and_not_a_failed_turn() -> None:
    world = World({"model": [[run("reader")], says("ok")], "reader": [[ProviderError("the backend is down")]]})
    events = await world.ask()
    assert finish(events).reason is TurnEnd.ANSWERED
    assert results(events)[0].status is ResultStatus.TOOL_ERROR
    assert "the agent reader did not finish: the backend is down" in text_of_result(events)


async def test_an_agent_with_a_model_that_does_not_exist_is_an_error_result() -> None:
    agent = msgspec.structs.replace(READER, model="scripted:gone")
    world = World({"model": [[run("reader")], says("ok")]}, [agent])
    events = await world.ask()
    assert "no script gone" in text_of_result(events) and finish(events).reason is TurnEnd.ANSWERED


async def test_an_agent_without_a_model_of_its_own_answers_on_that_of_its_caller() -> None:
    agent = msgspec.structs.replace(READER, model="")

    def play(request: Any) -> Sequence[Item]:
        if "You read." in request.messages[0].text:
            return says("seen by the same model")
        return [run("reader")] if len(request.messages) == 1 else says("ok")

    world = World({}, [agent])
    world.scripted._scripts["model"] = play
    assert text_of_result(await world.ask()) == "seen by the same model"


async def test_a_key_that_does_not_cover_the_model_of_an_agent_cannot_use_it() -> None:
    world = World({"model": [[run("reader")], says("ok")], "reader": [says("seen")]})
    events = await world.ask(models=("scripted:model",))
    assert "does not cover" in text_of_result(events) and world.requests_of("reader") == []
    assert text_of_result(await world.ask(models=("scripted:model", "agent:reader"))) == "seen"


async def test_an_agent_ends_with_its_caller() -> None:
    world = World({"model": [[run("reader")], says("ok")], "reader": [[call("box__wait")], says("seen")]})
    waiting, stopped = asyncio.Event(), asyncio.Event()

    async def wait(arguments: Arguments, context: CallContext) -> ToolOutput:
        waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        raise AssertionError

    world.box.add("wait", wait)
    turn = asyncio.create_task(world.ask())
    async with asyncio.timeout(10):
        await waiting.wait()
        turn.cancel()
        await asyncio.wait({turn})
    assert stopped.is_set()
    (child,) = await world.children()
    events = await world.events_of(child.id)
    assert finish(events).reason is TurnEnd.CANCELLED
    assert [result.status for result in results(events)] == [ResultStatus.CANCELLED]


async def test_the_calls_of_an_agent_are_shown_line_by_line_while_it_works() -> None:
    world = World(
        {
            "model": [[run("reader")], says("ok")],
            "reader": [[call("box__look", '{"at": "x"}')], [call("box__gate")], says("seen")],
        }
    )
    shown = asyncio.Event()

    async def gate(arguments: Arguments, context: CallContext) -> ToolOutput:
        await shown.wait()
        return said("open")

    world.box.add("gate", gate)
    lines: list[str] = []
    async with asyncio.timeout(20), world.bench.engine.turn(world.bench.request(live_output=True)) as batches:
        async for events in batches:
            for event in events:
                if isinstance(event.body, ToolOutputDelta):
                    assert event.call == "run_0_reader"
                    lines += event.body.text.splitlines()
                    shown.set()
    assert lines[0] == '✓ box__look {"at": "x"}'


async def test_no_tool_is_offered_without_agents_nor_to_weak_models() -> None:
    world = World({"model": [says("hi")]}, [])
    await world.ask()
    assert "agents__run" not in [spec.name for spec in world.registry.specs()]

    class Weak(ScriptedProvider):
        def _info(self, model: str) -> ModelProfile:
            return ModelProfile("scripted", model, 8192, Capabilities(tokenize=True), parameters=135_000_000)

    strong = World({"model": [says("hi")]})
    await strong.ask()
    assert "agents__run" in [tool.name for tool in strong.requests_of("model")[0].tools]
    weak = Weak("scripted", {"model": from_steps([says("hi")])})
    bench = Bench(provider=weak, tools=strong.registry)  # type: ignore[arg-type]
    await bench.run()
    assert "agents__run" not in [tool.name for tool in weak.requests[0].tools]


def test_the_description_lists_the_agents_and_stays_the_same() -> None:
    world = World({})
    (spec,) = (spec for spec in world.registry.specs() if spec.name == "agents__run")
    assert "- reader: reads things" in spec.description and "- writer (can change things): " in spec.description
    assert "- explore: " in spec.description
    assert world.registry.specs() is world.registry.specs()


async def test_a_program_without_a_turn_cannot_start_an_agent() -> None:
    world = World({})
    result = await world.bench.engine.call_tool("agents__run", '{"agent": "reader", "task": "x"}')
    assert result.status is ResultStatus.NOT_ALLOWED
    assert "agents__run" not in [spec.name for spec in world.bench.engine.visible_tools(interactive=True)]


async def test_a_model_name_answers_as_the_agent() -> None:
    world = World({"reader": [[call("box__look")], says("seen")]})
    events = await world.ask(model="agent:reader")
    assert bodies(events, TextDelta)[-1].text == "seen"
    (first, _) = world.requests_of("reader")
    assert "You read." in first.messages[0].text
    assert [tool.name for tool in first.tools] == ["box__look"]
    assert (await world.bench.engine.router.resolve("agent:reader")).name == "scripted:reader"


class OtherProcess:
    """Another process, after the first one has died."""

    me = "host/2/1"

    def is_alive(self, owner: str) -> bool:
        return owner == self.me


async def test_after_the_death_of_the_process_the_turn_of_the_agent_is_closed_with_its_callers() -> None:
    store = MemoryStore()
    world = World({"model": [[run("reader")], says("ok")], "reader": [[call("box__wait")], says("x")]}, store=store)
    waiting = asyncio.Event()

    async def wait(arguments: Arguments, context: CallContext) -> ToolOutput:
        waiting.set()
        await asyncio.Event().wait()
        raise AssertionError

    world.box.add("wait", wait)
    turn = asyncio.create_task(world.ask())
    async with asyncio.timeout(10):
        await waiting.wait()
    world.bench.engine.flush_running_turns()
    (child,) = await world.children()
    (parent,) = await store.list_sessions(limit=9)
    second = Bench(store=store, settings={"liveness": OtherProcess()})
    await second.engine.history(parent.id)
    assert [one.end for one in await store.list_turns(parent.id)] == [TurnEnd.INTERRUPTED]
    events = await world.events_of(child.id)
    assert finish(events).reason is TurnEnd.INTERRUPTED
    assert [result.status for result in results(events)] == [ResultStatus.INTERRUPTED]
    turn.cancel()
    await asyncio.wait({turn})


async def test_the_checkpoint_of_an_agents_effects_is_that_of_its_callers_turn() -> None:
    taken = FakeCheckpoints()
    world = World(
        {"model": [[run("writer")], says("ok")], "writer": [[call("box__change")], says("done")]},
        gate=policy_gate(write="allow"),
        checkpoints=lambda: taken,
    )
    events = await world.ask()
    found = await find_rewinds(world.bench.store, events[0].session)
    assert [one.turn for one in found.checkpoints] == [events[0].turn] and taken.count == 1
    (child,) = await world.children()
    assert (await find_rewinds(world.bench.store, child.id)).checkpoints == ()


async def test_the_agent_of_a_turn_without_a_session_has_none_either() -> None:
    world = World({"model": [[run("reader")], says("ok")], "reader": [says("seen")]})
    events = await world.ask(kept=False, context=())
    child = results(events)[0].child_turn
    assert isinstance(child, str)
    record = await world.bench.store.find_turn(child)
    assert record is not None and record.session == "" and await world.children() == []
