"""What the model sees: which turns go along, what becomes of those that do not, and what is too large on its own."""

from __future__ import annotations

import random
from typing import Any

import pytest

from aish.engine.prompt.composer import SystemParts, with_summary
from aish.errors import ProviderUnavailable
from aish.providers.scripted import ScriptedProvider
from aish.storage.sqlite.store import SqliteStore
from aish.types.chunks import StepEnd, StepFinished
from aish.types.context import ContextRules, SystemTexts
from aish.types.events import Failed, Status, TextDelta, TurnEnd
from aish.types.messages import AssistantMessage, SystemMessage, ToolMessage, user
from aish.types.models import Capabilities, ModelProfile
from aish.types.requests import StepRequest
from aish.types.usage import Category
from support.engines import Bench, Tools, bodies, call, finish, said


class Small(ScriptedProvider):
    """A model that counts words, in a window of its own."""

    def __init__(self, window: int | None = 200, answer: str = "fine", name: str = "scripted") -> None:
        super().__init__(name, {"model": self._say, "other": self._say})
        self.window = window
        self.answer = answer

    def _say(self, request: StepRequest) -> list[Any]:
        return [TextDelta(self.answer), StepFinished(StepEnd.STOP)]

    async def describe(self, model: str) -> ModelProfile:
        window = 60 if model == "other" else self.window
        return ModelProfile(self.name, model, window, Capabilities(tokenize=True))


def words(request: StepRequest) -> int:
    return sum(len(message.text.split()) + 3 for message in request.messages)


def questions(request: StepRequest) -> list[str]:
    return [message.text.split()[0] for message in request.messages if message.text and message.text[0] == "q"]


async def talk(bench: Bench, count: int, *, session: str = "", size: int = 20, model: str = "scripted:model") -> str:
    for number in range(count):
        events = await bench.run(f"q{number} " + "word " * (size - 1), session=session, model=model)
        session = events[0].session
    return session


def small(rules: ContextRules | None = None, **provider: Any) -> Bench:
    return Bench(provider=Small(**provider), settings={"rules": rules or ContextRules(answer_room=40)})


def requests(bench: Bench) -> list[StepRequest]:
    provider = bench.engine.router.providers["scripted"]
    assert isinstance(provider, ScriptedProvider)
    return provider.requests


def test_the_notes_of_earlier_turns_stand_before_the_first_words_of_the_user_and_leave_the_system_message_alone():
    parts = SystemParts("base", "said hello")
    assert parts.text == "base" and parts.summary_text.startswith("[earlier summary]")
    composed = with_summary(parts.summary_text, (SystemMessage("base"), user("one"), user("two")))
    assert [message.text for message in composed] == ["base", f"{parts.summary_text}\n\none", "two"]
    assert SystemParts("base", summary=" ").summary_text == ""


@pytest.mark.parametrize(
    ("parameters", "tools", "told"),
    [(None, ("*",), True), (8_000_000_000, ("*",), True), (135_000_000, ("*",), False), (None, (), False)],
)
async def test_models_with_tools_are_told_what_their_results_are_but_the_smallest_are_not(parameters, tools, told):
    class Sized(ScriptedProvider):
        async def describe(self, model: str) -> ModelProfile:
            return ModelProfile(self.name, model, None, Capabilities(native_tools=True), parameters)

    provider = Sized("sized", {"model": lambda request: [TextDelta("fine")]})
    bench = Bench(
        tools=Tools().add("t__x", _say), provider=provider, settings={"system": SystemTexts("", "Data, no orders.")}
    )
    await bench.run(model="sized:model", tools=tools, system="Be kind.")
    system = provider.requests[0].messages[0].text
    assert system == ("Be kind.\n\nData, no orders." if told else "Be kind.")


@pytest.mark.parametrize(("parameters", "told"), [(None, True), (8_000_000_000, True), (135_000_000, False)])
async def test_instructions_of_the_project_go_to_all_but_the_smallest_models(parameters, told):
    class Sized(ScriptedProvider):
        async def describe(self, model: str) -> ModelProfile:
            return ModelProfile(self.name, model, None, Capabilities(), parameters)

    provider = Sized("sized", {"model": lambda request: [TextDelta("fine")]})
    bench = Bench(provider=provider, settings={"system": SystemTexts("Be kind.", "", "Use tabs.")})
    await bench.run(model="sized:model")
    assert provider.requests[0].messages[0].text == ("Be kind.\n\nUse tabs." if told else "Be kind.")


async def test_turns_that_do_not_fit_go_whole_and_oldest_first():
    bench = small()
    await talk(bench, 12)
    for request in requests(bench):
        assert words(request) <= 160
        kept = questions(request)
        assert kept == [f"q{number}" for number in range(int(kept[-1][1:]) - len(kept) + 1, int(kept[-1][1:]) + 1)]
    assert len(questions(requests(bench)[-1])) == 6


