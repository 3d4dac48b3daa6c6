"""Who listens hears words as they come, past whoever reads the batches; both together are the turn, in one order."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish.engine.engine import flatten
from aish.engine.model.selection import Routing
from aish.engine.model.stream_assembly import LOOP_CHARS
from aish.errors import ProviderUnavailable
from aish.providers.scripted import ScriptedProvider
from aish.types.events import Event, TextDelta, ToolResult, TurnEnd, TurnFinished, decode_event
from aish.types.messages import AssistantMessage
from support.engines import Bench, Tools, bodies, call, finish, said

WORDS = ["Once ", "upon ", "a ", "time ", "there ", "was ", "one."]


class Ear:
    """Ready as `answers` say, one after the other; then always."""

    def __init__(self, *answers: bool) -> None:
        self._answers = list(answers)
        self.heard: list[str] = []

    def is_open(self) -> bool:
        return self._answers.pop(0) if self._answers else True

    def write(self, text: str) -> None:
        self.heard.append(text)


async def listened(bench: Bench, ear: Ear, **fields: object) -> list[Event]:
    """What came in batches."""
    request = bench.request(**{"stream": True, **fields})
    async with asyncio.timeout(20), bench.engine.turn(request, text_sink=ear) as batches:
        return [event async for event in flatten(batches)]


def text_of(events: list[Event]) -> str:
    return "".join(delta.text for delta in bodies(events, TextDelta))


async def test_words_after_the_first_are_heard_and_are_in_no_batch():
    ear = Ear()
    came = await listened(Bench([TextDelta(word) for word in WORDS]), ear)
    assert text_of(came) == WORDS[0]
    assert "".join(ear.heard) == "".join(WORDS[1:])
    assert finish(came).reason is TurnEnd.ANSWERED


@given(st.lists(st.booleans(), max_size=10))
async def test_however_ready_one_is_the_turn_is_the_same(answers: list[bool]):
    bench, ear = Bench([TextDelta(word) for word in WORDS]), Ear(*answers)
    came = await listened(bench, ear, session="sess_1", may_be_new=True)
    recorded = [decode_event(line) for line in (await bench.recorded(came)).splitlines()]
    assert [event.seq for event in recorded] == list(range(1, len(recorded) + 1))
    assert text_of(recorded) == "".join(WORDS)
    assert [event for event in recorded if event not in came] == [
        event for event in recorded if isinstance(event.body, TextDelta) and event.body.text in ear.heard
    ]
    history = await bench.engine.history("sess_1")
    assert history[-1] == AssistantMessage("".join(WORDS))


async def test_words_between_tools_are_heard_too_in_their_place():
    async def done(arguments: object, context: object) -> object:
        order.append("".join(ear.heard))
        return said("done")

    order: list[str] = []
    ear = Ear()
    steps = [TextDelta("I "), TextDelta("look. "), call("t__look")], [TextDelta("It "), TextDelta("is done.")]
    came = await listened(Bench(*steps, tools=Tools().add("t__look", done)), ear)
    assert order == ["look. "]
    assert "".join(ear.heard) == "look. is done." and text_of(came) == "I It "
    assert [type(event.body) for event in came if isinstance(event.body, ToolResult | TurnFinished)] == [
        ToolResult,
        TurnFinished,
    ]


@pytest.mark.parametrize(
    ("fields", "settings"), [({"stream": False}, {}), ({}, {"write_through": True})], ids=["whole", "written first"]
)
async def test_nothing_is_heard_where_nobody_watches_or_where_words_are_written_before_they_are_shown(fields, settings):
    ear = Ear()
    came = await listened(Bench([TextDelta(word) for word in WORDS], settings=settings), ear, **fields)
    assert ear.heard == [] and text_of(came) == "".join(WORDS)


async def test_the_words_of_a_model_that_stands_in_for_another_are_heard_too():
    broken = ScriptedProvider("scripted", {"model": lambda request: [ProviderUnavailable("gone")]})
    spare = ScriptedProvider("spare", {"model": lambda request: [TextDelta(word) for word in WORDS]})
    settings, ear = {"routing": Routing(fallback="spare:model")}, Ear()
    came = await listened(Bench(provider=broken, others=[spare], settings=settings), ear, may_fall_back=True)
    assert text_of(came) == WORDS[0] and "".join(ear.heard) == "".join(WORDS[1:])


async def test_an_answer_that_is_repetitive_is_cut_though_nobody_reads_it_by_batches():
    ear = Ear()
    came = await listened(Bench([TextDelta("and so on, ")] * 100_000), ear)
    assert finish(came).reason is TurnEnd.LENGTH and "over and over" in finish(came).detail
    assert LOOP_CHARS <= len(text_of(came) + "".join(ear.heard)) <= LOOP_CHARS + 2000


async def test_who_cannot_hear_ends_the_turn_and_not_the_engine():
    class Deaf(Ear):
        def write(self, text: str) -> None:
            raise ZeroDivisionError

    bench = Bench([TextDelta(word) for word in WORDS])
    with pytest.raises(ZeroDivisionError):
        await listened(bench, Deaf(), session="sess_1", may_be_new=True)
    (turn,) = await bench.store.list_turns("sess_1")
    assert turn.end is TurnEnd.FAILED
