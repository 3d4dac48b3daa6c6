"""What backends are told so that they find what they have read: each field to those that take it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aish.net.http.client import HttpClient
from aish.providers.endpoint import Endpoint
from aish.providers.openai.cache_hints import is_local, session_id
from aish.providers.openai.provider import OpenAIProvider
from aish.providers.openai.response import read_usage
from aish.types.chunks import StepFinished, UsageChunk
from aish.types.events import Status
from aish.types.messages import AssistantMessage, Message, SystemMessage, TextPart, ToolCall, ToolMessage, user
from aish.types.requests import StepRequest
from support.backends import LlamaCpp, Vllm, body_of, delta, json_answer, running
from support.raw_server import Request

SESSION = "sess_1"
CLAUDE = "anthropic/claude-sonnet"
CONVERSATION = (SystemMessage("be brief"), user("one"), AssistantMessage("fine"), user("two"))
EPHEMERAL = {"type": "ephemeral"}


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    async with HttpClient() as client:
        yield client


async def say(provider: OpenAIProvider, model: str, **fields: Any) -> list[Any]:
    fields = {"messages": (user("hi"),), "session": SESSION, "deadline_s": 5, **fields}
    async with asyncio.timeout(10), provider.stream(StepRequest(model, **fields)) as batches:
        chunks = [chunk async for batch in batches for chunk in batch]
    assert isinstance(chunks[-1], StepFinished)
    return chunks


class Router(Vllm):
    """A service that serves any model."""

    def post_v1_chat_completions(self, request: Request) -> list[bytes]:
        self.model = body_of(request)["model"]
        return super().post_v1_chat_completions(request)


class Refusing(Router):
    """Knows none of these fields."""

    def post_v1_chat_completions(self, request: Request) -> list[bytes]:
        for name in ("prompt_cache_key", "cache_prompt", "id_slot"):
            if name in body_of(request):
                return [json_answer({"error": {"message": f"Unknown parameter: '{name}'.", "param": name}}, 400)]
        if b"cache_control" in request.body:
            message = "messages.0.content.0.cache_control: Extra inputs are not permitted"
            return [json_answer({"error": {"message": message}}, 400)]
        return super().post_v1_chat_completions(request)


def chats(server: Any) -> list[dict[str, Any]]:
    return [body_of(request) for request in server.requests if request.path.endswith("/chat/completions")]


async def test_a_service_is_told_a_key_of_the_session_that_stays_the_same_and_does_not_name_it(http):
    async with running(Router()) as server:
        provider = OpenAIProvider("up", Endpoint(url=server.url, cache_hints="always"), http)
        await say(provider, "m")
        await say(provider, "m")
        await say(provider, "m", session="sess_2")
    keys = [body["prompt_cache_key"] for body in chats(server)]
    assert keys[0] == keys[1] != keys[2] and SESSION not in keys[0]


async def test_a_local_backend_is_told_the_session_in_a_header_alone(http):
    async with running(Router()) as server:
        await say(OpenAIProvider("up", Endpoint(url=server.url), http), CLAUDE, messages=CONVERSATION)
    assert server.requests[-1].headers["x-session-id"] == session_id(SESSION)
    assert "prompt_cache_key" not in chats(server)[0] and b"cache_control" not in server.requests[-1].body


async def test_a_turn_of_no_session_has_neither_key_nor_header(http):
    async with running(Router()) as server:
        await say(OpenAIProvider("up", Endpoint(url=server.url, cache_hints="always"), http), "m", session="turn_1")
    assert "prompt_cache_key" not in chats(server)[0] and "x-session-id" not in server.requests[-1].headers


async def test_who_wants_no_hints_sends_none(http):
    async with running(LlamaCpp()) as server:
        provider = OpenAIProvider("up", Endpoint(url=server.url, cache_hints="never"), http)
        await provider.describe(LlamaCpp.model)
        await say(provider, LlamaCpp.model, is_side_call=True)
    assert chats(server)[0].keys().isdisjoint({"cache_prompt", "id_slot", "prompt_cache_key"})
    assert "x-session-id" not in server.requests[-1].headers


async def test_models_of_anthropic_get_marks_at_the_system_message_and_the_newest_one(http):
    async with running(Router()) as server:
        provider = OpenAIProvider("up", Endpoint(url=server.url, cache_hints="always"), http)
        await say(provider, CLAUDE, messages=CONVERSATION)
    first, *between, last = chats(server)[0]["messages"]
    assert first["content"] == [{"type": "text", "text": "be brief", "cache_control": EPHEMERAL}]
    assert last["content"] == [{"type": "text", "text": "two", "cache_control": EPHEMERAL}]
    assert [message["content"] for message in between] == ["one", "fine"]


async def test_a_result_at_the_end_is_marked_too(http):
    call = ToolCall("c", "files__read", "{}")
    messages: tuple[Message, ...] = (
        user("read"), AssistantMessage("", (call,)), ToolMessage("c", "files__read", (TextPart("text"),)),
    )  # fmt: skip
    async with running(Router()) as server:
        provider = OpenAIProvider("up", Endpoint(url=server.url, cache_hints="always"), http)
        await say(provider, CLAUDE, messages=messages)
    sent = chats(server)[0]["messages"]
    assert sent[2]["content"] == [{"type": "text", "text": "text", "cache_control": EPHEMERAL}]
    assert sent[0]["content"] == "read"  # no system message, so the first one is the user's


async def test_other_models_get_no_marks(http):
    async with running(Router()) as server:
        provider = OpenAIProvider("up", Endpoint(url=server.url, cache_hints="always"), http)
        await say(provider, "openai/gpt-5", messages=CONVERSATION)
    assert b"cache_control" not in server.requests[-1].body


@pytest.mark.parametrize("model", ["m", CLAUDE])
async def test_what_a_service_refuses_is_left_out_and_not_sent_again(model, http):
    async with running(Refusing()) as server:
        provider = OpenAIProvider("up", Endpoint(url=server.url, cache_hints="always"), http)
        for _ in range(3):
            await say(provider, model, messages=CONVERSATION)
    hints = [
        ("prompt_cache_key" in request.body.decode()) + ("cache_control" in request.body.decode())
        for request in server.requests
    ]
    most = 2 if model == CLAUDE else 1
    assert hints == [*range(most, 0, -1), 0, 0, 0]


async def test_llama_cpp_that_knows_no_slots_is_sent_none_again(http):
    class Old(LlamaCpp, Refusing):
        def post_v1_chat_completions(self, request: Request) -> list[bytes]:
            return Refusing.post_v1_chat_completions(self, request)

    async with running(Old()) as server:
        provider = OpenAIProvider("up", Endpoint(url=server.url), http)
        await provider.describe(LlamaCpp.model)
        for _ in range(2):
            await say(provider, LlamaCpp.model, is_side_call=True)
    assert ["id_slot" in body for body in chats(server)] == [True, True, False, False]


async def test_a_side_call_has_the_last_slot_of_llama_cpp_and_the_conversation_any(http):
    async with running(LlamaCpp()) as server:
        provider = OpenAIProvider("up", Endpoint(url=server.url), http)
        await provider.describe(LlamaCpp.model)
        await say(provider, LlamaCpp.model)
        await say(provider, LlamaCpp.model, is_side_call=True)
    conversation, side = chats(server)
    assert conversation["cache_prompt"] is True and "id_slot" not in conversation
    assert side["id_slot"] == 1


async def test_a_single_slot_is_named_to_nobody(http):
    class One(LlamaCpp):
        def get_props(self, request: Request) -> list[bytes]:
            return [json_answer({"total_slots": 1, "default_generation_settings": {"n_ctx": 4096}})]

    async with running(One()) as server:
        provider = OpenAIProvider("up", Endpoint(url=server.url), http)
        await provider.describe(LlamaCpp.model)
        await say(provider, LlamaCpp.model, is_side_call=True)
    assert "id_slot" not in chats(server)[0] and chats(server)[0]["cache_prompt"] is True


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://127.0.0.1:8080/v1", True), ("http://[::1]:8080", True), ("http://192.168.1.7:8000", True),
        ("http://llm:8000/v1", True), ("http://box.local/v1", True), ("https://api.openai.com/v1", False),
        ("https://openrouter.ai/api/v1", False), ("http://8.8.8.8/v1", False),
    ],
)  # fmt: skip
def test_what_is_in_this_network_is_local(url, local):
    assert is_local(url) is local


@pytest.mark.parametrize(
    ("more", "timings"),
    [
        ({"prompt_tokens_details": {"cached_tokens": 90}}, None),
        ({"prompt_cache_hit_tokens": 90, "prompt_cache_miss_tokens": 10}, None),
        ({"cached_tokens": 90}, None),
        ({}, {"cache_n": 90, "prompt_n": 10}),
        ({"prompt_tokens_details": None}, {"cache_n": 90}),
        ({"prompt_tokens_details": {"cached_tokens": "90"}, "cached_tokens": 90}, "odd"),
    ],
)
def test_cached_tokens_are_read_in_every_form_that_backends_have(more, timings):
    usage = read_usage({"prompt_tokens": 100, "completion_tokens": 1, **more}, timings)
    assert (usage.prompt_tokens, usage.cached_tokens) == (100, 90)


async def test_what_llama_cpp_says_in_its_timings_is_reported(http):
    class Timed(LlamaCpp):
        def tail(self, body):
            yield {**delta(), "choices": [], "usage": {"prompt_tokens": 10}, "timings": {"cache_n": 8, "prompt_n": 2}}

    async with running(Timed()) as server:
        chunks = await say(OpenAIProvider("up", Endpoint(url=server.url), http), LlamaCpp.model)
    assert [chunk.usage.cached_tokens for chunk in chunks if isinstance(chunk, UsageChunk)] == [8]


async def test_a_backend_that_reads_far_less_than_it_was_sent_is_told_of_once(http):
    class Cutting(Router):
        def tail(self, body):
            yield {**delta(), "choices": [], "usage": {"prompt_tokens": 2048, "completion_tokens": 1}}

    async with running(Cutting()) as server:
        provider = OpenAIProvider("up", Endpoint(url=server.url), http)
        answers = [await say(provider, "m", messages=(user("word " * words),)) for words in (2000, 20_000, 20_000)]
    notes = [[chunk.text for chunk in chunks if isinstance(chunk, Status)] for chunks in answers]
    assert [len(each) for each in notes] == [0, 1, 0] and "seems to have cut the prompt" in notes[1][0]