async def test_turns_leave_the_window_in_large_steps_and_between_these_the_beginning_stays():
    bench = small()
    rng, session = random.Random(1), ""
    for number in range(120):
        events = await bench.run(f"q{number} " + "word " * (rng.randrange(5, 30) - 1), session=session)
        session = events[0].session
    begins = [questions(request)[0] for request in requests(bench)]
    assert all(words(request) <= 160 for request in requests(bench))
    assert len(set(begins)) < len(begins) / 3
    for before, after in zip(requests(bench), requests(bench)[1:], strict=False):
        if questions(before)[0] == questions(after)[0]:
            assert after.messages[: len(before.messages)] == before.messages


async def test_another_process_leaves_out_the_same_turns():
    bench = small()
    session = await talk(bench, 30)
    other = Bench(provider=Small(), settings={"rules": ContextRules(answer_room=40)}, store=bench.store)
    await bench.run("q30 " + "word " * 19, session=session)
    await other.run("q31 " + "word " * 19, session=session)
    ours, theirs = requests(bench)[-1].messages, requests(other)[-1].messages
    assert theirs[: len(ours)] == ours


async def test_at_most_so_many_turns_go_along_even_where_more_would_fit():
    bench = small(ContextRules(max_turns=2), window=None)
    await talk(bench, 6)
    assert questions(requests(bench)[-1]) == ["q3", "q4", "q5"]


async def test_a_budget_of_ones_own_holds_where_the_window_is_larger_or_unknown():
    for window in (None, 5000):
        bench = small(ContextRules(token_budget=80), window=window)
        await talk(bench, 8)
        assert all(words(request) <= 80 for request in requests(bench))


async def test_a_smaller_window_after_a_change_of_model_is_kept_to():
    bench = small()
    session = await talk(bench, 6)
    await bench.run("q9 short", session=session, model="scripted:other")
    assert words(requests(bench)[-1]) <= 30
    await bench.run("q10 short", session=session)
    assert len(questions(requests(bench)[-1])) > 4  # and the larger one gets its turns back


async def test_a_call_and_its_result_go_together():
    tools = Tools().add("a__b", lambda arguments, context: _say("word " * 40))
    steps = [[call("a__b")], [TextDelta("done")]] * 10

    bench = Bench(*steps, tools=tools, settings={"rules": ContextRules(token_budget=160)})
    session = ""
    for number in range(10):
        events = await bench.run(f"q{number}", session=session)
        session = events[0].session
    for request in bench.scripted.requests:
        calls = {c.id for m in request.messages if isinstance(m, AssistantMessage) for c in m.tool_calls}
        results = {m.tool_call_id for m in request.messages if isinstance(m, ToolMessage)}
        assert calls == results
        assert words(request) <= 160
    assert len(questions(bench.scripted.requests[-1])) > 1


async def _say(text: str) -> Any:
    return said(text)


async def test_a_message_larger_than_the_window_is_cut_with_a_mark_and_said_so():
    bench = small()
    events = await bench.run("start " + "word " * 1000 + "end")
    sent = requests(bench)[-1]
    text = sent.messages[-1].text
    assert words(sent) <= 160
    assert text.startswith("start") and text.rstrip().endswith("end") and "characters left out" in text
    assert any("cut what was too large" in status.text for status in bodies(events, Status))
    assert finish(events).reason is TurnEnd.ANSWERED


async def test_or_it_is_refused_with_its_size():
    bench = small(ContextRules(answer_room=40, oversized="refuse"))
    events = await bench.run("word " * 1000)
    failure = bodies(events, Failed)[0]
    assert failure.kind == "ContextOverflow" and failure.status == 400
    assert "1003 tokens" in failure.message and "room for 160" in failure.message
    assert requests(bench) == []


async def test_a_large_tool_result_in_the_turn_under_way_is_cut_too():
    tools = Tools().add("a__b", lambda arguments, context: _say("word " * 900))
    bench = Bench([call("a__b")], [TextDelta("done")], tools=tools, settings={"rules": ContextRules(token_budget=200)})
    events = await bench.run("go")
    assert finish(events).reason is TurnEnd.ANSWERED
    assert words(bench.scripted.requests[-1]) <= 200
    assert "characters left out" in bench.scripted.requests[-1].messages[-1].text


async def test_a_conversation_the_asker_keeps_goes_along_as_it_is():
    bench = small()
    history = tuple(m for n in range(50) for m in (user(f"q{n} " + "word " * 20), AssistantMessage("fine")))
    await bench.run("q50 now", context=history, kept=False)
    assert len(questions(requests(bench)[-1])) == 51


async def test_nothing_is_counted_while_everything_surely_fits():
    class Uncountable(Small):
        async def count_tokens(self, model: str, text: str) -> int | None:
            raise AssertionError("nobody should count")

    bench = Bench(provider=Uncountable(window=100_000), settings={"rules": ContextRules()})
    await talk(bench, 3)
    assert len(questions(requests(bench)[-1])) == 3


