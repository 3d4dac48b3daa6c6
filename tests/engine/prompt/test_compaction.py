"""Compaction: what becomes of earlier turns when the window is nearly full, or when the user asks for it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aish.engine.prompt.compaction import Summary, find_summary
from aish.errors import ProviderUnavailable
from aish.providers.scripted import Item, ScriptedProvider
from aish.storage.memory import MemoryStore
from aish.storage.sqlite.store import SqliteStore
from aish.tools.builtin.history import HistoryTools
from aish.tools.registry import Registry
from aish.types.checkpoints import RewindScope
from aish.types.chunks import StepEnd, StepFinished
from aish.types.context import Background, ContextRules
from aish.types.decisions import Mode
from aish.types.events import Event, Status, StepStarted, TextDelta, TurnEnd, TurnStarted, UsageReported
from aish.types.messages import UserMessage, text_of
from aish.types.models import Capabilities, ModelProfile
from aish.types.requests import StepRequest, TurnRequest
from aish.types.usage import Category, KeyBudget
from support.engines import Bench, bodies, call, results

FACT = "the staging password is kept in vault 17"
RULES = ContextRules(answer_room=40, summarize=True)


class Small(ScriptedProvider):
    """A model that counts words, in a small window. Asked for notes, it says `notes`."""

    def __init__(self, *, window: int = 400, notes: str = "they spoke of many things", parameters: int = 0) -> None:
        super().__init__("scripted", {"model": self._say})
        self.window = window
        self.notes = notes
        self.parameters = parameters or None
        self.is_away = False
        self.says: list[Sequence[Item]] = []

    def _say(self, request: StepRequest) -> Sequence[Any]:
        if is_for_notes(request):
            if self.is_away:
                raise ProviderUnavailable("it is away")
            return [TextDelta(self.notes), StepFinished(StepEnd.STOP)]
        return self.says.pop(0) if self.says else [TextDelta("fine"), StepFinished(StepEnd.STOP)]

    async def describe(self, model: str) -> ModelProfile:
        can = Capabilities(native_tools=True, tokenize=True)
        return ModelProfile(self.name, model, self.window, can, self.parameters)

    @property
    def asked_for_notes(self) -> list[str]:
        return [request.messages[-1].text for request in self.requests if is_for_notes(request)]

    @property
    def conversation(self) -> list[StepRequest]:
        return [request for request in self.requests if not is_for_notes(request)]


def is_for_notes(request: StepRequest) -> bool:
    return request.messages[0].text.startswith("You keep the notes")


def bench_of(provider: Small, store: Any = None, rules: ContextRules = RULES, **settings: Any) -> Bench:
    store = store or MemoryStore()
    tools = Registry()
    tools.add("history", HistoryTools(lambda: store))
    return Bench(provider=provider, store=store, tools=tools, settings={"rules": rules, **settings})  # type: ignore[arg-type]


async def talk(bench: Bench, count: int, *, session: str = "", first: str = "q0 begin") -> tuple[str, list[Event]]:
    events: list[Event] = []
    for number in range(count):
        text = first if number == 0 else f"q{number} " + "word " * 19
        events += await bench.run(text, session=session)
        session = events[0].session
    return session, events


def offers_search(request: StepRequest) -> bool:
    return any(tool.name == "history__search" for tool in request.tools)


def first_words(request: StepRequest) -> str:
    return next(message.text for message in request.messages if isinstance(message, UserMessage))


async def test_earlier_turns_become_notes_before_the_window_is_full_and_the_user_is_told():
    provider = Small()
    _, events = await talk(bench_of(provider), 20)
    assert any("became notes" in status.text for status in bodies(events, Status))
    largest = max(sum(len(m.text.split()) + 3 for m in request.messages) for request in provider.conversation)
    assert largest <= 360 * 0.9
    assert "they spoke of many things" in first_words(provider.conversation[-1])


async def test_the_prompt_moves_with_a_compaction_and_at_no_other_time():
    provider = Small()
    bench = bench_of(provider)
    _, events = await talk(bench, 40)
    compactions = sum("became notes" in status.text for status in bodies(events, Status))
    moved = 0
    for before, after in zip(provider.conversation, provider.conversation[1:], strict=False):
        same_tools = before.tools == after.tools
        moved += not (same_tools and after.messages[: len(before.messages)] == before.messages)
    assert 0 < moved == compactions


async def test_a_compaction_begins_within_the_turn_and_is_told_before_and_after_it():
    provider = Small()
    _, events = await talk(bench_of(provider), 20)
    told = [event for event in events if isinstance(event.body, Status)]
    assert told and len(told) % 2 == 0
    for begun, done in zip(told[::2], told[1::2], strict=True):
        assert re.fullmatch(r"the window is nearly full: folding \d+ earlier turns? into notes …", begun.body.text)
        assert begun.turn == done.turn and begun.body.text.split()[6] == done.body.text.split()[0]
        kinds = [type(event.body) for event in events if event.turn == begun.turn][:4]
        assert kinds == [TurnStarted, Status, Status, StepStarted]


class Slow(Small):
    """Writes its notes when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.may_answer = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def stream(self, request: StepRequest, relay: Any = None):
        if is_for_notes(request):
            self.asked.set()
            await self.may_answer.wait()
        async with super().stream(request, relay) as batches:
            yield batches


