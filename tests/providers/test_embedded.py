"""The embedded model, with a real llama.cpp in a real child."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aish.errors import ModelNotFound, ProviderError, ProviderRejected, ProviderTimeout, ProviderUnavailable
from aish.net.http.client import HttpClient
from aish.ports import Provider
from aish.providers.embedded.provider import EmbeddedProvider, EmbeddedSettings
from aish.providers.model_store.cache import ModelCache
from aish.providers.openai.provider import Endpoint, OpenAIProvider
from aish.types.chunks import StepEnd, StepFinished, UsageChunk
from aish.types.events import Status, TextDelta
from aish.types.messages import TextPart, UserMessage
from aish.types.requests import Sampling, StepRequest
from support.eventually import eventually
from support.models import THREADS, model_cache  # noqa: F401  a fixture
from support.processes import is_running

FRANCE = "What is the capital of France?"
LONG = "Count from one to one thousand, in words, and do not stop."


class Bench:
    """A provider with its parts in view."""

    def __init__(self, cache: ModelCache, **settings: Any) -> None:
        self.http = HttpClient()
        self.addresses: list[tuple[str, str]] = []
        self.now_s = 0.0
        self.provider = EmbeddedProvider(
            cache, self.make_inner, EmbeddedSettings(**{"threads": THREADS, **settings}), monotonic_s=lambda: self.now_s
        )

    def make_inner(self, base_url: str, key: str) -> Provider:
        self.addresses.append((base_url, key))
        return OpenAIProvider("embedded", Endpoint(base_url, key), self.http)

    async def get(self, path: str, *, key: str | None = None) -> tuple[int, Any]:
        base_url, its_key = self.addresses[-1]
        headers = {"authorization": f"Bearer {key or its_key}"}
        url = base_url.removesuffix("/v1") + path
        async with self.http.request("GET", url, headers=headers) as response:
            return response.status, msgspec.json.decode(await response.read())

    @property
    def child_pid(self) -> int:
        assert self.provider._engine is not None and self.provider._engine._child is not None
        return self.provider._engine._child.pid

    async def is_generating(self) -> bool:
        return any(slot["is_processing"] for slot in (await self.get("/slots"))[1])


@pytest.fixture
async def bench(model_cache: ModelCache) -> AsyncIterator[Bench]:  # noqa: F811
    bench = Bench(model_cache)
    yield bench
    await bench.provider.aclose()
    await bench.http.aclose()


def ask(text: str, *, model: str = "smollm2", max_tokens: int = 24, deadline_s: float = 60.0) -> StepRequest:
    sampling = Sampling(temperature=0, max_tokens=max_tokens)
    return StepRequest(model, (UserMessage((TextPart(text),)),), sampling=sampling, deadline_s=deadline_s)


async def answer(provider: Provider, request: StepRequest) -> str:
    async with provider.stream(request) as chunks:
        return "".join([chunk.text async for batch in chunks for chunk in batch if isinstance(chunk, TextDelta)])


def read_proc(pid: int, name: str) -> bytes:
    return Path(f"/proc/{pid}/{name}").read_bytes()


# Answering


async def test_it_answers_and_says_once_that_it_loads(bench: Bench) -> None:
    async with bench.provider.stream(ask(FRANCE)) as stream:
        chunks = [chunk async for batch in stream for chunk in batch]
    text = "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))
    assert "Paris" in text
    assert chunks[-1] == StepFinished(StepEnd.STOP)
    assert any(isinstance(chunk, UsageChunk) and chunk.usage.completion_tokens > 3 for chunk in chunks)
    said = [chunk.text for chunk in chunks if isinstance(chunk, Status)]
    if said:  # not on a machine that loads in under 0.3 s
        assert said[0] == "loading smollm2 …" and said[1].startswith("loaded in ") and len(said) == 2


async def test_it_tells_how_likely_its_tokens_were(bench: Bench) -> None:
    request = ask(FRANCE)
    request = msgspec.structs.replace(request, sampling=msgspec.structs.replace(request.sampling, logprobs=2))
    async with bench.provider.stream(request) as stream:
        words = [chunk async for batch in stream for chunk in batch if isinstance(chunk, TextDelta)]
    tokens = [token for word in words for token in word.logprobs or ()]
    assert "".join(token["token"] for token in tokens) == "".join(word.text for word in words)
    assert all(token["logprob"] <= 0 and len(token["top_logprobs"]) == 2 for token in tokens)


async def test_entering_a_stream_starts_nothing_and_a_second_request_uses_the_same_child(bench: Bench) -> None:
    async with bench.provider.stream(ask(FRANCE)):
        assert bench.provider._engine is None
    both = await asyncio.gather(answer(bench.provider, ask(FRANCE)), answer(bench.provider, ask(FRANCE)))
    assert all("Paris" in text for text in both)
    assert len(bench.addresses) == 1
    async with bench.provider.stream(ask(FRANCE)) as stream:
        assert not [chunk async for batch in stream for chunk in batch if isinstance(chunk, Status)]


async def test_describe_count_and_embed_ask_the_real_model(model_cache: ModelCache) -> None:  # noqa: F811
    bench = Bench(model_cache, context_size=4096, parallel=2)
    try:
        info = await bench.provider.describe("smollm2")
        assert (info.provider, info.id, info.context_size) == ("embedded", "smollm2", 2048)
        assert info.capabilities.tokenize and info.capabilities.embeddings and not info.capabilities.native_tools
        assert await bench.provider.count_tokens("smollm2", "hello world") == 2
        near, same, far = (
            await bench.provider.embed("smollm2", ["a cat", "a cat", "stock market crash of 1929"])
        ).vectors
        assert near == pytest.approx(same, abs=1e-3) and near != pytest.approx(far, abs=1e-3)
        ids = (await bench.provider.embed("smollm2", [[28120, 905], [28120, 905], [7, 8, 9]])).vectors
        assert ids[0] == pytest.approx(ids[1], abs=1e-3) and ids[0] != pytest.approx(ids[2], abs=1e-3)
        with pytest.raises(ProviderRejected):
            await bench.provider.embed("smollm2", [[2**31 - 1]])
        assert [model.name for model in await bench.provider.list_models()].count("embedded:smollm2") == 1
    finally:
        await bench.provider.aclose()
        await bench.http.aclose()


async def test_a_model_is_also_found_by_the_path_of_its_file(bench: Bench, tmp_path: Path) -> None:
    found = bench.provider._models.find("smollm2")
    assert found is not None
    (tmp_path / "mine.gguf").symlink_to(found)
    assert "Paris" in await answer(bench.provider, ask(FRANCE, model=str(tmp_path / "mine.gguf")))


async def test_only_the_one_who_knows_the_key_is_answered(bench: Bench) -> None:
    await bench.provider.describe("smollm2")
    assert (await bench.get("/props", key="guessed"))[0] == 401
    assert (await bench.get("/props"))[0] == 200
    _, key = bench.addresses[0]
    for shown in ("cmdline", "environ"):
        assert key.encode() not in read_proc(bench.child_pid, shown)


async def test_leaving_a_stream_early_stops_the_generation_at_the_server(bench: Bench) -> None:
    async with bench.provider.stream(ask(LONG, max_tokens=3000)) as stream:
        async for chunk, *_ in stream:
            if isinstance(chunk, TextDelta):
                break
        assert await bench.is_generating()

    async def is_quiet() -> bool:
        return not await bench.is_generating()

    await eventually(is_quiet, 3)
    assert "Paris" in await answer(bench.provider, ask(FRANCE))


# Going wrong


async def test_a_crash_fails_the_request_and_the_next_one_starts_it_again(bench: Bench) -> None:
    with pytest.raises(ProviderUnavailable, match=r"stopped: llama.cpp was killed by signal 9"):
        async with bench.provider.stream(ask(LONG, max_tokens=3000)) as stream:
            async for chunk, *_ in stream:
                if isinstance(chunk, TextDelta):
                    os.kill(bench.child_pid, signal.SIGKILL)
    assert "Paris" in await answer(bench.provider, ask(FRANCE))
    assert len(bench.addresses) == 2


async def test_after_four_crashes_in_a_minute_it_stays_down_until_a_minute_has_passed(bench: Bench) -> None:
    for _ in range(4):
        await bench.provider.describe("smollm2")
        os.kill(bench.child_pid, signal.SIGKILL)
        engine = bench.provider._engine
        assert engine is not None
        await eventually(engine.ended.is_set)
    bench.now_s = 59.0
    with pytest.raises(ProviderUnavailable, match="crashed 4 times within a minute; tried again in 1 s"):
        await answer(bench.provider, ask(FRANCE))
    assert await bench.provider.count_tokens("smollm2", "hello") is None
    bench.now_s = 61.0
    assert "Paris" in await answer(bench.provider, ask(FRANCE))


async def test_a_file_that_is_no_model_gives_a_plain_error(bench: Bench, tmp_path: Path) -> None:
    junk, cut = tmp_path / "junk.gguf", tmp_path / "cut.gguf"
    junk.write_bytes(b"<html>not found</html>")
    cut.write_bytes(b"GGUF\x03\x00\x00\x00" + b"\xff" * 100)
    with pytest.raises(ProviderRejected, match=r"junk\.gguf is not a GGUF file"):
        await bench.provider.describe(str(junk))
    with pytest.raises(ProviderRejected, match=r"cannot load .*cut\.gguf: \w+"):
        await answer(bench.provider, ask(FRANCE, model=str(cut)))
    with pytest.raises(ModelNotFound, match="there is no model file"):
        await bench.provider.describe(str(tmp_path / "gone.gguf"))
    assert "Paris" in await answer(bench.provider, ask(FRANCE))


async def test_what_is_missing_is_said_with_the_command_that_helps(
    tmp_path: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = Bench(ModelCache(tmp_path))
    with pytest.raises(ModelNotFound) as no_model:
        await answer(empty.provider, ask(FRANCE))
    assert no_model.value.hint == "aish models pull smollm2"
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(ProviderUnavailable) as no_engine:
        await answer(bench.provider, ask(FRANCE))
    assert no_engine.value.hint == "pip install 'aish-runtime[local]'"
    await empty.http.aclose()


async def test_a_start_that_takes_too_long_is_given_up(model_cache: ModelCache) -> None:  # noqa: F811
    bench = Bench(model_cache, start_timeout_s=0.05)
    with pytest.raises(ProviderUnavailable, match=r"did not load within 0\.05 s"):
        await answer(bench.provider, ask(FRANCE))
    await bench.provider.aclose()
    await bench.http.aclose()


# Starting, stopping, sharing


async def test_an_idle_child_is_stopped_and_comes_back_when_needed(model_cache: ModelCache) -> None:  # noqa: F811
    bench = Bench(model_cache, idle_stop_s=0.1)
    await bench.provider.describe("smollm2")
    pid = bench.child_pid
    await eventually(lambda: not is_running(pid))
    assert "Paris" in await answer(bench.provider, ask(FRANCE))
    await bench.provider.aclose()
    await bench.http.aclose()


async def test_zero_means_the_models_own_context_and_never_an_idle_stop(model_cache: ModelCache) -> None:  # noqa: F811
    bench = Bench(model_cache, context_size=0, idle_stop_s=0)
    assert (await bench.provider.describe("smollm2")).context_size == 8192
    assert bench.provider._idle is None
    await bench.provider.aclose()
    await bench.http.aclose()


async def test_two_models_take_turns_with_one_child_at_a_time(bench: Bench, tmp_path: Path) -> None:
    found = bench.provider._models.find("smollm2")
    assert found is not None
    other = tmp_path / "other.gguf"
    other.symlink_to(found)
    async with bench.provider.stream(ask(LONG, max_tokens=60)) as stream:
        async for chunk, *_ in stream:
            if isinstance(chunk, TextDelta):
                break
        first = bench.child_pid
        with pytest.raises(ProviderTimeout, match="had to wait too long"):
            await answer(bench.provider, ask(FRANCE, model=str(other), deadline_s=0.2))
        waiting = asyncio.create_task(answer(bench.provider, ask(FRANCE, model=str(other))))
        rest = [chunk async for batch in stream for chunk in batch]
        assert isinstance(rest[-1], StepFinished)
        assert not waiting.done()
    assert "Paris" in await waiting
    assert not is_running(first)
    assert await bench.provider.count_tokens("smollm2", "not worth a switch") is None


async def test_cancelling_the_first_request_while_it_loads_does_not_spoil_the_second(bench: Bench) -> None:
    first = asyncio.create_task(answer(bench.provider, ask(FRANCE)))
    second = asyncio.create_task(answer(bench.provider, ask(FRANCE)))
    await eventually(lambda: bench.provider._engine is not None and bench.provider._engine.users == 2)
    first.cancel()
    assert "Paris" in await second
    assert len(bench.addresses) == 1


async def test_closing_ends_the_child_whatever_it_does_and_stays_closed(bench: Bench) -> None:
    started = time.monotonic()
    with pytest.raises(ProviderError):
        async with bench.provider.stream(ask(LONG, max_tokens=3000)) as stream:
            async for chunk, *_ in stream:
                if isinstance(chunk, TextDelta):
                    pid = bench.child_pid
                    await bench.provider.aclose()
    assert not is_running(pid)
    assert time.monotonic() - started < 30
    await bench.provider.aclose()
    with pytest.raises(ProviderUnavailable, match="shut down"):
        await answer(bench.provider, ask(FRANCE))
