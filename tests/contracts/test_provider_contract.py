"""The Provider port's contract: every adapter passes this one suite."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import pytest

from aish.errors import ModelNotFound, ProviderError, ProviderRejected, ProviderTimeout, ProviderUnavailable
from aish.net.http.client import HttpClient
from aish.ports import Provider
from aish.providers.embedded.provider import EmbeddedProvider, EmbeddedSettings
from aish.providers.endpoint import Endpoint
from aish.providers.model_store.cache import ModelCache
from aish.providers.ollama.provider import OllamaProvider
from aish.providers.openai.provider import OpenAIProvider
from aish.providers.pool import PoolProvider
from aish.providers.scripted import ScriptedProvider, from_steps
from aish.providers.tool_calling.provider import ToolCallingProvider
from aish.types.chunks import Chunk, StepFinished
from aish.types.events import TextDelta
from aish.types.messages import user
from aish.types.requests import Sampling, StepRequest
from aish.types.tools import Effect, ToolSpec
from support.backends import FakeBackend, Ollama, Vllm, running
from support.models import THREADS, model_cache  # noqa: F401  a fixture
from support.raw_server import Peer, RawServer, nothing_left, raw_server

KEY = "sk-very-secret-42"
ADAPTERS = ["openai", "ollama", "scripted", "pool", "toolmode"]
OVER_HTTP = ["openai", "ollama", "pool", "toolmode"]

TOOL = ToolSpec("look", "Looks.", {"type": "object", "properties": {}}, Effect.READ, "test")
Act = Callable[[Peer], Awaitable[None]]


@dataclass
class Backends:
    """Makes providers of one kind over backends of several moods, and ends what it made."""

    kind: str
    stack: AsyncExitStack
    http: HttpClient
    servers: list[RawServer] = field(default_factory=list)

    @property
    def model(self) -> str:
        return {"ollama": Ollama.model, "scripted": "model"}.get(self.kind, Vllm.model)

    def request(self, model: str = "", deadline_s: float = 10) -> StepRequest:
        tools = (TOOL,) if self.kind == "toolmode" else ()
        return StepRequest(model or self.model, (user("hi"),), tools, tool_mode="prompted", deadline_s=deadline_s)

    async def answering(self) -> Provider:
        fake: FakeBackend = Ollama() if self.kind == "ollama" else Vllm()
        items = [TextDelta("The "), TextDelta("answer.")]
        return self._provider(await self._serve(running(fake)), items)

    async def silent(self) -> Provider:
        async def hold(peer: Peer) -> None:
            await peer.request()
            await peer.left()

        return self._provider(await self._serve(raw_server(hold)), [60.0])

    async def stalling(self) -> Provider:
        """Says something, then nothing more."""
        return self._provider(await self._serve(raw_server(self._stall)), [TextDelta("The "), 60.0])

    async def gone(self) -> Provider:
        async with raw_server(lambda peer: peer.left()) as server:
            url = server.url
        return self._provider(url, [ProviderUnavailable("gone")])

    async def talking_nonsense(self) -> Provider:
        async def mumble(peer: Peer) -> None:
            await peer.request()
            await peer.send(b"\x16\x03\x01 what? " + KEY.encode() + b"\r\n\r\n")

        return self._provider(await self._serve(raw_server(mumble)), [ProviderError("nonsense")])

    async def refusing_the_key(self) -> Provider:
        async def refuse(peer: Peer) -> None:
            await peer.request()
            body = b'{"error": "the key %s is not valid"}' % KEY.encode()
            await peer.send(b"HTTP/1.1 401 X\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))

        return self._provider(await self._serve(raw_server(refuse)), [ProviderError("no")])

    async def played(self, script: Act) -> Provider:
        return self._provider(await self._serve(raw_server(script)), [])

    def line(self, text: str) -> bytes:
        """A piece of a streamed answer, as this backend says it."""
        if self.kind == "ollama":
            return b'{"message": {"content": "%b"}}\n' % text.encode()
        return b'data: {"choices": [{"delta": {"content": "%b"}}]}\n\n' % text.encode()

    def last_line(self) -> bytes:
        if self.kind == "ollama":
            return b'{"message": {"content": ""}, "done": true, "done_reason": "stop"}\n'
        return b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'

    async def _stall(self, peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\n\r\n" + self.line("The "))
        await peer.left()

    async def _serve(self, server) -> str:
        if self.kind == "scripted":
            return ""
        self.servers.append(await self.stack.enter_async_context(server))
        return self.servers[-1].url

    def _provider(self, url: str, items: list) -> Provider:
        endpoint = Endpoint(url=url, key=KEY)
        match self.kind:
            case "openai":
                return OpenAIProvider("one", endpoint, self.http)
            case "ollama":
                return OllamaProvider("one", endpoint, self.http)
            case "pool":
                members = [OpenAIProvider("one", endpoint, self.http) for _ in range(2)]
                return PoolProvider("one", members)
            case "toolmode":
                return ToolCallingProvider(OpenAIProvider("one", endpoint, self.http))
            case _:
                return ScriptedProvider("one", {"model": from_steps([items])})


async def _backends(kind: str) -> AsyncIterator[Backends]:
    async with nothing_left(), AsyncExitStack() as stack, HttpClient() as http:
        yield Backends(kind, stack, http)


@pytest.fixture(params=ADAPTERS)
async def backends(request: pytest.FixtureRequest) -> AsyncIterator[Backends]:
    async for made in _backends(request.param):
        yield made


@pytest.fixture(params=OVER_HTTP)
async def http_backends(request: pytest.FixtureRequest) -> AsyncIterator[Backends]:
    async for made in _backends(request.param):
        yield made


async def say(provider: Provider, request: StepRequest) -> list[Chunk]:
    async with asyncio.timeout(100), provider.stream(request) as chunks:
        return [chunk async for batch in chunks for chunk in batch]


async def test_the_last_chunk_and_no_other_says_that_the_step_has_finished(backends: Backends):
    chunks = await say(await backends.answering(), backends.request())
    assert [isinstance(chunk, StepFinished) for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta)).startswith("The answer")


class Said:
    """Takes what it is told, every other time; knows how much had come in batches by then."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.said: list[str] = []
        self._is_ready = True
        self._passes: Callable[[str], bool] = lambda text: True

    def scan_with(self, passes: Callable[[str], bool]) -> None:
        self._passes = passes

    def accept(self, text: str) -> bool:
        assert self.order, "not before the first batch"
        is_taken, self._is_ready = self._is_ready, not self._is_ready
        is_taken = is_taken and self._passes(text)
        if is_taken:
            self.said.append(text)
            self.order.append(text)
        return is_taken


