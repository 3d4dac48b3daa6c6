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


def background_in(*places: str):
    """The user is in these workspaces, turn by turn; the session began in `a`."""
    left = list(places)

    async def find(request: TurnRequest) -> Background:
        rest = "at the beginning" if left[0] == "a" else f"the rules of {left[0]}"
        return Background("Machine: x\nWorkspace: a\nDay: 1", workspace=f"Workspace: {left.pop(0)}\n{rest}")

    return find


async def workspaces_of(*places: str) -> list[str]:
    settings = {"find_background": background_in(*places), "system": SystemTexts("be kind")}
    here = Bench(*[[TextDelta("fine")]] * len(places), settings=settings)
    session = ""
    for _ in places:
        session = (await here.run("go", session=session, environment=True))[0].session
    requests = [request.messages for request in here.scripted.requests]
    for before, after in itertools.pairwise(requests):
        assert after[: len(before)] == before
    return [messages[-1].text.partition("[workspace]")[2].partition("\n")[2] for messages in requests]


async def test_another_workspace_is_told_once_and_shortly_when_it_is_come_back_to():
    notes = await workspaces_of("a", "b", "b", "a", "b", "a", "b", "b")
    assert notes[0] == notes[2] == notes[7] == ""
    assert notes[1] == "Workspace: b\nthe rules of b" and notes[3] == "Workspace: a\nat the beginning"
    assert notes[4].startswith("Workspace: b\n") and "the rules" not in notes[4]
    assert notes[5].startswith("Workspace: a\n") and notes[6] == notes[4]
