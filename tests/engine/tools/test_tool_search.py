"""Of very many tools a model sees a few, finds the others by a search, and calls them like any other."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aish.engine.tools.tool_index import ToolIndex
from aish.engine.tools.tool_search import CALL_NAME, SEARCH_NAME, ToolUses
from aish.process.clock import SystemClock
from aish.providers.scripted import ScriptedProvider
from aish.storage.memory import MemoryStore
from aish.types.context import Background, ContextRules
from aish.types.decisions import Answer, Choice
from aish.types.events import DecisionMade, TextDelta
from aish.types.messages import text_of
from aish.types.models import Capabilities, ModelProfile
from aish.types.requests import ToolChoice, TurnRequest
from aish.types.runs import Planning
from aish.types.tools import Effect, ResultStatus, ToolSpec
from support.engines import Bench, Tools, bodies, call, policy_gate, results

SCHEMA = {"type": "object", "properties": {"id": {"type": "integer", "description": "x" * 400}}, "required": ["id"]}
WINDOW = 40_000
LARGE = 70_000_000_000


class Sized(ScriptedProvider):
    """A model with a window and a size."""

    def __init__(self, *steps: Any, parameters: int = LARGE) -> None:
        replies = iter(steps)
        super().__init__("sized", {"model": lambda request: next(replies)})
        self._parameters = parameters

    async def describe(self, model: str) -> ModelProfile:
        return ModelProfile(self.name, model, WINDOW, Capabilities(native_tools=True), self._parameters)


def many_tools(count: int = 200) -> Tools:
    tools = Tools().add("shell__run").add("tickets__close", effect=Effect.WRITE, schema=SCHEMA)
    for number in range(count):
        tools.add(f"server{number % 9}__other{number}", schema=SCHEMA)
    return tools


def bench(
    *steps: Any, tools: Tools | None = None, parameters: int = 70_000_000_000, **more: Any
) -> tuple[Bench, Sized]:
    provider = Sized(*steps, [TextDelta("fine")], [TextDelta("fine")], parameters=parameters)
    return Bench(tools=tools or many_tools(), provider=provider, **more), provider


def wrapped(name: str, **arguments: Any) -> Any:
    return call(CALL_NAME, json.dumps({"name": name, "arguments": arguments}))


async def yes(question: object) -> Answer:
    return Answer(Choice.YES)


async def test_the_model_sees_a_few_tools_and_the_names_of_the_others() -> None:
    made, provider = bench()
    await made.run(model="sized:model", ask=yes)
    shown = {spec.name: spec for spec in provider.requests[0].tools}
    assert set(shown) == {"shell__run", SEARCH_NAME, CALL_NAME}
    assert (
        "There are 201 more" in shown[SEARCH_NAME].description
        and "- tickets (1): close" in shown[SEARCH_NAME].description
    )


async def test_what_is_found_is_called_behind_the_gate_as_itself() -> None:
    made, provider = bench(
        [call(SEARCH_NAME, '{"query": "close a ticket"}')], [wrapped("tickets__close", id="7")], gate=policy_gate()
    )
    events = await made.run(model="sized:model", ask=yes)
    found, closed = results(events)
    assert text_of(found.parts).startswith("tickets__close: does tickets__close\nSchema: ") and CALL_NAME in text_of(
        found.parts
    )
    assert (closed.name, closed.status) == ("tickets__close", ResultStatus.OK)
    assert made.tools.calls == [("tickets__close", {"id": 7})]
    assert [decision.effect for decision in bodies(events, DecisionMade)] == [Effect.WRITE]
    assert [request.tools for request in provider.requests] == [provider.requests[0].tools] * 3


async def test_without_a_user_a_found_tool_with_effects_is_refused() -> None:
    made, _ = bench([wrapped("tickets__close", id=7)])
    (refused,) = results(await made.run(model="sized:model"))
    assert refused.status in (ResultStatus.REFUSED, ResultStatus.NOT_ALLOWED) and made.tools.calls == []


async def test_a_tool_that_is_not_shown_may_be_called_by_its_own_name() -> None:
    made, _ = bench([call("server1__other1", '{"id": 1}')])
    (done,) = results(await made.run(model="sized:model"))
    assert done.status is ResultStatus.OK


@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        (wrapped("no__such", id=1), ResultStatus.UNKNOWN_TOOL),
        (wrapped("server1__other1"), ResultStatus.SCHEMA),
        (call(CALL_NAME, '{"arguments": {}}'), ResultStatus.BAD_ARGUMENTS),
        (call(CALL_NAME, "nonsense"), ResultStatus.BAD_ARGUMENTS),
        (call(SEARCH_NAME, "[]"), ResultStatus.BAD_ARGUMENTS),
    ],
)
async def test_wrong_calls_become_results_that_say_what_is_wrong(wrong: Any, status: ResultStatus) -> None:
    made, _ = bench([wrong])
    (result,) = results(await made.run(model="sized:model"))
    assert result.status is status and text_of(result.parts).startswith("[aish] ")


async def test_a_tool_outside_of_the_request_is_neither_found_nor_called() -> None:
    made, _ = bench([call(SEARCH_NAME, '{"query": "close tickets"}')], [wrapped("tickets__close", id=7)])
    found, refused = results(await made.run(model="sized:model", tools=("server*",), ask=yes))
    assert "tickets__close" not in text_of(found.parts) and refused.status is ResultStatus.NOT_ALLOWED


async def test_tools_that_are_used_are_shown_from_the_next_start_on_and_not_before() -> None:
    store = MemoryStore()
    first, provider = bench([wrapped("server1__other1", id=1)], store=store)
    await first.run(model="sized:model")
    await first.run(model="sized:model")
    assert provider.requests[-1].tools == provider.requests[0].tools
    second, provider = bench(store=store)
    await second.run(model="sized:model")
    assert [spec.name for spec in provider.requests[0].tools][:2] == ["shell__run", "server1__other1"]


async def test_no_more_tools_are_shown_than_their_share_of_the_window_allows() -> None:
    store = MemoryStore()
    used = [[wrapped(f"server{number % 9}__other{number}", id=1)] for number in range(60)]
    first, _ = bench(*used, store=store)
    await first.run(model="sized:model", limits={"max_steps": 100, "max_tool_calls": 100})
    second, provider = bench(store=store)
    await second.run(model="sized:model")
    shown = provider.requests[0].tools[:-2]
    assert 4 < len(shown) < 60
    assert sum(len(json.dumps(spec.schema)) for spec in shown) < WINDOW * 4 / 10


async def test_few_tools_are_all_shown_and_so_are_many_that_fit() -> None:
    few, provider = bench(tools=many_tools(20))
    await few.run(model="sized:model", ask=yes)
    assert len(provider.requests[0].tools) == 22
    fitting, provider = bench(settings={"rules": ContextRules(max_tools_share=1.0)})
    await fitting.run(model="sized:model", ask=yes)
    assert len(provider.requests[0].tools) == 202


async def test_the_smallest_models_see_the_tools_that_fit_their_question() -> None:
    made, provider = bench(parameters=135_000_000)
    await made.run("please close the ticket 12", model="sized:model", ask=yes)
    names = [spec.name for spec in provider.requests[0].tools]
    assert "tickets__close" in names and len(names) <= 8 and SEARCH_NAME not in names


@pytest.mark.parametrize("parameters", [70_000_000_000, 135_000_000])
async def test_a_tool_that_the_request_demands_is_shown(parameters: int) -> None:
    made, provider = bench(parameters=parameters)
    await made.run(model="sized:model", tool_choice=ToolChoice("required", "tickets__close"), ask=yes)
    assert "tickets__close" in [spec.name for spec in provider.requests[0].tools]


async def test_the_tools_of_the_smallest_models_fit_the_question_and_not_what_aish_adds_to_it() -> None:
    async def find_background(request: TurnRequest) -> Background:
        return Background(memory="tickets: the user wants to close tickets")

    made, provider = bench(parameters=135_000_000, settings={"find_background": find_background})
    await made.run("other7 please", model="sized:model", memory=True, ask=yes)
    assert "close tickets" in provider.requests[0].messages[-1].text
    assert "tickets__close" not in [spec.name for spec in provider.requests[0].tools]


async def test_names_of_tools_that_come_and_go_are_not_kept_for_ever() -> None:
    uses = ToolUses(MemoryStore(), SystemClock())
    await uses.note("often")
    for number in range(3000):
        await uses.note("often")
        await uses.note(f"once{number}")
    counts = await uses.load()
    assert len(counts) <= 2000 and counts["often"] == 3001


def spec(name: str, description: str, *parameters: str) -> ToolSpec:
    return ToolSpec(name, description, {"properties": {key: {} for key in parameters}}, Effect.READ, "x")


TOOLS = (
    spec("github__create_issue", "Opens an issue in a repository", "title", "body"),
    spec("github__list_issues", "Lists issues of a repository", "state"),
    spec("mail__sendMessage", "Sends an e-mail", "to", "subject", "body"),
    spec("weather__forecast", "The weather of the coming days at a place", "city"),
    spec("noise__nothing", ""),
)


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("what will the weather be in Oslo?", "weather__forecast"),
        ("send a message to Ann", "mail__sendMessage"),
        ("create a new issue about the crash", "github__create_issue"),
        ("listing all open issues", "github__list_issues"),
        ("city", "weather__forecast"),
    ],
)
def test_the_tool_that_is_meant_comes_first(question: str, name: str) -> None:
    assert ToolIndex(TOOLS).search(question, 3)[0].name == name


@pytest.mark.parametrize("question", ["", "the and of", "zebra"])
def test_a_question_without_a_known_word_finds_nothing(question: str) -> None:
    assert ToolIndex(TOOLS).search(question, 3) == []


def test_an_index_of_nothing_finds_nothing() -> None:
    assert ToolIndex(()).search("anything", 3) == []


async def test_two_processes_of_one_store_show_the_same_tools_in_a_session() -> None:
    store = MemoryStore()
    (one, first), (other, second) = bench(store=store), bench(store=store)
    events = await one.run(model="sized:model", ask=yes)
    await ToolUses(store, SystemClock()).note("tickets__close")
    await other.run(model="sized:model", ask=yes, session=events[0].session)
    await other.run(model="sized:model", ask=yes)
    assert first.requests[0].tools == second.requests[0].tools
    assert "tickets__close" in {spec.name for spec in second.requests[1].tools}


async def test_two_processes_show_a_small_model_the_same_tools_that_fit_a_session() -> None:
    store = MemoryStore()
    tools = many_tools().add("tickets__open", schema=SCHEMA).add("tickets__list", schema=SCHEMA)
    small = 1_000_000_000
    made = [bench(store=store, tools=tools, parameters=small) for _ in range(2)]
    (one, first), (other, second) = made
    events = await one.run("close the tickets", model="sized:model", ask=yes)
    await other.run("list the tickets", model="sized:model", ask=yes, session=events[0].session)
    await one.run("go on", model="sized:model", ask=yes, session=events[0].session)
    assert first.requests[0].tools == second.requests[0].tools == first.requests[1].tools


async def test_a_plan_may_use_tools_that_the_model_is_not_shown_and_is_told_of_those_that_fit() -> None:
    plan = {
        "direct": False,
        "steps": [{"id": "a", "tool": "tickets__close", "args": {"id": 7}, "needs": [], "why": ""}],
    }
    made, provider = bench([TextDelta(json.dumps(plan))], gate=policy_gate(write="allow"))
    events = await made.run("close ticket 7", model="sized:model", ask=yes, planner=Planning())
    assert [result.name for result in results(events)] == ["tickets__close"]
    told = provider.requests[0].messages[0].text
    assert "- tickets__close {" in told and told.count("- server") < 30
