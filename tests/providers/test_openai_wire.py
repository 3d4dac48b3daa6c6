"""The parts of the OpenAI adapter that need no turn: addresses, dialects, facts, errors and loose JSON."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aish.errors import (
    ModelNotFound,
    PromptTooLong,
    ProviderBusy,
    ProviderRejected,
    ProviderTimeout,
    ProviderUnavailable,
)
from aish.net.http.client import HttpClient
from aish.providers.endpoint import Endpoint
from aish.providers.http_errors import error_for, error_text_of, stream_error
from aish.providers.loose_json import NotJson, decode_json, encode_json
from aish.providers.openai import reported_models, request
from aish.providers.openai.provider import OpenAIProvider
from aish.providers.openai.request import (
    Dialect,
    EncodedCache,
    as_json_object,
    encode_message,
    encode_request,
    encode_tools,
)
from aish.providers.openai.response import decode_chunk, read_chunk
from aish.types.chunks import CallFragment, Chunk, StepFinished
from aish.types.messages import AssistantMessage, Message, TextPart, ToolCall, ToolMessage, user
from aish.types.models import Constraint
from aish.types.requests import Sampling, StepRequest
from aish.types.tools import Effect, ToolSpec
from support.backends import Vllm, body_of, chunked, delta, json_answer, running, sse
from support.raw_server import Peer, Request, raw_server

MODEL = Vllm.model
THINKING = AssistantMessage("", (ToolCall("c1", "t", "{}"),), "hm")


def test_thoughts_are_left_out_for_a_backend_that_refuses_them_and_kept_for_one_that_wants_them():
    dialect = Dialect()
    assert dialect.without_refused("Missing `reasoning_content` field in the assistant message") is None
    silent = dialect.without_refused("Extra inputs are not permitted: messages.1.reasoning_content")
    assert silent is not None and not silent.thoughts
    request = StepRequest(MODEL, (user("hi"), THINKING))
    assert encode_request(request, dialect, EncodedCache())["messages"][1]["reasoning_content"] == "hm"
    assert "reasoning_content" not in encode_request(request, silent, EncodedCache())["messages"][1]


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    async with HttpClient() as client:
        yield client


async def say(provider: OpenAIProvider, **fields) -> list[Chunk]:
    request = StepRequest(MODEL, (user("hi"),), **{"deadline_s": 5, **fields})
    async with asyncio.timeout(10), provider.stream(request) as chunks:
        return [chunk async for batch in chunks for chunk in batch]


class Picky(Vllm):
    """Refuses fields by name."""

    refused = ("stream_options",)

    def post_v1_chat_completions(self, request: Request) -> list[bytes]:
        for name in self.refused:
            if name in body_of(request):
                message = f"Unsupported parameter: '{name}'. Use 'max_completion_tokens' instead."
                message = message if name == "max_tokens" else f"unknown field {name}"
                return [json_answer({"error": {"message": message}}, 400)]
        return super().post_v1_chat_completions(request)


async def test_what_a_backend_refuses_is_remembered(http):
    async with running(Picky()) as server:
        provider = OpenAIProvider("up", Endpoint(url=server.url), http)
        await say(provider)
        await say(provider)
    assert ["stream_options" in body_of(request) for request in server.requests] == [True, False, False]


async def test_several_fields_may_be_refused_one_after_the_other(http):
    class Modern(Picky):
        refused = ("max_tokens", "stream_options")

    async with running(Modern()) as server:
        provider = OpenAIProvider("up", Endpoint(url=server.url), http)
        await say(provider, sampling=Sampling(max_tokens=9))
    assert body_of(server.requests[-1])["max_completion_tokens"] == 9
    assert len(server.requests) == 3


async def test_several_requests_at_once_learn_it_each_for_itself(http):
    both_asked = asyncio.Event()

    class Slow(Picky):
        waiting = 0

        async def serve(self, peer: Peer) -> None:
            while True:
                request = await peer.request()
                if "stream_options" in body_of(request):
                    self.waiting += 1
                    both_asked.set() if self.waiting == 2 else await both_asked.wait()
                await peer.send(*self.respond(request))

    async with running(Slow()) as server:
        provider = OpenAIProvider("up", Endpoint(url=server.url), http)
        answers = await asyncio.gather(say(provider), say(provider))
    assert all(isinstance(answer[-1], StepFinished) for answer in answers)


async def test_asking_again_does_not_stretch_the_deadline(http):
    async def script(peer: Peer) -> None:
        request = await peer.request()
        if "stream_options" in body_of(request):
            await peer.send(json_answer({"error": "no stream_options here"}, 400))
            await peer.request()
        await peer.left()

    async with raw_server(script) as server:
        with pytest.raises(ProviderTimeout, match=r"was not over within 0\.\d+ s|no answer within 0\.\d+ s") as caught:
            await say(OpenAIProvider("up", Endpoint(url=server.url), http), deadline_s=0.2)
    assert "0.2 s" not in caught.value.message
    assert caught.value.is_deadline


@pytest.mark.parametrize("limit", ["max_call_s", "idle_timeout_s", "connect_timeout_s"])
async def test_a_limit_of_the_endpoint_is_not_the_deadline_of_the_request(http, limit):
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(*chunked(*sse(delta(content="Half")))[:-1])
        await peer.left()

    async with raw_server(script) as server:
        url = server.url.replace("http:", "https:") if limit == "connect_timeout_s" else server.url
        with pytest.raises(ProviderTimeout) as caught:
            await say(OpenAIProvider("up", Endpoint(url=url, **{limit: 0.05}), http), deadline_s=10)
    assert not caught.value.is_deadline


@given(order=st.lists(st.integers(0, 2), min_size=1, max_size=40))
@settings(max_examples=30, deadline=None)
def test_pieces_of_calls_that_take_turns_keep_to_their_calls(order: list[int]) -> None:
    def chunk(index: int, **function: str) -> Any:
        call = {"index": index, **({"id": f"call_{index}"} if "name" in function else {}), "function": function}
        return {"choices": [{"delta": {"tool_calls": [call]}}]}

    starts = [chunk(index, name=f"tool_{index}", arguments="") for index in range(3)]
    pieces = [chunk(index, arguments=f'"{n}\\n",') for n, index in enumerate(order)]
    end = {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}

    async def read() -> list[Chunk]:
        async def script(peer: Peer) -> None:
            await peer.request()
            await peer.send(*chunked(*sse(*starts, *pieces, end)))

        async with HttpClient() as http, raw_server(script) as server:
            return await say(OpenAIProvider("up", Endpoint(url=server.url), http))

    fragments = [chunk for chunk in asyncio.run(read()) if isinstance(chunk, CallFragment) and chunk.arguments]
    assert [(each.index, each.arguments) for each in fragments] == [
        (index, f'"{n}\\n",') for n, index in enumerate(order)
    ]


@pytest.mark.parametrize(
    ("url", "root", "api"),
    [
        ("http://h:1", "http://h:1", "http://h:1/v1"),
        ("http://h:1/", "http://h:1", "http://h:1/v1"),
        ("http://h:1/v1", "http://h:1", "http://h:1/v1"),
        ("http://h:1/v1/", "http://h:1", "http://h:1/v1"),
        ("https://h/api/v1", "https://h/api", "https://h/api/v1"),
        ("https://h/openai", "https://h/openai", "https://h/openai"),
    ],
)
def test_an_address_with_or_without_v1_means_the_same(url, root, api):
    assert (Endpoint(url=url).root, Endpoint(url=url).api) == (root, api)


@pytest.mark.parametrize(
    ("entry", "size"),
    [
        ({"max_model_len": 1}, 1),
        ({"context_length": 2}, 2),
        ({"context_window": 3}, 3),
        ({"max_context_length": 131072, "loaded_context_length": 4}, 4),
        ({"max_context_length": 5}, 5),
        ({"max_context_length": 6, "state": "not-loaded"}, None),
        ({"meta": {"n_ctx": 7, "n_ctx_train": 99}}, 7),
        ({"meta": {"n_ctx_train": 99}}, None),
        ({"max_model_len": "8"}, None),
        ({"max_model_len": True}, None),
        ({"max_model_len": -1}, None),
        ({}, None),
    ],
)
def test_a_listed_context_size_is_the_one_that_runs_or_none(entry, size):
    assert reported_models.models_from_listing("p", {"data": [{"id": "m", **entry}]})[0].context_size == size


def test_openrouter_says_what_each_model_takes():
    entry = {"id": "m", "architecture": {"input_modalities": ["text", "image"]}, "supported_parameters": ["seed"]}
    more = {**entry, "id": "n", "supported_parameters": ["tools", "structured_outputs"], "architecture": None}
    first, second = (info.capabilities for info in reported_models.models_from_listing("p", {"data": [entry, more]}))
    assert (first.native_tools, first.vision, first.constrained) == (False, True, frozenset())
    assert (second.native_tools, second.vision, second.constrained) == (True, False, {Constraint.JSON_SCHEMA})


@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [
        (400, "bad", ProviderRejected),
        (401, "model not found", ProviderRejected),
        (404, "The model `x` does not exist", ModelNotFound),
        (404, "model 'x' not found", ModelNotFound),
        (400, "x is not a valid model ID", ModelNotFound),
        (404, "no model named x", ModelNotFound),
        (404, "/v1/models/chat not here", ProviderRejected),
        (408, "", ProviderUnavailable),
        (413, "", ProviderRejected),
        (429, "", ProviderBusy),
        (500, "", ProviderUnavailable),
        (500, "Jinja Exception: x", ProviderRejected),
        (500, "the input is too large to process. increase the physical batch size", PromptTooLong),
        (400, "This model's maximum context length is 8192 tokens", PromptTooLong),
        (501, "not implemented", ProviderRejected),
        (503, "maximum context", ProviderBusy),
    ],
)
def test_an_error_is_sorted_by_what_can_be_done_about_it(status, text, kind):
    assert type(error_for("up", "x", status, text)) is kind


def test_only_a_question_about_a_model_can_miss_one():
    assert isinstance(error_for("up", "", 404, "model not found"), ProviderRejected)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7.0), ("0.5", 0.5), ("", None), ("-1", None), ("inf", None), ("nan", None), ("Wed", None)],
)
def test_how_long_to_wait_is_read_where_it_is_a_number(header, seconds):
    error = error_for("up", "x", 429, "", header)
    assert isinstance(error, ProviderBusy)
    assert error.retry_after_s == seconds


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"error": {"message": "m", "type": "t"}}', "m"),
        (b'{"error": "m"}', "m"),
        (b'{"message": "m", "object": "error"}', "m"),
        (b'{"detail": "m"}', "m"),
        (b'{"detail": [{"loc": ["body", "x"], "msg": "m"}]}', "body.x: m"),
        (b'{"error": true, "message": "m"}', "m"),
        (b'{"error": {}}', "{'error': {}}"),
        (b"[]", ""),
        (b"null", "None"),
        (b"  plain\n text ", "plain text"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"\n<!doctype html>", "an HTML page"),
        (b"", ""),
    ],
)
def test_the_sentence_in_an_error_is_found(body, text):
    assert error_text_of(body) == text


@given(st.binary(max_size=400))
def test_any_error_body_gives_one_short_printable_line(body):
    text = error_text_of(body)
    assert len(text) <= 300
    assert text.isprintable()


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda c: st.lists(c) | st.dictionaries(st.text(), c),
)


@given(_json)
def test_any_error_object_gives_an_error(value):
    assert stream_error("up", "m", value).message.startswith("up answered ")


@pytest.mark.parametrize(
    ("code", "kind"),
    [(429, ProviderBusy), ("429", ProviderBusy), ("rate_limit", ProviderUnavailable), (7, ProviderUnavailable)],
)
def test_an_error_in_a_stream_has_the_status_it_names_as_a_number_or_in_digits(code, kind):
    assert type(stream_error("up", "m", {"message": "slow down", "code": code})) is kind


@given(st.dictionaries(st.sampled_from(["choices", "usage", "error", "object", "message", "code"]), _json))
def test_any_chunk_is_read_or_refused_as_no_json_of_ours(value):
    try:
        chunk = decode_json(encode_json(value), decode_chunk)
    except NotJson:
        return
    chunk.find_error()
    for item in read_chunk(chunk):
        assert msgspec.json.encode(item)


_odd = st.sampled_from([None, "", "x", 0, 1.5, -1, True, [], {}, "0", [{"text": None}], {"a": [1]}])


@given(
    st.fixed_dictionaries(
        {"index": _odd, "id": _odd, "function": st.fixed_dictionaries({"name": _odd, "arguments": _odd})}
    ),
    st.fixed_dictionaries({"content": _odd, "reasoning": _odd, "reasoning_content": _odd, "refusal": _odd}),
    _odd,
)
def test_any_value_in_any_field_of_a_delta_is_read(call, fields, finish):
    wire = {"choices": [{"delta": {**fields, "tool_calls": [call]}, "finish_reason": finish}]}
    for item in read_chunk(decode_json(encode_json(wire), decode_chunk)):
        assert msgspec.json.encode(item)


@given(st.text(st.characters(), max_size=50))
def test_what_is_sent_is_what_was_meant_up_to_what_is_no_text(text):
    sent = encode_json({"text": text})
    assert json.loads(sent.decode("utf-8"))["text"] == text.encode("utf-8", "replace").decode("utf-8")


@given(st.text(st.characters(), max_size=50))
def test_arguments_in_history_are_always_an_object(arguments):
    assert isinstance(json.loads(as_json_object(arguments)), dict)


@given(st.binary(max_size=60))
def test_any_bytes_are_json_or_not(data):
    try:
        decode_json(data)
    except NotJson as exc:
        assert str(exc)


def test_a_long_conversation_is_encoded_once_and_reads_the_same(monkeypatch):
    times: dict[int, int] = {}

    def counted(message: Message) -> dict[str, Any]:
        times[id(message)] = times.get(id(message), 0) + 1
        return encode_message(message)

    monkeypatch.setattr(request, "encode_message", counted)
    call = ToolCall("call_1", "look", '{"at": "caf\\u00e9"}')
    said = [user(f"number {n}: café \N{GRINNING FACE}") for n in range(20)]
    messages = (*said, AssistantMessage("", (call,)), ToolMessage("call_1", "look", (TextPart("seen"),)))
    encoded = EncodedCache()
    first = encode_json(encode_request(StepRequest(MODEL, messages), Dialect(), encoded))
    again = encode_json(encode_request(StepRequest(MODEL, (*messages, user("and now?"))), Dialect(), encoded))
    assert json.loads(first)["messages"] == [encode_message(message) for message in messages]
    assert json.loads(again)["messages"][:-1] == json.loads(first)["messages"]
    assert set(times.values()) == {1}


def test_the_same_tools_are_encoded_once_and_others_are_never_taken_for_them(monkeypatch):
    times: list[int] = []

    def counted(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
        times.append(len(tools))
        return encode_tools(tools)

    monkeypatch.setattr(request, "encode_tools", counted)
    tools = tuple(ToolSpec(f"t__{n}", "café", {"type": "object"}, Effect.READ, "t") for n in range(3))
    other = msgspec.structs.replace(tools[1], description="another")
    encoded = EncodedCache()
    for offered in (tools, tools[:1] + tools[1:], (tools[0], other, tools[2]), tools[:2], tools):
        body = encode_json(encode_request(StepRequest(MODEL, (user("hi"),), offered), Dialect(), encoded))
        assert json.loads(body)["tools"] == encode_tools(offered)
    assert times == [3, 3, 2, 3]


def test_what_is_kept_of_conversations_has_a_bound(monkeypatch):
    monkeypatch.setattr(request, "_MAX_KEPT_BYTES", 2000)
    encoded = EncodedCache()
    for n in range(50):
        messages = tuple(user(f"{n} {k} {'x' * 100}") for k in range(12))
        body = encode_json(encode_request(StepRequest(MODEL, messages), Dialect(), encoded))
        assert json.loads(body)["messages"] == [encode_message(message) for message in messages]
        assert sum(len(bytes(raw)) for _, raw in encoded._kept.values()) <= 2000


def test_short_messages_take_more_room_than_their_text(monkeypatch):
    monkeypatch.setattr(request, "_MAX_KEPT_BYTES", 20_000)
    encoded = EncodedCache()
    encoded.messages([user(str(n)) for n in range(1000)])
    assert 0 < len(encoded._kept) <= 50


def test_what_utf_8_cannot_hold_is_replaced_beside_what_is_kept():
    messages = tuple(user(f"number {n}") for n in range(12))
    tools = (ToolSpec("look", "sees \udcff", {"type": "object"}, Effect.READ, "here"),)
    body = json.loads(encode_json(encode_request(StepRequest(MODEL, messages, tools), Dialect(), EncodedCache())))
    assert body["tools"][0]["function"]["description"] == "sees ?"
    assert body["messages"][3]["content"] == "number 3"


class Traced(Vllm):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str | None] = []

    def post_v1_chat_completions(self, request: Request) -> list[bytes]:
        self.seen.append(request.headers.get("traceparent"))
        return super().post_v1_chat_completions(request)


async def test_the_trace_of_whoever_asks_goes_on_at_the_backend(http):
    traced, parent = Traced(), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with running(traced) as server:
        provider = OpenAIProvider("up", Endpoint(url=server.url), http)
        await say(provider, traceparent=parent)
        await say(provider)
    assert traced.seen == [parent, None]
