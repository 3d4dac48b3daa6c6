"""The model is told the mode in the newest message of the user, and only when it changes."""

from __future__ import annotations

from aish.types.decisions import Mode
from aish.types.events import TextDelta
from support.engines import Bench

SAY = [TextDelta("ok")]


def last_text(bench: Bench, number: int) -> str:
    return bench.scripted.requests[number].messages[-1].text


async def test_a_change_of_mode_is_told_once_and_its_end_too():
    bench = Bench(*[SAY] * 5)
    session = ""
    for mode in (Mode.ASK, Mode.PLAN, Mode.PLAN, Mode.EDITS, Mode.ASK):
        session = (await bench.run("hello", session=session, mode=mode))[0].session
    told = [last_text(bench, number) for number in range(5)]
    assert [text.startswith("hello") for text in told] == [True] * 5
    notes = [text.partition("[aish: ")[2].partition(" ")[0] for text in told]
    assert notes == ["", "plan", "", "edits", "ask"]
    assert "plan" in told[1] and "approves" in told[1]


async def test_the_system_message_and_what_was_sent_before_stay_as_they_were():
    bench = Bench(*[SAY] * 3)
    session = ""
    for mode in (Mode.AUTO, Mode.ASK, Mode.PLAN):
        session = (await bench.run("hello", session=session, mode=mode, system="be brief"))[0].session
    first, second, third = (bench.scripted.requests[number].messages for number in range(3))
    assert second[: len(first)] == first and third[: len(second)] == second


async def test_a_request_that_names_no_mode_is_sent_as_it_is():
    bench = Bench(SAY)
    await bench.run("hello")
    assert last_text(bench, 0) == "hello"
