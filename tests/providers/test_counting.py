"""BackendTokenCounter tokens: what the backend says, what becomes of one that says nothing, and a file of the user's
own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aish.errors import ConfigError
from aish.net.http.client import HttpClient, Timeouts
from aish.providers.endpoint import Endpoint
from aish.providers.ollama.provider import OllamaProvider
from aish.providers.openai import token_counting
from aish.providers.openai.provider import OpenAIProvider
from aish.providers.tokenizer_file import TokenizerFile
from aish.types.messages import SystemMessage, user
from aish.types.requests import StepRequest
from aish.types.tools import Effect, ToolSpec
from support.backends import LlamaCpp, Ollama, OpenAIBackend, Vllm, answer, body_of, json_answer, running

MODEL = OpenAIBackend.model
PROMPT = StepRequest(MODEL, (SystemMessage("be brief"), user("one two three")))
TOOLS = (ToolSpec("a__b", "does it", {"type": "object"}, Effect.READ, "a"),)


class Templated(LlamaCpp):
    """Renders as `<role> words </role>`, and tools as a word each."""

    def post_apply_template(self, request) -> list[bytes]:
        body = body_of(request)
        said = [f"<{m['role']}> {m['content']} </{m['role']}>" for m in body["messages"]]
        tools = [tool["function"]["name"] for tool in body.get("tools", ())]
        return [json_answer({"prompt": " ".join([*tools, *said])})]


class Whole(Vllm):
    """Counts messages as they are."""

    def post_tokenize(self, request) -> list[bytes]:
        body = body_of(request)
        if "messages" not in body:
            return super().post_tokenize(request)
        count = sum(len(m["content"].split()) + 2 for m in body["messages"]) + len(body.get("tools", ()))
        return [json_answer({"count": count})]


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    async with HttpClient() as client:
        yield client


def provider_at(url: str, http: HttpClient, **settings) -> OpenAIProvider:
    return OpenAIProvider("up", Endpoint(url=url, **settings), http)


@pytest.mark.parametrize("fake", [Templated, Whole])
async def test_a_whole_prompt_is_counted_with_its_template_and_tools(fake, http):
    async with running(fake()) as server:
        provider = provider_at(server.url, http)
        assert await provider.count_prompt(PROMPT) == 9
        assert await provider.count_prompt(StepRequest(MODEL, PROMPT.messages, TOOLS)) == 10


async def test_a_backend_that_cannot_is_asked_once(http):
    async with running(OpenAIBackend()) as server:
        provider = provider_at(server.url, http)
        for _ in range(3):
            assert await provider.count_prompt(PROMPT) is None
            assert await provider.count_tokens(MODEL, "one") is None
        asked = [request.path for request in server.requests]
        assert len(asked) == len(set(asked))


BAD_ANSWERS = {
    "text": answer(200, b"<html>hello</html>", kind="text/html"),
    "another shape": json_answer({"result": [1, 2]}),
    "a list": json_answer([1, 2, 3]),
    "a word for a count": json_answer({"count": "many"}),
    "nothing": answer(200, b""),
}


@pytest.mark.parametrize("bad", BAD_ANSWERS.values(), ids=BAD_ANSWERS)
async def test_an_answer_that_is_no_count_is_no_failure(bad, http):
    class Odd(LlamaCpp):
        def post_tokenize(self, request) -> list[bytes]:
            return [bad]

    async with running(Odd()) as server:
        provider = provider_at(server.url, http)
        assert await provider.count_tokens(MODEL, "one") is None
        assert await provider.count_prompt(PROMPT) is None


async def test_a_tokenizer_that_hangs_costs_one_wait_and_is_left_alone(http, monkeypatch):
    monkeypatch.setattr(token_counting, "_TIMEOUTS", Timeouts(connect_s=1, first_byte_s=0.1, idle_s=0.1, total_s=0.1))

    class Hanging(LlamaCpp):
        def post_tokenize(self, request) -> list[bytes]:
            return []

    async with running(Hanging()) as server, asyncio.timeout(10):
        provider = provider_at(server.url, http)
        for _ in range(5):
            assert await provider.count_tokens(MODEL, "one") is None
        assert sum(request.path == "/tokenize" for request in server.requests) == 1


@pytest.fixture
def tokenizer_file(tmp_path: Path) -> Path:
    vocabulary = {"[UNK]": 0, "one": 1, "two": 2, "three": 3}
    file = tmp_path / "tokenizer.json"
    model = {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"}
    file.write_text(
        json.dumps({"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"}, "model": model})
    )
    return file


async def test_a_tokenizer_file_counts_where_the_backend_cannot(http, tokenizer_file):
    count = TokenizerFile(tokenizer_file).count
    async with running(OpenAIBackend()) as server:
        assert await provider_at(server.url, http, count_text=count).count_tokens(MODEL, "one two three") == 3
    async with running(Ollama()) as server:
        ollama = OllamaProvider("up", Endpoint(url=server.url, count_text=count), http)
        assert await ollama.count_tokens("m", "one two") == 2


def test_a_file_that_is_no_tokenizer_counts_nothing_and_says_why(tmp_path):
    file = TokenizerFile(tmp_path / "missing.json")
    assert file.count("one") is None and file.count("two") is None
    with pytest.raises(ConfigError, match=r"missing\.json is no tokenizer"):
        file.check()