async def test_the_user_sees_that_it_begins_and_can_stop_it():
    provider = Slow()
    bench = bench_of(provider)
    session, _ = await talk(bench, 1)
    seen: list[Event] = []

    async def ask() -> None:
        async with bench.engine.turn(bench.request("q " + "word " * 19, session=session)) as batches:
            async for batch in batches:
                seen.extend(batch)

    while not provider.asked.is_set():
        seen.clear()
        asking = asyncio.create_task(ask())
        waiting = asyncio.create_task(provider.asked.wait())
        async with asyncio.timeout(10):
            await asyncio.wait((asking, waiting), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
    assert [type(event.body) for event in seen] == [TurnStarted, Status] and "folding" in seen[1].body.text
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    turns = await bench.store.list_turns(session)
    assert turns[-1].end is TurnEnd.CANCELLED
    assert (await find_summary(bench.store, session)).upto == 0
    provider.may_answer.set()
    events = await bench.run("go on", session=session)
    assert any("became notes" in status.text for status in bodies(events, Status))
    assert "they spoke of many things" in first_words(provider.conversation[-1])


async def test_the_time_for_notes_is_that_of_the_turn():
    provider = Small()
    bench = bench_of(provider)
    session = ""
    for number in range(15):
        events = await bench.run(f"q{number} " + "word " * 19, session=session, limits={"wall_s": 5})
        session = events[0].session
    deadlines = [request.deadline_s for request in provider.requests if is_for_notes(request)]
    assert deadlines and max(deadlines) <= 5


async def test_the_message_that_is_stored_at_the_start_is_the_one_that_is_sent():
    provider, store = Small(), MemoryStore()

    async def find_background(request: TurnRequest) -> Background:
        return Background(memory="the user likes tea")

    bench = bench_of(provider, store, find_background=find_background)
    session = ""
    for number in range(20):
        events = await bench.run(f"q{number} " + "word " * 19, session=session, memory=True)
        session = events[0].session
        started = next(event.body for event in events if isinstance(event.body, TurnStarted))
        assert started.input[-1].text == provider.conversation[-1].messages[-1].text


async def test_the_tool_that_searches_is_offered_from_the_first_compaction_on():
    provider = Small()
    await talk(bench_of(provider), 20)
    is_compacted = ["[earlier summary]" in first_words(request) for request in provider.conversation]
    assert is_compacted == [offers_search(request) for request in provider.conversation]
    assert is_compacted == sorted(is_compacted) and len(set(is_compacted)) == 2


async def test_the_turn_that_is_compacted_tells_the_model_again_what_left_with_the_others():
    provider, store = Small(), MemoryStore()

    async def find_background(request: TurnRequest) -> Background:
        return Background(memory="the user likes tea", project="src/app/main.py")

    bench = bench_of(provider, store, find_background=find_background)
    session = ""
    for number in range(20):
        events = await bench.run(
            f"q{number} " + "word " * 15, session=session, mode=Mode.AUTO, memory=True, project=True
        )
        session = events[0].session
    assert any("[earlier summary]" in first_words(request) for request in provider.conversation)
    for request in provider.conversation:
        sent = "".join(message.text for message in request.messages)
        assert [sent.count(note) for note in ("[aish: auto mode", "likes tea", "src/app/main.py")] == [1, 1, 1]
    asked = "".join(provider.asked_for_notes)
    assert "likes tea" not in asked and "src/app/main.py" not in asked and "auto mode" not in asked


async def test_a_fact_that_the_notes_forgot_is_found_in_the_history():
    provider = Small(notes="nothing of note")
    bench = bench_of(provider)
    session, _ = await talk(bench, 15, first=f"q0 {FACT}, remember that for later")
    assert FACT not in "".join(message.text for message in provider.conversation[-1].messages[1:])
    provider.says = [[call("history__search", '{"query": "staging vault"}')]]
    events = await bench.run("where is the staging password?", session=session)
    assert FACT in text_of(results(events)[0].parts) and "turn 1" in text_of(results(events)[0].parts)


async def test_one_turn_is_read_whole_and_a_turn_that_does_not_exist_is_an_error():
    provider = Small()
    bench = bench_of(provider)
    session, _ = await talk(bench, 15, first=f"q0 {FACT}")
    provider.says = [[call("history__search", '{"turn": 1}')], [call("history__search", '{"turn": 99}')]]
    events = await bench.run("read it", session=session)
    assert text_of(results(events)[0].parts) == f"user: q0 {FACT}\n\nassistant: fine"
    assert "no turn 99" in text_of(results(events)[1].parts)


async def test_a_search_reads_no_other_session():
    provider = Small()
    bench = bench_of(provider)
    await talk(bench, 2, first=f"q0 {FACT}")
    session, _ = await talk(bench, 15)
    provider.says = [[call("history__search", '{"query": "vault"}')]]
    events = await bench.run("where?", session=session)
    assert text_of(results(events)[0].parts) == "nothing was found"


async def test_what_was_rewound_is_neither_in_the_notes_nor_found():
    provider = Small()
    bench = bench_of(provider)
    session, _ = await talk(bench, 1)
    await bench.run(FACT, session=session)
    await talk(bench, 14, session=session, first="q1 and then")
    assert "[earlier summary]" in first_words(provider.conversation[-1])
    await bench.engine.rewinds.rewind(session, "2", RewindScope.CONVERSATION)
    await talk(bench, 1, session=session, first="q2 once more")
    sent = [message.text for message in provider.conversation[-1].messages]
    assert sent == ["q0 begin", "fine", "q2 once more"]
    await talk(bench, 20, session=session, first="q3 on")
    provider.says = [[call("history__search", '{"query": "vault"}')], [call("history__search", '{"turn": 2}')]]
    found, turn = results(await bench.run("where?", session=session))
    assert text_of(found.parts) == "nothing was found" and "there is no turn 2" in text_of(turn.parts)


async def test_goal_and_files_are_kept_whatever_the_model_writes():
    provider = Small(notes="bla")
    bench = bench_of(provider)
    await talk(bench, 25, first="q0 port src/app/main.py to asyncio, see docs/plan.md")
    notes = first_words(provider.conversation[-1])
    assert "The user began with: q0 port src/app/main.py" in notes
    assert "Files that were spoken of: src/app/main.py, docs/plan.md" in notes


@pytest.mark.parametrize("notes", ["", "User: Read. " * 200])
async def test_notes_that_cannot_be_used_are_replaced_by_what_the_user_said(notes):
    provider = Small(notes=notes)
    bench = bench_of(provider)
    session, _ = await talk(bench, 4, first=f"q0 {FACT}")
    await bench.engine.compact(bench.request(session=session))
    await bench.run("and now", session=session)
    notes = first_words(provider.conversation[-1])
    assert f"User: q0 {FACT}\nUser: q1 word" in notes and "Read. User" not in notes


async def test_calls_that_were_not_finished_are_kept():
    provider = Small(notes="bla")
    bench = bench_of(provider)
    provider.says = [[TextDelta("I begin."), call("client__build", '{"target": "all"}')]]
    from aish.types.tools import Effect, ToolSpec

    build = ToolSpec("client__build", "builds", {"type": "object"}, Effect.EXEC, "client")
    events = await bench.run("q0 build it", client_tools=(build,))
    session = events[0].session
    await talk(bench, 4, session=session)
    await bench.engine.compact(bench.request(session=session))
    await bench.run("and?", session=session)
    assert 'Calls that were not finished: client__build {"target": "all"}' in first_words(provider.conversation[-1])


async def test_all_that_is_compacted_is_shown_to_the_model_in_pieces_that_fit():
    provider = Small(window=1200)
    bench = bench_of(provider, rules=ContextRules(answer_room=40, summarize=True))
    session = ""
    for number in range(12):
        events = await bench.run(f"fact{number} " + "word " * 60, session=session)
        session = events[0].session
    await bench.engine.compact(bench.request(session=session))
    asked = provider.asked_for_notes
    assert len(asked) > 1 and all(len(text) <= 1200 + 400 for text in asked)
    assert all(any(f"fact{number} " in text for text in asked) for number in range(11))


async def test_the_user_says_what_to_keep():
    provider = Small()
    bench = bench_of(provider)
    session, _ = await talk(bench, 4)
    assert await bench.engine.compact(bench.request(session=session), "the names of hosts") == 3
    assert "The user wants this to be kept: the names of hosts" in provider.asked_for_notes[0]


async def test_the_last_turn_stays_as_it_is():
    provider = Small()
    bench = bench_of(provider)
    session, _ = await talk(bench, 4)
    await bench.engine.compact(bench.request(session=session))
    await bench.run("and now", session=session)
    texts = [message.text for message in provider.conversation[-1].messages]
    assert "q3 word" in texts[0] and texts[1:] == ["fine", "and now"]


async def test_notes_survive_a_restart(tmp_path):
    first = bench_of(Small(), SqliteStore(tmp_path / "aish.db"))
    session, _ = await talk(first, 6)
    await first.engine.compact(first.request(session=session))
    await first.store.aclose()
    provider = Small()
    second = bench_of(provider, SqliteStore(tmp_path / "aish.db"), ContextRules(answer_room=40))
    await second.run("and now", session=session)
    assert "they spoke of many things" in first_words(provider.conversation[-1])
    assert offers_search(provider.conversation[-1])
    assert len(await second.engine.history(session)) == 14  # all of it is still there
    await second.store.aclose()


async def test_a_compaction_that_fails_changes_nothing():
    provider = Small()
    bench = bench_of(provider)
    session, _ = await talk(bench, 4)
    before = await bench.engine.view_context(bench.request(session=session))

    provider.is_away = True
    with pytest.raises(ProviderUnavailable):
        await bench.engine.compact(bench.request(session=session))
    assert await bench.engine.view_context(bench.request(session=session)) == before


async def test_notes_of_turns_that_are_gone_are_not_used():
    provider = Small()
    bench = bench_of(provider)
    session, _ = await talk(bench, 3)
    from aish.types.records import Document

    stale = b'{"upto":9,"text":"of another time"}'
    await bench.store.put(Document("summary", session, stale))
    await bench.run("and now", session=session)
    assert "of another time" not in first_words(provider.conversation[-1])


async def test_the_smallest_models_write_no_notes_unless_one_is_named_for_it():
    provider = Small(parameters=135_000_000)
    await talk(bench_of(provider), 20)
    assert provider.asked_for_notes == []


async def test_a_session_without_turns_has_nothing_to_compact():
    bench = bench_of(Small())
    session, _ = await talk(bench, 1)
    async with asyncio.timeout(5):
        assert await bench.engine.compact(bench.request(session=session)) == 1
        assert await bench.engine.compact(bench.request(session=session)) == 0


async def test_what_a_compaction_costs_is_booked_as_a_summary():
    bench = bench_of(Small())
    session, _ = await talk(bench, 4)
    await bench.engine.compact(bench.request(session=session))
    assert Category.SUMMARIZE in {row.category for row in await bench.store.list_spent(session=session)}


async def test_the_key_that_pays_for_a_turn_pays_for_its_notes():
    provider = Small()
    bench = bench_of(provider)
    payer = KeyBudget("key_a", tokens_per_day=1_000_000)
    events: list[Event] = []
    for _ in range(20):
        events += await bench.run("word " * 20, session=events[0].session if events else "", payer=payer)
    assert provider.asked_for_notes
    answered = sum(report.usage.total_tokens for report in bodies(events, UsageReported))
    assert (await bench.engine.ledger.keys.today("key_a")).tokens > answered


def test_an_empty_summary_says_nothing():
    assert Summary().notes(offers_search=True) == ""
