"""Fields of sampling that only some OpenAI-compatible backends know: sent as they are, and left out where refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish.errors import ProviderRejected
from aish.providers import chat_wire
from aish.providers.chat_wire import Dialect, Encoded, encode_request
from aish.providers.endpoint import Endpoint
from aish.providers.openai import OpenAIProvider
from aish.types.chunks import StepFinished
from aish.types.messages import user
from aish.types.requests import Knobs, Sampling, StepRequest
from aish.wire.http import HttpClient
from support.backends import LlamaCpp, Vllm, body_of, json_answer, running
from support.raw_server import Request

MODEL = Vllm.model
FIELDS = {*Knobs.__struct_fields__, "repetition_penalty", "logit_bias"}
TOP_K = Sampling(temperature=0.5, knobs=Knobs(top_k=40))
TURNED = Sampling(knobs=Knobs(top_k=40, min_p=0.1, repeat_penalty=1.1), logit_bias={"7": 1.0})


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    async with HttpClient() as client:
        yield client


async def say(provider: OpenAIProvider, sampling: Sampling, model: str = MODEL) -> None:
    request = StepRequest(model, (user("hi"),), sampling=sampling, deadline_s=5)
    async with asyncio.timeout(10), provider.stream(request) as batches:
        chunks = [chunk async for batch in batches for chunk in batch]
    assert isinstance(chunks[-1], StepFinished)


class Cloud(Vllm):
    """Knows none of them, and says so in one of the ways that there are."""

    says = "Unknown parameter: '{}'."

    def post_v1_chat_completions(self, request: Request) -> list[bytes]:
        unknown = [name for name in body_of(request) if name in FIELDS]
        return [self.refusal(unknown[0])] if unknown else super().post_v1_chat_completions(request)

    def refusal(self, name: str) -> bytes:
        return json_answer({"error": {"message": self.says.format(name), "param": name}}, 400)


async def test_knobs_go_to_the_backend_as_they_are_and_the_penalty_by_both_names(http):
    async with running(LlamaCpp()) as server:
        knobs = Knobs(top_k=40, repeat_penalty=1.1, dry_sequence_breakers=("\n",), chat_template_kwargs={"a": [1]})
        await say(OpenAIProvider("up", Endpoint(url=server.url), http), Sampling(knobs=knobs), LlamaCpp.model)
    (sent,) = map(body_of, server.requests)
    assert {name: sent[name] for name in FIELDS & sent.keys()} == {
        "top_k": 40,
        "repeat_penalty": 1.1,
        "repetition_penalty": 1.1,
        "dry_sequence_breakers": ["\n"],
        "chat_template_kwargs": {"a": [1]},
    }


@pytest.mark.parametrize(
    "says",
    [
        "Unknown parameter: '{}'.",
        "Unrecognized request argument supplied: {}",
        "property '{}' is unsupported",
        "Unsupported parameter: '{}' is not supported with this model.",
        "unknown field `{}`, expected one of `model`, `stream_options`, `min_p`, `logit_bias`",
        'Invalid JSON payload received. Unknown name "{}": Cannot find field.',
        "UnsupportedParamsError: openai does not support parameters: ['{}'], for model=m",
        "Additional properties are not allowed ('{}' was unexpected)",
        "create() got an unexpected keyword argument '{}'",
    ],
)
async def test_a_field_that_a_backend_does_not_know_is_left_out_and_the_turn_goes_on(says, http):
    backend = Cloud()
    backend.says = says
    async with running(backend) as server:
        provider = OpenAIProvider("up", Endpoint(url=server.url), http)
        await say(provider, TOP_K)
        await say(provider, TOP_K)
    sent = [body_of(request) for request in server.requests]
    assert ["top_k" in body for body in sent] == [True, False, False]
    assert all(body["temperature"] == 0.5 and "stream_options" in body for body in sent)


async def test_a_field_that_fastapi_forbids_is_left_out(http):
    class Forbidding(Cloud):
        def refusal(self, name: str) -> bytes:
            detail = [{"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra inputs are not permitted"}]
            return json_answer({"detail": detail}, 422)

    async with running(Forbidding()) as server:
        await say(OpenAIProvider("up", Endpoint(url=server.url), http), TOP_K)
    assert len(server.requests) == 2


async def test_several_unknown_fields_are_left_out_one_after_the_other(http):
    async with running(Cloud()) as server:
        provider = OpenAIProvider("up", Endpoint(url=server.url), http)
        await say(provider, TURNED)
        await say(provider, TURNED)
    assert len(server.requests) == 7
    assert not FIELDS & body_of(server.requests[-1]).keys()


async def test_several_that_are_named_at_once_are_left_out_at_once(http):
    class Listing(Cloud):
        def refusal(self, name: str) -> bytes:
            names = "top_k, min_p, repeat_penalty, repetition_penalty, logit_bias"
            return json_answer({"error": f"Unrecognized request arguments supplied: {names}"}, 400)

    async with running(Listing()) as server:
        await say(OpenAIProvider("up", Endpoint(url=server.url), http), TURNED)
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    "says", ["{} must be -1 (disable), or at least 1, got 0.", "body.{}: Input should be a valid integer", "no"]
)
async def test_a_wrong_value_is_for_the_asker_to_hear_and_no_reason_to_leave_the_field_out(says, http):
    backend = Cloud()
    backend.says = says
    async with running(backend) as server:
        provider = OpenAIProvider("up", Endpoint(url=server.url), http)
        for _ in range(2):
            with pytest.raises(ProviderRejected, match=says.split()[-1]):
                await say(provider, TOP_K)
    assert ["top_k" in body_of(request) for request in server.requests] == [True, True]


def test_what_one_model_does_not_know_another_of_the_backend_is_still_told():
    def sent(dialect: Dialect, model: str) -> chat_wire.Json:
        return encode_request(StepRequest(model, (), sampling=TURNED), dialect, Encoded())

    refusal = "Unsupported parameter: 'logit_bias' is not supported with this model."
    learned = Dialect().without_what(refusal, sent=sent(Dialect(), "thinker"))
    assert learned is not None
    assert "logit_bias" not in sent(learned, "thinker") and "logit_bias" in sent(learned, "talker")


def test_what_is_learned_of_models_has_an_end(monkeypatch):
    monkeypatch.setattr(chat_wire, "_MOST_LEARNED", 3)
    dialect = Dialect()
    for number in range(9):
        learned = dialect.without_what("unknown field top_k", sent={"model": f"m{number}", "top_k": 1})
        assert learned is not None
        dialect = learned
    assert list(dialect.untaken) == ["m6", "m7", "m8"]


@given(st.text())
def test_a_refusal_never_takes_a_field_that_was_not_sent(text):
    dialect = Dialect().without_what(f"unknown field {text}", sent={"model": "m", "messages": [], "top_k": 1})
    assert dialect is None or not dialect.untaken or dialect.untaken == {"m": frozenset({"top_k"})}