async def test_words_that_are_taken_are_in_no_batch_and_both_together_are_the_answer(backends: Backends):
    provider, told = await backends.answering(), Said()
    plain = [chunk.text for chunk in await say(provider, backends.request()) if isinstance(chunk, TextDelta)]
    async with asyncio.timeout(100), provider.stream(backends.request(), told) as batches:
        async for batch in batches:
            told.order += [chunk.text for chunk in batch if isinstance(chunk, TextDelta)]
    assert "".join(told.order) == "".join(plain)


async def test_words_that_come_one_by_one_are_told_as_they_come(http_backends: Backends):
    """Where the provider does that at all: those that do not hand them out in batches, which is right, too."""
    words, seen = ["The ", "answer ", "is ", "42", "."], asyncio.Semaphore(0)

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
        for word in words:
            await peer.send(http_backends.line(word))
            async with asyncio.timeout(10):
                await seen.acquire()
        await peer.send(http_backends.last_line())

    class Told(Said):
        def accept(self, text: str) -> bool:
            self._is_ready = True
            seen.release()
            return super().accept(text)

    provider, told = await http_backends.played(script), Told()
    async with asyncio.timeout(100), provider.stream(http_backends.request(), told) as batches:
        async for batch in batches:
            for chunk in batch:
                if isinstance(chunk, TextDelta):
                    told.order.append(chunk.text)
                    seen.release()
    assert told.order == words
    assert told.said == ([] if http_backends.kind == "ollama" else words[2:])  # what they look like is learned first


async def test_the_same_provider_answers_again_and_several_at_once(backends: Backends):
    provider = await backends.answering()
    answers = await asyncio.gather(*(say(provider, backends.request()) for _ in range(5)))
    assert all(answer == answers[0] for answer in answers)
    assert await say(provider, backends.request()) == answers[0]


async def test_entering_a_stream_asks_nothing_yet(http_backends: Backends):
    provider = await http_backends.answering()
    async with provider.stream(http_backends.request()):
        await asyncio.sleep(0)
    assert http_backends.servers[0].peers == []


async def test_entering_a_stream_of_a_backend_that_is_gone_fails_only_when_read(backends: Backends):
    provider = await backends.gone()
    async with provider.stream(backends.request()) as chunks:
        with pytest.raises(ProviderUnavailable):
            await anext(chunks)


async def test_leaving_early_ends_the_request_at_the_backend(http_backends: Backends):
    provider = await http_backends.stalling()
    async with provider.stream(http_backends.request()) as chunks:
        assert await anext(chunks) == [TextDelta("The ")]
    await http_backends.servers[0].scripts_ended()


async def test_leaving_by_an_exception_ends_the_request_and_lets_it_through(backends: Backends):
    provider = await backends.stalling()
    with pytest.raises(ZeroDivisionError):
        async with provider.stream(backends.request()) as chunks:
            await anext(chunks)
            raise ZeroDivisionError
    for server in backends.servers:
        await server.scripts_ended()


async def test_cancelling_the_reader_ends_the_request_at_the_backend(backends: Backends):
    provider = await backends.stalling()
    begun = asyncio.Event()

    async def read() -> None:
        async with provider.stream(backends.request()) as chunks:
            async for _ in chunks:
                begun.set()

    task = asyncio.create_task(read())
    async with asyncio.timeout(10):
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    for server in backends.servers:
        await server.scripts_ended()


