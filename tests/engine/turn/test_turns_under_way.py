"""What of a turn is in the store while it is under way."""

from __future__ import annotations

import asyncio

import pytest

from aish.engine.engine import flatten
from aish.engine.turn.events import record_from_events
from aish.errors import StoreError
from aish.types.events import StepStarted, TextDelta, TurnFinished, TurnStarted, decode_event
from support.engines import Bench
from support.eventually import eventually


async def kinds(bench: Bench, turn: str) -> list[type]:
    return [type(decode_event(line).body) for line in (await bench.store.read_events(turn)).splitlines()]


@pytest.mark.parametrize("kept", [True, False])
async def test_what_a_model_said_before_it_fell_silent_is_soon_in_the_store(kept):
    bench = Bench([TextDelta("half"), 30.0])
    async with bench.engine.turn(bench.request(kept=kept)) as batches:
        async for event in flatten(batches):
            if isinstance(event.body, TextDelta):
                break
        turn = event.turn
        seen = [TurnStarted, StepStarted, TextDelta]
        await eventually(lambda: _are(bench, turn, seen))
        assert (await bench.store.find_turn(turn)).end is None
    assert (await kinds(bench, turn))[-1] is TurnFinished


async def _are(bench: Bench, turn: str, wanted: list[type]) -> bool:
    return await kinds(bench, turn) == wanted


async def test_whoever_asks_for_it_sees_a_turn_under_way_at_once():
    bench = Bench([TextDelta("half"), 30.0])
    async with bench.engine.turn(bench.request(kept=False)) as batches:
        async for event in flatten(batches):
            if isinstance(event.body, TextDelta):
                break
        assert await bench.store.find_turn(event.turn) is None
        bench.engine.flush_running_turns()
        assert await kinds(bench, event.turn) == [TurnStarted, StepStarted, TextDelta]
        lines = (await bench.store.read_events(event.turn)).splitlines()
        told = record_from_events(lines, await bench.store.find_turn(event.turn))
        assert (told.input, told.messages[-1].text) == (bench.request(kept=False).input, "half")
    assert (await kinds(bench, event.turn))[-1] is TurnFinished


async def test_many_turns_at_once_are_each_recorded_whole():
    bench = Bench(*[[TextDelta("one "), 0.05, TextDelta("two "), 0.3, TextDelta("three")] for _ in range(12)])
    turns = await asyncio.gather(*[bench.run(kept=False) for _ in range(12)])
    for events in turns:
        recorded = await bench.recorded(events)
        assert [decode_event(line) for line in recorded.splitlines()] == events


async def test_what_was_heard_while_the_store_failed_is_written_once_it_does_not(monkeypatch):
    class Ear:
        def is_open(self):
            return True

        def write(self, text):
            pass

    def fail(*given):
        tried.set()
        raise StoreError("full")

    tried = asyncio.Event()
    bench = Bench([TextDelta("one "), TextDelta("two "), 30.0])
    monkeypatch.setattr(bench.store, "append_events", fail)
    async with bench.engine.turn(bench.request(kept=False, stream=True), text_sink=Ear()) as batches:
        first, _ = await anext(batches), await anext(batches)
        waiting = asyncio.ensure_future(anext(batches))  # while the second word is heard
        async with asyncio.timeout(10):
            await tried.wait()
        monkeypatch.undo()
        turn = first[0].turn
        await eventually(lambda: _are(bench, turn, [TurnStarted, StepStarted, TextDelta, TextDelta]))
        waiting.cancel()
        await asyncio.wait({waiting}, timeout=10)
