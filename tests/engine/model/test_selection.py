"""Which model answers: by kind of question, and what is asked instead when one cannot be reached."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from aish.engine.model.ledger import Caps, Prices
from aish.engine.model.question_classifier import classify_question
from aish.engine.model.selection import Routing
from aish.errors import ProviderBusy, ProviderRejected, ProviderTimeout, ProviderUnavailable
from aish.providers.scripted import ScriptedProvider
from aish.types.chunks import StepEnd, StepFinished, UsageChunk
from aish.types.events import Failed, Status, TextDelta, TurnEnd, TurnStarted, UsageReported
from aish.types.models import ModelProfile, Preset
from aish.types.usage import Price, Usage
from support.engines import Bench, bodies, finish


def model(name: str, *said: Any) -> ScriptedProvider:
    return ScriptedProvider(name, {"model": lambda request: [*said, StepFinished(StepEnd.STOP)]})


def failing(name: str, error: Exception, *before: Any) -> ScriptedProvider:
    def script(request: Any) -> Any:
        yield from before
        raise error

    return ScriptedProvider(name, {"model": script})


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Traceback (most recent call last):\n  File \"x.py\", line 3\nKeyError: 'a'\nwhat is this", "debug"),
        ("why does this say main.c:12:5: error: expected ';'\nmain.c:12:5: error: expected ';'", "debug"),
        ("make this faster:\n```python\nfor x in y: pass\n```", "code"),
        ("write a python function that parses a regex", "code"),
        ("why is the sky blue?", "reasoning"),
        ("compare the trade-offs of both", "reasoning"),
        ("为什么天是蓝色的", "reasoning"),
        ("hello there", "quick"),
        ("", "quick"),
        ("tell me about the town. " * 300, "long"),
        ("tell me about the town where I grew up and the river that runs past it, the mills and the people there, and "
         "what has become of all of them since then", "plain"),
    ],
)  # fmt: skip
def test_questions_are_sorted_by_their_words(text, kind):
    classified = classify_question(text)
    assert classified.kind == kind
    assert classified.reasons


async def test_a_question_for_nobody_in_particular_goes_to_the_preset_for_its_kind_and_that_is_said():
    presets = {"coder": Preset(model="up:model")}
    routing = Routing(auto=True, classes={"code": "coder"})
    bench = Bench(
        [TextDelta("plain")], others=[model("up", TextDelta("code"))], presets=presets, default="scripted:model",
        settings={"routing": routing},
    )  # fmt: skip
    events = await bench.run("write a python function for a regex", model="")
    assert bodies(events, TurnStarted)[0].model == "up:model"
    assert any("coder: code" in status.text for status in bodies(events, Status))
    assert bodies(await bench.run("hello", model=""), TurnStarted)[0].model == "scripted:model"
    assert bodies(await bench.run("a python regex function", model="scripted:model"), TurnStarted)[0].model == (
        "scripted:model"
    )


TRANSPORT = [ProviderUnavailable("gone"), ProviderTimeout("too slow"), ProviderBusy("busy")]


@pytest.mark.parametrize("error", TRANSPORT, ids=lambda error: type(error).__name__)
async def test_a_model_that_cannot_be_reached_is_replaced_once_and_that_is_said(error):
    bench = Bench(
        provider=failing("scripted", error), others=[model("spare", TextDelta("here"))],
        settings={"routing": Routing(fallback="spare:model")},
    )  # fmt: skip
    events = await bench.run("hello")
    assert "".join(delta.text for delta in bodies(events, TextDelta)) == "here"
    assert any("asking spare:model instead" in status.text for status in bodies(events, Status))
    assert bodies(events, UsageReported)[0].model == "spare:model"
    assert finish(events).reason is TurnEnd.ANSWERED


async def test_a_replacement_that_a_cap_refuses_is_not_booked():
    broken = failing("scripted", ProviderUnavailable("gone"), UsageChunk(Usage(1000, 5)))
    settings = {
        "routing": Routing(fallback="spare:model"),
        "prices": Prices({"spare:model": Price(1_000.0, 10_000.0), "scripted:model": Price(0.0, 0.0)}),
        "caps": Caps(day=0.5),
    }
    bench = Bench(provider=broken, others=[model("spare", TextDelta("here"))], settings=settings)
    events = await bench.run("hello")
    assert finish(events).reason is TurnEnd.COST
    assert bodies(events, UsageReported) == []
    assert (await bench.store.sum_spending()).calls == 0


async def test_never_after_the_first_token():
    broken = failing("scripted", ProviderUnavailable("gone"), TextDelta("half an ans"))
    spare = model("spare", TextDelta("here"))
    bench = Bench(provider=broken, others=[spare], settings={"routing": Routing(fallback="spare:model")})
    events = await bench.run("hello")
    assert finish(events).reason is TurnEnd.FAILED
    assert spare.requests == []


@pytest.mark.parametrize("away", ["when looked up", "when asked"])
async def test_nor_where_the_asker_may_not_use_another(away):
    class Away(ScriptedProvider):
        async def describe(self, model: str) -> ModelProfile:
            raise ProviderUnavailable("gone")

    spare = model("spare", TextDelta("here"))
    broken = failing("scripted", ProviderUnavailable("gone")) if away == "when asked" else Away("scripted", {})
    bench = Bench(provider=broken, others=[spare], settings={"routing": Routing(fallback="spare:model")})
    with contextlib.suppress(ProviderUnavailable):
        assert finish(await bench.run("hello", may_fall_back=False)).reason is TurnEnd.FAILED
    assert spare.requests == []


async def test_a_request_that_is_refused_is_not_tried_elsewhere():
    spare = model("spare", TextDelta("here"))
    bench = Bench(
        provider=failing("scripted", ProviderRejected("bad request")), others=[spare],
        settings={"routing": Routing(fallback="spare:model")},
    )  # fmt: skip
    assert bodies(await bench.run("hello"), Failed)[0].message == "bad request"
    assert spare.requests == []


async def test_a_fallback_that_fails_too_ends_the_turn_with_its_failure():
    bench = Bench(
        provider=failing("scripted", ProviderUnavailable("gone")),
        others=[failing("spare", ProviderUnavailable("gone as well"))],
        settings={"routing": Routing(fallback="spare:model")},
    )
    events = await bench.run("hello")
    assert [failure.message for failure in bodies(events, Failed)] == ["gone as well"]
    assert finish(events).reason is TurnEnd.FAILED


async def test_a_fallback_that_does_not_exist_is_named():
    bench = Bench(
        provider=failing("scripted", ProviderUnavailable("gone")), settings={"routing": Routing(fallback="nowhere")}
    )
    failure = bodies(await bench.run("hello"), Failed)[0]
    assert "gone; and the fallback fails, too: no model named nowhere" in failure.message


async def test_a_backend_that_is_away_already_when_it_is_looked_up_is_replaced_too():
    class Away(ScriptedProvider):
        async def describe(self, model: str) -> ModelProfile:
            raise ProviderUnavailable("nobody listens there")

    bench = Bench(
        provider=Away("scripted", {}), others=[model("spare", TextDelta("here"))],
        settings={"routing": Routing(fallback="spare:model")},
    )  # fmt: skip
    events = await bench.run("hello")
    assert bodies(events, TurnStarted)[0].model == "spare:model"
    assert any("nobody listens there; asking spare:model" in status.text for status in bodies(events, Status))
