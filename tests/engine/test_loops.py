"""A model that says the same thing over and over is cut; one that says much is not."""

from __future__ import annotations

import random

from aish.engine.loops import LOOP_CHARS, goes_round
from aish.types.chunks import StepEnd, StepFinished
from aish.types.events import TextDelta, TurnEnd
from support.engines import Bench, bodies, finish


def test_one_piece_repeated_to_the_letter_goes_round():
    assert goes_round("Well. " + "The maximum is 22. " * 400)
    assert goes_round("x" * 10_000)


def test_what_differs_now_and_then_does_not():
    rng = random.Random(1)
    assert not goes_round("The maximum is 22. " * 20)
    assert not goes_round(" ".join(f"row {n}: {rng.random()}" for n in range(1000)))
    assert not goes_round("\n".join(f"| {n} | 0 | 0 | 0 |" for n in range(1000)))
    assert not goes_round("a" * (LOOP_CHARS - 1))


async def test_an_answer_that_goes_round_ends_and_what_was_said_is_kept():
    endless = [TextDelta("and so on, ")] * 100_000
    bench = Bench([*endless, StepFinished(StepEnd.STOP)])
    events = await bench.run("go")
    said = sum(len(delta.text) for delta in bodies(events, TextDelta))
    assert LOOP_CHARS <= said <= LOOP_CHARS + 2000
    assert finish(events).reason is TurnEnd.LENGTH
