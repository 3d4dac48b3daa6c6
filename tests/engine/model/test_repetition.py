"""A model that says the same thing over and over is cut; one that says much is not."""

from __future__ import annotations

import random

from aish.engine.model.stream_assembly import LOOP_CHARS, WEAK_LOOP_CHARS, is_repetitive
from aish.providers.scripted import ScriptedProvider
from aish.types.chunks import Chunk, StepEnd, StepFinished
from aish.types.events import TextDelta, TurnEnd
from aish.types.models import ModelProfile
from aish.types.requests import StepRequest
from support.engines import Bench, bodies, finish


def test_one_piece_repeated_to_the_letter_is_repetitive():
    assert is_repetitive("Well. " + "The maximum is 22. " * 400)
    assert is_repetitive("x" * 10_000)


def test_what_differs_now_and_then_does_not():
    rng = random.Random(1)
    assert not is_repetitive("The maximum is 22. " * 20)
    assert not is_repetitive(" ".join(f"row {n}: {rng.random()}" for n in range(1000)))
    assert not is_repetitive("\n".join(f"| {n} | 0 | 0 | 0 |" for n in range(1000)))
    assert not is_repetitive("a" * (WEAK_LOOP_CHARS - 1))


async def test_an_answer_that_is_repetitive_ends_and_what_was_said_is_kept():
    class Weak(ScriptedProvider):
        async def describe(self, model: str) -> ModelProfile:
            return ModelProfile(self.name, model, 8192, parameters=135_000_000)

    endless = [TextDelta("and so on, ")] * 100_000
    weak = Weak("scripted", {"model": lambda request: [*endless, StepFinished(StepEnd.STOP)]})
    for provider, most in ((weak, WEAK_LOOP_CHARS), (None, LOOP_CHARS)):
        bench = Bench([*endless, StepFinished(StepEnd.STOP)], provider=provider)
        events = await bench.run("go")
        said = sum(len(delta.text) for delta in bodies(events, TextDelta))
        assert most <= said <= most + 2000
        assert finish(events).reason is TurnEnd.LENGTH and "over and over" in finish(events).detail


async def test_a_model_that_is_not_weak_may_write_pages_of_the_same_row():
    bench = Bench([TextDelta("0,0,0,0\n")] * 2000 + [StepFinished(StepEnd.STOP)])
    events = await bench.run("two thousand rows, please")
    assert finish(events).reason is TurnEnd.ANSWERED
    assert sum(len(delta.text) for delta in bodies(events, TextDelta)) == 16_000


async def test_a_weak_model_is_watched_for_it_though_its_asker_waits_for_the_whole():
    asked: list[bool] = []

    class Answering(ScriptedProvider):
        parameters: int | None = None

        async def describe(self, model: str) -> ModelProfile:
            return ModelProfile(self.name, model, 8192, parameters=self.parameters)

    def answered(request: StepRequest) -> list[Chunk]:
        asked.append(request.stream)
        return [TextDelta("well"), StepFinished(StepEnd.STOP)]

    for parameters in (135_000_000, 7_000_000_000, None):
        provider = Answering("scripted", {"model": answered})
        provider.parameters = parameters
        await Bench([], provider=provider).run("go", stream=False)
    assert asked == [True, False, False]