@pytest.mark.parametrize("mood", ["silent", "stalling"])
async def test_nothing_takes_longer_than_the_deadline(backends: Backends, mood: str):
    provider = await getattr(backends, mood)()
    with pytest.raises(ProviderTimeout) as caught:
        await say(provider, backends.request(deadline_s=0.1))
    assert caught.value.is_deadline
    for server in backends.servers:
        await server.scripts_ended()


@pytest.mark.parametrize("deadline_s", [0.0, -1.0])
async def test_a_deadline_that_has_passed_is_a_timeout(http_backends: Backends, deadline_s: float):
    provider = await http_backends.silent()
    with pytest.raises(ProviderTimeout) as caught:
        await say(provider, http_backends.request(deadline_s=deadline_s))
    assert caught.value.is_deadline


@pytest.mark.parametrize("mood", ["gone", "talking_nonsense", "refusing_the_key"])
async def test_every_failure_is_a_provider_error_with_a_sentence_and_without_the_key(backends: Backends, mood: str):
    provider = await getattr(backends, mood)()
    with pytest.raises(ProviderError) as caught:
        await say(provider, backends.request())
    assert caught.value.message
    seen = f"{caught.value!r} {caught.value} {caught.value.hint} {caught.value.__cause__!r}"
    assert KEY not in seen


@pytest.mark.parametrize("mood", ["gone", "talking_nonsense", "refusing_the_key"])
@pytest.mark.parametrize("ask", ["list_models", "describe", "embed"])
async def test_so_is_every_failure_of_a_question(http_backends: Backends, mood: str, ask: str):
    provider = await getattr(http_backends, mood)()
    arguments = {"list_models": (), "describe": ("m",), "embed": ("m", ["text"])}[ask]
    with pytest.raises(ProviderError) as caught:
        await getattr(provider, ask)(*arguments)
    assert KEY not in f"{caught.value!r} {caught.value.hint}"


@pytest.mark.parametrize("mood", ["answering", "gone", "talking_nonsense", "refusing_the_key"])
async def test_counting_tokens_never_raises(backends: Backends, mood: str):
    provider = await getattr(backends, mood)()
    for text in ("one two", "", "\udcff \ud83d", "x" * 100_000):
        count = await provider.count_tokens(backends.model, text)
        assert count is None or count >= 0


async def test_what_is_listed_can_be_described(backends: Backends):
    provider = await backends.answering()
    (listed,) = await provider.list_models()
    described = await provider.describe(listed.id)
    assert (described.name, listed.provider) == (f"one:{backends.model}", provider.name)
    assert described.context_size is not None and described.context_size > 0


async def test_an_unknown_model_is_not_found_wherever_it_is_named(backends: Backends):
    provider = await backends.answering()
    with pytest.raises(ModelNotFound):
        await provider.describe("nope")
    with pytest.raises(ModelNotFound):
        await say(provider, backends.request("nope"))


async def test_embeddings_are_one_for_each_text_or_a_provider_error(backends: Backends):
    provider = await backends.answering()
    try:
        embedded = await provider.embed(backends.model, ["a", "bb"])
    except ProviderError as exc:
        assert "embeddings" in exc.message
    else:
        assert [vector[0] for vector in embedded.vectors] == [1, 2]


async def test_closing_twice_is_closing_once(backends: Backends):
    provider = await backends.answering()
    await say(provider, backends.request())
    await provider.aclose()
    await provider.aclose()


async def test_a_key_never_shows(backends: Backends):
    provider = await backends.answering()
    endpoint = Endpoint(url="http://127.0.0.1:1", key=KEY, headers={"x-key": KEY})
    assert KEY not in f"{provider!r} {provider} {endpoint!r} {endpoint} {endpoint.__rich_repr__()}"


async def test_the_embedded_model_keeps_the_same_promises(model_cache: ModelCache):  # noqa: F811
    """With the real llama.cpp, in one life: loading it for each promise would take too long."""
    async with nothing_left(), HttpClient() as http:
        provider = EmbeddedProvider(
            model_cache,
            lambda url, key: OpenAIProvider("embedded", Endpoint(url=url, key=key), http),
            EmbeddedSettings(context_size=1024, threads=THREADS),
        )
        request = StepRequest("smollm2", (user("Say yes."),), sampling=Sampling(max_tokens=4), deadline_s=60)
        try:
            chunks = await say(provider, request)
            assert [isinstance(chunk, StepFinished) for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
            assert await provider.count_tokens("smollm2", "one two three") == 3
            assert await provider.count_tokens("smollm2", "\udcff") is not None
            assert (await provider.describe("smollm2")).context_size == 1024
            with pytest.raises(ModelNotFound):
                await say(provider, StepRequest("nope", request.messages))
            with pytest.raises(ProviderTimeout) as late:
                await say(provider, StepRequest("smollm2", (user("Count to one thousand."),), deadline_s=0.001))
            assert late.value.is_deadline
            with pytest.raises(ProviderRejected, match="exceeds the available context size") as caught:
                await say(provider, StepRequest("smollm2", (user("word " * 2000),), deadline_s=60))
            assert caught.value.hint.startswith("the conversation no longer fits the model")
        finally:
            await provider.aclose()
            await provider.aclose()
