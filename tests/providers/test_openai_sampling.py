"""Fields of sampling that only some OpenAI-compatible backends know: sent as they are, and left out where refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from aish.errors import ProviderRejected
from aish.net.http.client import HttpClient
from aish.providers.endpoint import Endpoint
from aish.providers.openai import request
from aish.providers.openai.provider import OpenAIProvider
from aish.providers.openai.request import Dialect, EncodedCache, encode_request
from aish.types.chunks import StepFinished
from aish.types.events import TextDelta
from aish.types.messages import user
from aish.types.requests import Knobs, Sampling, StepRequest, Tuning
from support.backends import LlamaCpp, Vllm, body_of, chunked, json_answer, running, sse
from support.raw_server import Peer, Request

MODEL = Vllm.model
FIELDS = {*Knobs.__struct_fields__, "repetition_penalty", "logit_bias"}
TOP_K = Sampling(temperature=0.5, knobs=Knobs(top_k=40))
TURNED = Sampling(knobs=Knobs(top_k=40, min_p=0.1, repeat_penalty=1.1), logit_bias={"7": 1.0})
ALL_SENT = {"model": "m", "messages": [], **dict.fromkeys(FIELDS, 1)}


def unknown_fields(refusal: str) -> set[str]:
    """Of all the fields, those that are left out after it."""
    learned = Dialect().without_refused(f"up answered 400: {refusal}", sent=ALL_SENT)
    return set() if learned is None else set(learned.unknown_fields.get("m", ()))


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
    def sent(dialect: Dialect, model: str) -> request.Json:
        return encode_request(StepRequest(model, (), sampling=TURNED), dialect, EncodedCache())

    refusal = "Unsupported parameter: 'logit_bias' is not supported with this model."
    learned = Dialect().without_refused(refusal, sent=sent(Dialect(), "thinker"))
    assert learned is not None
    assert "logit_bias" not in sent(learned, "thinker") and "logit_bias" in sent(learned, "talker")


def test_what_is_learned_of_models_has_an_end(monkeypatch):
    monkeypatch.setattr(request, "_MAX_LEARNED", 3)
    dialect = Dialect()
    for number in range(9):
        learned = dialect.without_refused("unknown field top_k", sent={"model": f"m{number}", "top_k": 1})
        assert learned is not None
        dialect = learned
    assert list(dialect.unknown_fields) == ["m6", "m7", "m8"]


@pytest.mark.parametrize(
    ("refusal", "fields"),
    [
        ("Unrecognized request argument supplied: top_k", {"top_k"}),
        ("Unsupported parameter: 'logit_bias' is not supported with this model.", {"logit_bias"}),
        ("body -> top_k: Extra inputs are not permitted", {"top_k"}),
        ("1 validation error for ChatRequest body -> top_k extra fields not permitted (type=value_error)", {"top_k"}),
        ("1 validation error for ChatRequest top_k Extra inputs are not permitted [type=extra_forbidden", {"top_k"}),
        ('["body","top_k"]: Extra inputs are not permitted', {"top_k"}),
        ('Extra inputs are not permitted (loc: ["body","top_k"])', {"top_k"}),
        ("[{'loc': ('body', 'top_k'), 'msg': 'Extra inputs are not permitted', 'input': 40}]", {"top_k"}),
        ('{"msg":"Extra inputs are not permitted","loc":["body","top_k"]}', {"top_k"}),
        ("unknown field `min_p`, expected one of `model`, `messages`", {"min_p"}),
        ("min_p: unknown field `min_p`, expected one of `model`, `top_k` at line 1 column 52", {"min_p"}),
        ("Additional properties are not allowed ('min_p', 'top_k' were unexpected)", {"min_p", "top_k"}),
        ("Unrecognized key(s) in object: 'min_p', 'top_k'", {"min_p", "top_k"}),
        ('json: unknown field "typical_p"', {"typical_p"}),
        ("'repetition_penalty' : property 'repetition_penalty' is unsupported", {"repetition_penalty"}),
        ("top_k is not supported", {"top_k"}),
        ("The parameters `top_k` and `min_p` are not supported by this backend.", {"min_p", "top_k"}),
        ("min_p: not a valid parameter", {"min_p"}),
    ],
)
def test_what_is_said_to_be_unknown_is_left_out_and_nothing_else(refusal, fields):
    assert unknown_fields(refusal) == fields


@pytest.mark.parametrize(
    "refusal",
    [
        "body.mirostat: unexpected value; permitted: 0, 1, 2",
        "mirostat: unknown variant `3`, expected one of `0`, `1`, `2`",
        "Unsupported value: 'min_p' does not support 2.0 with this model. Only the default (1) value is supported.",
        "The value of min_p is not supported.",
        "Unsupported parameter value: 'min_p'",
        "unexpected input: min_p must be at most 1",
        "Invalid 'logit_bias': unknown token id 999999",
        "chat_template_kwargs: unknown key `enable_thinkng`",
        "Unknown parameter: 'chat_template_kwargs.enable_thinkng'.",
        "unknown field chat_template_kwargs.enable_thinkng",
        "body.messages.0.top_k: Extra inputs are not permitted",
        "body -> messages -> 0 -> top_k extra fields not permitted",
        "[{'loc': ('body', 'messages', 0, 'top_k'), 'msg': 'Extra inputs are not permitted'}]",
        '[{"loc":["body","x"],"msg":"Extra inputs are not permitted"},{"loc":["body","top_k"],"msg":"no integer"}]',
        "logit_bias is not supported together with response_format json_schema",
        "Unsupported parameter: 'logit_bias' is not supported with response_format.",
        "Unsupported parameters: top_k, min_p when streaming",
        "unknown field `foo`, expected `top_k` or `min_p`",
        "Unknown field `foo`, `top_k` and `min_p` are allowed",
        "Unknown argument foo. Supported arguments: model, messages, top_k",
        "Unknown parameter foo, did you mean top_k?",
        "unexpected token in messages[0].content: 'what is top_k?'",
    ],
)
def test_a_refusal_of_something_else_than_the_field_leaves_it_in(refusal):
    assert Dialect().without_refused(f"up answered 400: {refusal}", sent=ALL_SENT) is None


def test_a_field_of_ours_that_is_refused_beside_a_list_of_known_ones_goes_alone():
    refusal = "Unrecognized field: stream_options. Allowed: model, messages, top_k"
    assert Dialect().without_refused(refusal, sent=ALL_SENT) == Dialect(stream_options=False)


def test_a_field_that_does_not_go_with_a_schema_leads_to_another_form_of_the_schema():
    refusal = "logit_bias is not supported together with response_format json_schema"
    assert Dialect().without_refused(refusal, has_schema=True, sent=ALL_SENT) == Dialect(schema_form=1)


def test_a_list_of_what_is_known_leaves_the_form_of_the_schema_as_it_is():
    refusal = "unknown field `top_k`, expected one of `model`, `response_format`"
    learned = Dialect().without_refused(refusal, has_schema=True, sent=ALL_SENT)
    assert learned == Dialect(unknown_fields={"m": frozenset({"top_k"})})


_known = st.sampled_from(sorted(FIELDS))


@given(named=st.lists(_known, min_size=1, unique=True), sent=st.sets(_known))
def test_a_refusal_never_takes_a_field_that_was_not_sent(named, sent):
    body = {"model": "m", "messages": [], **dict.fromkeys(sent, 1)}
    learned = Dialect().without_refused(f"unknown fields: {', '.join(named)}", sent=body)
    assert (learned.unknown_fields["m"] if learned else set()) == sent & set(named)


async def test_a_request_that_began_before_something_was_learned_does_not_undo_it(http):
    plain_asked, learned = asyncio.Event(), asyncio.Event()

    class Slow(Cloud):
        async def serve(self, peer: Peer) -> None:
            while True:
                request = await peer.request()
                if "temperature" not in body_of(request):
                    plain_asked.set()
                    await learned.wait()
                await peer.send(*self.respond(request))

    async with asyncio.timeout(20), running(Slow()) as server, asyncio.TaskGroup() as tasks:
        provider = OpenAIProvider("up", Endpoint(url=server.url), http)
        plain = tasks.create_task(say(provider, Sampling()))
        await plain_asked.wait()
        await say(provider, TOP_K)
        learned.set()
        await plain
        await say(provider, TOP_K)
    assert sorted("top_k" in body_of(request) for request in server.requests) == [False, False, False, True]


async def test_what_requests_learn_at_the_same_time_is_all_kept(http):
    both_asked = asyncio.Event()

    class Slow(Cloud):
        waiting = 0

        async def serve(self, peer: Peer) -> None:
            while True:
                request = await peer.request()
                if FIELDS & body_of(request).keys():
                    self.waiting += 1
                    both_asked.set() if self.waiting == 2 else await both_asked.wait()
                await peer.send(*self.respond(request))

    async with asyncio.timeout(20), running(Slow()) as server:
        provider = OpenAIProvider("up", Endpoint(url=server.url), http)
        await asyncio.gather(say(provider, TOP_K), say(provider, Sampling(knobs=Knobs(min_p=0.1))))
        await say(provider, Sampling(knobs=Knobs(top_k=40, min_p=0.1)))
    assert len(server.requests) == 5
    assert sum(bool(FIELDS & body_of(request).keys()) for request in server.requests) == 2


def test_what_is_learned_of_one_thing_is_kept_beside_what_is_learned_of_another():
    one = Dialect(stream_options=False, schema_form=2, unknown_fields={"a": frozenset({"top_k"})})
    other = Dialect(max_tokens=False, thoughts=False, unknown_fields={"a": frozenset({"min_p"})})
    fields = {"a": frozenset({"top_k", "min_p"})}
    both = Dialect(stream_options=False, max_tokens=False, thoughts=False, schema_form=2, unknown_fields=fields)
    assert one.merge(other, "a") == other.merge(one, "a") == both


def test_a_field_that_is_not_taken_is_left_out_of_the_tuning_too():
    dialect = Dialect(unknown_fields={"m": frozenset({"logit_bias"})})
    tuning = Tuning(scale=1.0, slot=0, bias={"7": 1.0})
    for sampling in (Sampling(), TURNED):
        body = encode_request(StepRequest("m", (), sampling=sampling, tuning=tuning), dialect, EncodedCache())
        assert "logit_bias" not in body and body["id_slot"] == 0


def test_a_refusal_that_teaches_nothing_new_is_no_reason_to_ask_again():
    refusal, sent = "unknown field top_k", {"model": "m", "top_k": 1}
    learned = Dialect().without_refused(refusal, sent=sent)
    assert learned is not None and learned.without_refused(refusal, sent=sent) is None


ODDS = {
    "id": 7,
    "token": "x",
    "logprob": -0.5,
    "bytes": [120],
    "top_logprobs": [{"token": t, "logprob": -1} for t in "xyz"],
}
TOLD = {"token": "x", "logprob": -0.5, "bytes": [120]}


def others(count: int) -> list[dict[str, object]]:
    return [{"token": token, "logprob": -1, "bytes": [ord(token)]} for token in "xyz"[:count]]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("given", "asked", "told"),
    [
        ({"content": [ODDS]}, 2, [{**TOLD, "top_logprobs": others(2)}]),
        ({"content": [ODDS]}, 0, [{**TOLD, "top_logprobs": []}]),
        ({"content": [{**ODDS, "top_logprobs": None}, {"token": 3}, 4, None]}, 2, [{**TOLD, "top_logprobs": []}]),
        ({"content": [{**ODDS, "bytes": [[120]], "top_logprobs": 3}]}, 2, [{**TOLD, "top_logprobs": []}]),
        ({"content": [{**ODDS, "bytes": [300], "top_logprobs": []}] * 90}, 2, [{**TOLD, "top_logprobs": []}] * 20),
        ({"content": [{**ODDS, "token": "x" * 500}]}, 2, UNSET),
        ({"tokens": ["x"], "token_logprobs": [-0.5]}, 2, UNSET),
        ({"content": [ODDS]}, None, UNSET),
        (None, 2, UNSET),
    ],
)
async def test_how_likely_tokens_were_is_read_where_it_was_asked_for(given, asked, told, stream, http):
    class Telling(Vllm):
        def post_v1_chat_completions(self, request: Request) -> list[bytes]:
            message = {"role": "assistant", "content": "x"}
            choice = {"index": 0, "logprobs": given, "finish_reason": None}
            if stream:
                chunks = [{"choices": [{**choice, "delta": message}]}] * 3
                return chunked(*sse(*chunks, {"choices": [{"delta": {}, "finish_reason": "stop"}]}, "[DONE]"))
            return [json_answer({"choices": [{**choice, "message": message, "finish_reason": "stop"}]})]

    async with running(Telling()) as server:
        request = StepRequest(MODEL, (user("hi"),), sampling=Sampling(logprobs=asked), stream=stream, deadline_s=5)
        provider = OpenAIProvider("up", Endpoint(url=server.url), http)
        async with asyncio.timeout(10), provider.stream(request) as batches:
            chunks = [chunk async for batch in batches for chunk in batch]
    (sent,) = map(body_of, server.requests)
    assert (sent.get("logprobs"), sent.get("top_logprobs")) == (None if asked is None else True, asked or None)
    words = [chunk for chunk in chunks if isinstance(chunk, TextDelta)]
    assert [word.text for word in words] == ["x"] * (3 if stream else 1)
    assert all(word.logprobs == told for word in words)


@pytest.mark.parametrize("asked", [None, 2])
async def test_a_number_that_is_none_in_what_is_told_of_tokens_spoils_no_answer(asked, http):
    class Telling(Vllm):
        def post_v1_chat_completions(self, request: Request) -> list[bytes]:
            odd = {"choices": [{"delta": {"content": "x"}, "logprobs": {"content": [{**ODDS, "logprob": "HUGE"}]}}]}
            words = [each.replace(b'"HUGE"', b"-1e999") for each in sse(odd, odd, odd)]
            return chunked(*words, *sse({"choices": [{"delta": {}, "finish_reason": "stop"}]}, "[DONE]"))

    async with running(Telling()) as server:
        request = StepRequest(MODEL, (user("hi"),), sampling=Sampling(logprobs=asked), deadline_s=5)
        provider = OpenAIProvider("up", Endpoint(url=server.url), http)
        async with asyncio.timeout(10), provider.stream(request) as batches:
            words = [chunk async for batch in batches for chunk in batch if isinstance(chunk, TextDelta)]
    assert words == [TextDelta("x")] * 3


async def test_tokens_that_are_half_a_character_are_told_of_though_they_have_no_text_yet(http):
    halves = [
        {"token": "\\xc3", "logprob": -0.5, "bytes": [0xC3]},
        {"token": "\\xbc", "logprob": -0.1, "bytes": [0xBC]},
    ]

    class Telling(Vllm):
        def post_v1_chat_completions(self, request: Request) -> list[bytes]:
            words = zip(("", "\u00fc"), halves, strict=True)
            chunks = [{"choices": [{"delta": {"content": w}, "logprobs": {"content": [odds]}}]} for w, odds in words]
            return chunked(*sse(*chunks, {"choices": [{"delta": {}, "finish_reason": "stop"}]}, "[DONE]"))

    async with running(Telling()) as server:
        request = StepRequest(MODEL, (user("hi"),), sampling=Sampling(logprobs=0), deadline_s=5)
        provider = OpenAIProvider("up", Endpoint(url=server.url), http)
        async with asyncio.timeout(10), provider.stream(request) as batches:
            words = [chunk async for batch in batches for chunk in batch if isinstance(chunk, TextDelta)]
    assert "".join(word.text for word in words) == "\u00fc"
    assert [odds["bytes"] for word in words for odds in word.logprobs] == [[0xC3], [0xBC]]
