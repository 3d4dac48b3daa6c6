"""What depends on the moment is in the newest user message, and stays there."""

from __future__ import annotations

import itertools

from aish.providers.scripted import ScriptedProvider, from_steps
from aish.types.context import Background, SystemTexts
from aish.types.events import TextDelta
from aish.types.messages import AssistantMessage, SystemMessage, ToolCall, ToolMessage, user
from aish.types.models import ModelProfile
from aish.types.requests import TurnRequest
from support.engines import Bench

FACTS = {"tea": "- likes tea\n- lives in Rome", "coffee": "- likes tea\n- hates coffee"}


async def find(request: TurnRequest) -> Background:
    question = request.input[0].text or "tea"
    project = "src/\nREADME.md" if request.project else ""
    return Background(memory=FACTS[question.split()[-1]], project=project)


def bench() -> Bench:
    return Bench(*[[TextDelta("fine")]] * 3, settings={"find_background": find, "system": SystemTexts("be kind")})


async def ask(bench: Bench, text: str, session: str = "", *, project: bool = False) -> str:
    events = await bench.run(text, session=session, memory=True, project=project)
    return events[0].session


async def test_facts_are_in_the_message_that_they_came_with_and_are_not_said_twice():
    here = bench()
    session = await ask(here, "about tea")
    await ask(here, "about coffee", session)
    await ask(here, "about tea", session)
    first, second, third = (request.messages for request in here.scripted.requests)
    assert first[0] == SystemMessage("be kind")
    assert "[background]" in first[1].text and "- lives in Rome" in first[1].text
    assert second[: len(first)] == first and third[: len(second)] == second
    assert "- hates coffee" in second[-1].text and "- likes tea" not in second[-1].text
    assert third[-1].text == "about tea"


async def test_the_files_of_the_project_are_told_once():
    here = bench()
    session = await ask(here, "about tea", project=True)
    await ask(here, "about tea", session, project=True)
    first, second = (request.messages for request in here.scripted.requests)
    assert first[-1].text.count("[project]") == 1 and second[-1].text == "about tea"


async def test_the_notes_are_stored_with_the_message():
    here = bench()
    session = await ask(here, "about tea")
    turns = await here.store.list_turns(session)
    assert "- lives in Rome" in turns[0].messages[0].text
    record = await here.store.find_session(session)
    assert record is not None and record.title == "about tea"


async def test_results_of_a_client_get_no_notes():
    here = bench()
    calls = AssistantMessage("", (ToolCall("call_1", "look", "{}"),))
    context = (user("about tea"), calls)
    await here.run("", memory=True, input=(ToolMessage("call_1", "look", ()),), context=context, kept=False)
    assert all("[background]" not in message.text for message in here.scripted.requests[0].messages)


async def test_a_view_shows_the_notes_as_parts_of_their_own():
    here = bench()
    view = await here.engine.view_context(here.request("about tea", memory=True, project=True))
    sizes = {part.name: part.tokens for part in view.parts}
    assert sizes["background"] > 5 and sizes["project"] > 3 and 0 < sizes["question"] < 20


async def test_a_place_is_told_when_it_differs_from_what_was_told_last():
    places = iter(("in /a", "in /b", "in /b", "in /a"))

    async def find_place(request: TurnRequest) -> Background:
        return Background(fixed="[environment]\nWorkspace: /a\nin /a", place=next(places))

    here = Bench(*[[TextDelta("fine")]] * 4, settings={"find_background": find_place, "system": SystemTexts("be kind")})
    session = ""
    for _ in range(4):
        events = await here.run("hello", session=session, environment=True)
        session = events[0].session
    asked = [request.messages for request in here.scripted.requests]
    assert asked[0][0] == SystemMessage("be kind\n\n[environment]\nWorkspace: /a\nin /a")
    told = [messages[-1].text.removeprefix("hello").strip().replace("\n", " ") for messages in asked]
    assert told == ["", "[environment] Now: in /b", "", "[environment] Now: in /a"]
    assert all(after[: len(before)] == before for before, after in itertools.pairwise(asked))


async def test_the_smallest_models_are_not_told_of_the_machine():
    async def find_place(request: TurnRequest) -> Background:
        return Background(fixed="Debian", memory="- likes tea", place="in /b")

    weak = Weak("scripted", {"model": from_steps([[TextDelta("fine")]])})
    here = Bench(provider=weak, settings={"find_background": find_place})
    await here.run("hello", environment=True, memory=True)
    text = "".join(message.text for message in weak.requests[0].messages)
    assert "likes tea" in text and "Debian" not in text and "/b" not in text


class Weak(ScriptedProvider):
    async def describe(self, model: str) -> ModelProfile:
        return ModelProfile(self.name, model, None, parameters=135_000_000)


async def test_instructions_that_change_in_a_session_are_told_in_the_newest_message_alone():
    place = "Directory: /work."
    places = iter([place, *[f"{place}\nAGENTS.md has changed."] * 2])

    async def find_environment(request: TurnRequest) -> Background:
        return Background(fixed="[instructions]\nUse tabs.\nDirectory: /work.", place=next(places))

    bench = Bench(*[[TextDelta("fine")]] * 3, settings={"find_background": find_environment})
    session = ""
    for text in ("one", "two", "three"):
        session = (await bench.run(text, session=session, environment=True))[0].session
    first, second, third = (request.messages for request in bench.scripted.requests)
    assert second[: len(first)] == first and third[: len(second)] == second
    assert ["has changed" in message.text for message in third] == [False, False, False, True, False, False]
