from __future__ import annotations

import msgspec
import pytest

from aish.errors import SessionBusy
from aish.types.events import DecisionMade, TextDelta, TurnEnd, TurnFinished, decode_event, encode_event
from aish.types.messages import AssistantMessage, ToolMessage
from aish.types.records import SessionRecord, TurnRecord
from aish.types.tools import ResultStatus
from support.engines import Bench, Tools, call


async def leave_behind(bench: Bench, keep, owner: str = "host/dead/1") -> str:
    """A turn as a process killed after the events that `keep` accepts would have left it."""
    source = Bench([TextDelta("first "), call("t__x", id="c1")], [TextDelta("done")], tools=Tools().add("t__x"))
    events = await source.run("go")
    session, turn = events[0].session, events[0].turn
    await bench.store.create_session(SessionRecord(session, 1, 1))
    record = TurnRecord(turn, session, 0, "m", 1, events[0].body.input, owner=owner)
    await bench.store.start_turn(record)
    for event in events:
        bench.store.append_events(turn, event.seq, event.seq, encode_event(event) + b"\n")
        if keep(event):
            break
    return session


async def test_a_turn_whose_process_died_in_a_call_is_closed_with_a_result_that_does_not_lie():
    bench = Bench([TextDelta("x")], tools=Tools().add("t__x"))
    session = await leave_behind(bench, lambda event: isinstance(event.body, DecisionMade))
    history = await bench.engine.history(session)
    assert [type(message) for message in history[1:]] == [AssistantMessage, ToolMessage, AssistantMessage]
    assert "may or may not" in history[2].text
    (turn,) = await bench.store.list_turns(session)
    assert turn.end is TurnEnd.INTERRUPTED
    lines = (await bench.store.read_events(turn.id)).splitlines()
    events = [decode_event(line) for line in lines]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert isinstance(events[-1].body, TurnFinished)
    assert events[-2].body.status is ResultStatus.INTERRUPTED


async def test_text_that_was_said_before_the_process_died_is_kept():
    bench = Bench([TextDelta("x")])
    session = await leave_behind(bench, lambda event: isinstance(event.body, TextDelta))
    assert (await bench.engine.history(session))[-1] == AssistantMessage("first ")


async def test_closing_twice_changes_nothing():
    bench = Bench([TextDelta("x")])
    session = await leave_behind(bench, lambda event: event.seq == 4)
    first = await bench.engine.history(session)
    assert await bench.engine.history(session) == first


async def test_a_turn_that_another_living_process_runs_is_left_alone():
    bench = Bench([TextDelta("x")])
    session = await leave_behind(bench, lambda event: event.seq == 3, owner="host/alive/1")
    with pytest.raises(SessionBusy):
        await bench.run(session=session)
    (turn,) = await bench.store.list_turns(session)
    assert turn.end is None


async def test_a_turn_that_recorded_nothing_leaves_nothing():
    bench = Bench([TextDelta("hello")])
    await bench.store.create_session(SessionRecord("sess_x", 1, 1))
    record = TurnRecord("turn_x", "sess_x", 0, "m", 1, (), owner="host/dead/1")
    await bench.store.start_turn(msgspec.structs.replace(record))
    assert await bench.engine.history("sess_x") == ()