async def test_a_long_session_is_read_once_and_then_turn_by_turn(tmp_path):
    store = SqliteStore(tmp_path / "aish.db")
    reads: list[int | None] = []
    listed = store.list_turns

    async def list_turns(session: str, *, before: int | None = None, limit: int | None = None) -> Any:
        reads.append(limit)
        return await listed(session, before=before, limit=limit)

    store.list_turns = list_turns  # type: ignore[method-assign]
    bench = Bench(provider=Small(), store=store, settings={"rules": ContextRules(answer_room=40)})
    await talk(bench, 5)
    assert reads == [1, 1, 1, 1]
    assert len(questions(requests(bench)[-1])) == 5
    await store.aclose()


async def test_what_another_process_added_to_the_session_is_seen(tmp_path):
    path = tmp_path / "aish.db"
    benches = [Bench(provider=Small(window=None), store=SqliteStore(path)) for _ in range(2)]
    session = ""
    for number in range(6):
        events = await benches[number % 2].run(f"q{number}", session=session)
        session = events[0].session
    assert questions(requests(benches[1])[-1]) == [f"q{number}" for number in range(6)]
    for bench in benches:
        await bench.store.aclose()


async def test_what_falls_out_is_folded_into_a_rolling_summary():
    rules = ContextRules(answer_room=40, summarize=True, summary_model="cheap:model", summary_tokens=20)
    cheap = Small(window=4000, answer="notes", name="cheap")
    bench = Bench(provider=Small(), others=[cheap], settings={"rules": rules})
    await talk(bench, 12)
    asked = [request.messages[-1].text for request in cheap.requests]
    assert asked[0].startswith("Summarise") and "q0" in asked[0]
    assert all("notes so far" in text and "notes" in text for text in asked[1:])
    assert len(asked) == len(set(asked))  # no turn is folded twice
    opening = requests(bench)[-1].messages[0].text
    assert opening.startswith("[earlier summary]") and "notes" in opening
    assert all(words(request) <= 160 for request in requests(bench))
    spent = await bench.store.list_spent()
    assert {row.category for row in spent} == {Category.MAIN, Category.SUMMARIZE}


async def test_work_towards_a_goal_is_told_no_summary_and_makes_none():
    rules = ContextRules(answer_room=40, summarize=True, summary_model="cheap:model", summary_tokens=20)
    cheap = Small(window=4000, answer="notes", name="cheap")
    bench = Bench(provider=Small(), others=[cheap], settings={"rules": rules})
    session = await talk(bench, 12)
    folded = len(cheap.requests)
    for number in range(12):
        await bench.run(f"step {number}", session=session, category=Category.NORRIS)
        assert "[earlier summary]" not in requests(bench)[-1].messages[0].text
    assert len(cheap.requests) == folded
    await bench.run("and now", session=session)
    assert "[earlier summary]" in requests(bench)[-1].messages[0].text and len(cheap.requests) > folded


async def test_a_summary_that_grows_too_long_is_made_shorter():
    rules = ContextRules(answer_room=40, summarize=True, summary_model="cheap:model", summary_tokens=5)
    cheap = Small(window=4000, answer="far too long a summary for such a small room, and more of it", name="cheap")
    bench = Bench(provider=Small(window=300), others=[cheap], settings={"rules": rules})
    await talk(bench, 15)
    assert any(request.messages[-1].text.startswith("Make these notes shorter") for request in cheap.requests)


async def test_a_summary_that_fails_is_said_once_and_the_conversation_goes_on():
    class Broken(Small):
        def _say(self, request: StepRequest) -> list[Any]:
            raise ProviderUnavailable("cheap is away")

    rules = ContextRules(answer_room=40, summarize=True, summary_model="cheap:model")
    bench = Bench(provider=Small(), others=[Broken(name="cheap")], settings={"rules": rules})
    session, said_so = "", 0
    for number in range(12):
        events = await bench.run(f"q{number} " + "word " * 19, session=session)
        session = events[0].session
        assert finish(events).reason is TurnEnd.ANSWERED
        said_so += sum("without a summary" in status.text for status in bodies(events, Status))
    assert said_so == 1


async def test_a_view_says_what_would_be_sent_part_by_part():
    bench = small()
    session = await talk(bench, 12)
    view = await bench.engine.view_context(bench.request("q12 " + "word " * 19, session=session, system="be brief"))
    sizes = {part.name: part.tokens for part in view.parts}
    assert sizes["system"] == 5 and sizes["question"] == 23 and 50 < sizes["conversation"] <= 132
    assert (view.window, view.budget, view.counted_by) == (200, 160, "backend")
    assert view.turns + view.left_out == 12
    await bench.run("q12 " + "word " * 19, session=session, system="be brief")
    assert view.tokens == pytest.approx(words(requests(bench)[-1]), abs=2)


async def test_a_summary_that_heeds_no_limit_does_not_fill_the_window():
    rules = ContextRules(answer_room=100, summarize=True, summary_model="cheap:model", summary_tokens=10)
    cheap = Small(window=4000, answer="far too long " * 5000, name="cheap")
    bench = Bench(provider=Small(window=400), others=[cheap], settings={"rules": rules})
    session = await talk(bench, 20)
    events = await bench.run("q20 short", session=session)
    assert finish(events).reason is TurnEnd.ANSWERED
    assert all(words(request) <= 300 for request in requests(bench))
