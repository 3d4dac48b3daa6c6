"""The adapter in a real llama.cpp: it picks tools, and chat is what it was without it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aish.net.http.client import HttpClient
from aish.ports import Provider
from aish.process.clock import SystemClock
from aish.providers.embedded import server
from aish.providers.embedded.provider import EmbeddedProvider, EmbeddedSettings
from aish.providers.embedded.server import CHAT, PICKING, find_adapter
from aish.providers.endpoint import Endpoint
from aish.providers.model_store.cache import ModelCache
from aish.providers.openai.provider import OpenAIProvider
from aish.providers.openai.request import Dialect, EncodedCache, encode_request
from aish.providers.tool_calling.provider import ToolCallingProvider
from aish.tools.builtin.runtime import RuntimeTools
from aish.types.chunks import CallFragment, UsageChunk
from aish.types.events import TextDelta
from aish.types.messages import SystemMessage, user
from aish.types.requests import Sampling, StepRequest
from aish.types.usage import Usage
from support.models import THREADS, model_cache  # noqa: F401  a fixture

SYSTEM = SystemMessage("You are a helpful assistant. Answer briefly and plainly.")
TOOLS = tuple(RuntimeTools(SystemClock()).specs())


@pytest.fixture
async def embedded(model_cache: ModelCache) -> AsyncIterator[EmbeddedProvider]:  # noqa: F811
    async with HttpClient() as http:
        provider = EmbeddedProvider(
            model_cache,
            lambda url, key: OpenAIProvider("embedded", Endpoint(url=url, key=key), http),
            EmbeddedSettings(context_size=1024, threads=THREADS),
        )
        yield provider
        await provider.aclose()


def ask(text: str, *, max_tokens: int = 24, **fields: Any) -> StepRequest:
    sampling = Sampling(temperature=0, max_tokens=max_tokens)
    return StepRequest("smollm2", (SYSTEM, user(text)), sampling=sampling, deadline_s=100, **fields)


async def heard(provider: Provider, request: StepRequest) -> tuple[str, list[tuple[str, Any]]]:
    text, calls = "", dict[int | None, list[str]]()
    async with provider.stream(request) as batches:
        async for batch in batches:
            for chunk in batch:
                if isinstance(chunk, TextDelta):
                    text += chunk.text
                elif isinstance(chunk, CallFragment):
                    call = calls.setdefault(chunk.index, ["", ""])
                    call[0] += chunk.name
                    call[1] += chunk.arguments
    return text, [(name, json.loads(arguments)) for name, arguments in calls.values()]


async def test_it_picks_tools_and_leaves_chat_as_it_was(embedded: EmbeddedProvider):
    provider = ToolCallingProvider(embedded)
    before, _ = await heard(embedded, ask("What is the capital of France?"))
    assert (await provider.describe("smollm2")).capabilities.tool_adapter
    _, calls = await heard(provider, ask("what time is it?", tools=TOOLS))
    assert [(name.rpartition("__")[2], arguments) for name, arguments in calls] == [("time", {})]
    _, calls = await heard(provider, ask("add 17 and 25", max_tokens=60, tools=TOOLS))
    assert [(name.rpartition("__")[2], arguments) for name, arguments in calls] == [("add", {"a": 17, "b": 25})]
    after, calls = await heard(provider, ask("What is the capital of France?", tools=TOOLS))
    assert not calls and "Paris" in after
    assert after == before


async def read_of(provider: Provider, request: StepRequest) -> Usage:
    async with provider.stream(request) as batches:
        chunks = [chunk async for batch in batches for chunk in batch]
    return next(chunk.usage for chunk in chunks if isinstance(chunk, UsageChunk))


async def test_a_call_outside_of_the_conversation_leaves_it_in_its_slot(embedded: EmbeddedProvider):
    question = "The cat sat on the mat. " * 20
    first = await read_of(embedded, ask(question, max_tokens=1))
    await read_of(embedded, msgspec.structs.replace(ask("A dog ran. " * 40, max_tokens=1), is_side_call=True))
    second = await read_of(embedded, ask(f"{question} And the dog?", max_tokens=1))
    assert second.cached_tokens >= first.prompt_tokens - 10  # what ends the message


async def test_more_conversations_than_slots_are_all_answered(embedded: EmbeddedProvider):
    questions = [f"I am number {number}. What is the capital of France?" for number in range(4)]
    answers = await asyncio.gather(*(heard(embedded, ask(question)) for question in questions * 2))
    assert all(text for text, _ in answers)


async def test_each_slot_has_the_whole_window(embedded: EmbeddedProvider):
    long = "The cat sat on the mat. " * 110 + "What is the capital of France?"
    provider = ToolCallingProvider(embedded)
    assert (await provider.describe("smollm2")).context_size == 1024
    assert (await heard(embedded, ask(long, max_tokens=4)))[0]
    text, calls = await heard(provider, ask(long[1000:], max_tokens=60, tools=TOOLS))
    assert text or calls


def test_it_is_only_for_the_file_it_was_made_for(
    model_cache: ModelCache,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    model = model_cache.find("smollm2")
    assert model is not None
    adapter = find_adapter(model)
    assert adapter is not None and adapter.stat().st_size <= 20_000_000
    other = tmp_path / "other.gguf"
    with other.open("wb") as file:
        file.write(b"GGUF" + bytes(100))
        file.truncate(model.stat().st_size)
    assert find_adapter(other) is None
    monkeypatch.setattr(server, "_FILE", tmp_path / "none.gguf")
    assert find_adapter(model) is None


def test_each_kind_of_question_has_a_slot_of_its_own():
    bodies = [encode_request(ask("x", tuning=tuning), Dialect(), EncodedCache()) for tuning in (CHAT, PICKING)]
    assert [body["lora"] for body in bodies] == [[{"id": 0, "scale": 0.0}], [{"id": 0, "scale": 1.0}]]
    assert bodies[0]["id_slot"] != bodies[1]["id_slot"]
    assert "lora" not in encode_request(ask("x"), Dialect(), EncodedCache())
