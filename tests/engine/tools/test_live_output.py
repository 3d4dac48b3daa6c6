"""What a running tool prints: shown as it comes, without secrets, in bounded amounts, and not recorded."""

from __future__ import annotations

import asyncio

import pytest

from aish.engine.engine import flatten
from aish.engine.tools import executor
from aish.engine.tools.executor import OutputRelay
from aish.safety.redaction.redactor import Redactor
from aish.types.chunks import CallFragment
from aish.types.events import Event, TextDelta, ToolOutputDelta, TurnFinished, decode_event, encode_event
from support.engines import Bench, Tools, bodies, call, results, said
from support.eventually import eventually

DONE = [TextDelta("ok")]


class Printing:
    """A tool that prints, and ends when that has been seen."""

    def __init__(self, *texts: str) -> None:
        self.texts = texts
        self.seen = asyncio.Event()

    async def __call__(self, arguments, context):
        for text in self.texts:
            context.output(text)
        await asyncio.wait_for(self.seen.wait(), 10)
        return said("".join(self.texts))


async def watch(bench: Bench, printing: Printing, **fields) -> list[Event]:
    events = []
    async with asyncio.timeout(20), bench.engine.turn(bench.request(**fields)) as batches:
        async for event in flatten(batches):
            events.append(event)
            if isinstance(event.body, ToolOutputDelta):
                printing.seen.set()
    return events


@pytest.mark.parametrize("write_through", [True, False])
async def test_it_is_passed_on_while_the_tool_runs_and_is_in_no_record(write_through):
    printing = Printing("one\n", "two\nhalf a li")
    bench = Bench([call("t__x")], DONE, tools=Tools().add("t__x", printing), settings={"write_through": write_through})
    events = await watch(bench, printing, live_output=True)
    [delta] = bodies(events, ToolOutputDelta)
    assert delta == ToolOutputDelta("one\ntwo\n")
    recorded = [decode_event(line) for line in (await bench.recorded(events)).splitlines()]
    assert recorded == [event for event in events if not isinstance(event.body, ToolOutputDelta)]
    assert [event.seq for event in recorded] == list(range(1, len(recorded) + 1))
    assert isinstance(events[-1].body, TurnFinished) and results(events)[0].parts[0].text.endswith("half a li")


async def test_parallel_calls_are_told_apart():
    printing = Printing("text\n")
    tools = Tools().add("t__x", printing).add("t__y", printing)
    fragments: list[CallFragment] = [call("t__x", id="a"), call("t__y", index=1, id="b")]
    events = await watch(Bench(fragments, DONE, tools=tools), printing, live_output=True)
    shown = {event.call for event in events if isinstance(event.body, ToolOutputDelta)}
    assert shown and shown <= {event.call for event in events if event.call}


async def test_where_no_one_watches_nothing_is_passed_on():
    printing = Printing("text\n")
    printing.seen.set()
    bench = Bench([call("t__x")], DONE, tools=Tools().add("t__x", printing))
    assert bodies(await watch(bench, printing), ToolOutputDelta) == []


async def test_known_secrets_are_taken_out_even_if_they_came_in_pieces():
    printing = Printing("key sk-sec", "ret-123\n")
    bench = Bench([call("t__x")], DONE, tools=Tools().add("t__x", printing), redactor=Redactor(["sk-secret-123"]))
    events = await watch(bench, printing, live_output=True)
    assert bodies(events, ToolOutputDelta) == [ToolOutputDelta("key [redacted]\n")]


async def test_much_output_is_shown_by_its_end_in_bounded_memory():
    sent: list[tuple[str, int]] = []
    relay = OutputRelay(lambda text, left_out: sent.append((text, left_out)), str)
    line = "x" * 99 + "\n"
    for _ in range(10_000):
        relay.add(line)
        assert len(relay._text) <= 64 * 1024
    await eventually(lambda: len(sent) == 1)
    for _ in range(10_000):
        relay.add(line)
        assert len(relay._text) <= 1024
    await eventually(lambda: len(sent) == 2)
    assert [len(text) + left_out for text, left_out in sent] == [1_000_000, 1_000_000]
    assert len(sent[0][0]) > 64 * 1024 - 200 and len(sent[1][0]) <= 1024
    relay.close()


async def test_a_line_that_never_ends_is_shown_in_parts_and_nothing_comes_after_the_end(monkeypatch):
    monkeypatch.setattr(executor, "_OUTPUT_PAUSE_S", 0.001)
    sent: list[str] = []
    relay = OutputRelay(lambda text, left_out: sent.append(text), str)
    relay.add("." * 5000)
    await eventually(lambda: sent == ["." * 5000])
    relay.add("late\n")
    relay.close()
    await asyncio.sleep(0)
    assert relay._timer is not None and relay._timer.cancelled() and len(sent) == 1


def test_it_is_one_line_of_json():
    event = Event("s", "t", 3, 4, ToolOutputDelta("a\n", 7), 1, "c")
    assert decode_event(encode_event(event)) == event and b'"tool_output"' in encode_event(event)
