"""An endpoint that takes a request and says nothing: is it gone, or does it think?"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing

import pytest

from aish.errors import ProviderProtocolError, ProviderTimeout, ProviderUnavailable, WireTimeout
from aish.net.http.client import HttpClient
from aish.net.http.connection import explain_connect_error
from aish.ports import TextRelay
from aish.providers.endpoint import Endpoint
from aish.providers.openai.provider import OpenAIProvider
from aish.providers.pool import PoolProvider, watch_silence
from aish.providers.scripted import ScriptedProvider
from aish.types.chunks import Batch
from aish.types.events import TextDelta
from aish.types.messages import user
from aish.types.requests import StepRequest
from support.backends import ANSWER, Vllm, json_answer, running
from support.raw_server import Peer, RawServer, nothing_left, raw_server

SILENCE_S, ANSWER_S = 0.1, 0.5
PATIENCE_S = SILENCE_S + 2 * ANSWER_S


class Thinking(Vllm):
    """Answers when it has been asked for its models often enough; those questions with `status`."""

    def __init__(self, status: int = 200, questions: int = 4) -> None:
        self.status = status
        self.left = questions
        self.enough = asyncio.Event()

    async def serve(self, peer: Peer) -> None:
        while True:
            request = await peer.request()
            if request.path == "/v1/models":
                self.left -= 1
                if not self.left:
                    self.enough.set()
                if self.status == 0:
                    return  # closed without a word
                refused = [json_answer({"error": {"message": "no"}}, self.status)]
                await peer.send(*(self.respond(request) if self.status == 200 else refused))
            else:
                await self.enough.wait()
                await peer.send(*self.respond(request))


async def dead(peer: Peer) -> None:
    """As a stopped process: the system accepts for it, and there is never a word."""
    await peer.left()


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    async with HttpClient() as client:
        yield client


def provider_of(http: HttpClient, url: str, models: Sequence[str] = ()) -> OpenAIProvider:
    return OpenAIProvider("pool", Endpoint(url=url, models=tuple(models)), http)


def pool_of(http: HttpClient, *servers: RawServer, models: Sequence[str] = ()) -> PoolProvider:
    members = [provider_of(http, server.url, models) for server in servers]
    return PoolProvider("pool", members, silence_s=SILENCE_S, answer_s=ANSWER_S)


async def say(pool: PoolProvider, *, deadline_s: float = 30.0) -> str:
    request = StepRequest(Vllm.model, (user("hi"),), deadline_s=deadline_s)
    async with asyncio.timeout(40), pool.stream(request) as chunks:
        return "".join([chunk.text async for batch in chunks for chunk in batch if isinstance(chunk, TextDelta)])


def chats(server: RawServer) -> int:
    return sum(request.path.endswith("/chat/completions") for request in server.requests)


async def test_one_that_is_gone_is_left_for_the_next_and_set_aside(http: HttpClient) -> None:
    async with raw_server(dead) as gone, running(Vllm()) as ready:
        pool = pool_of(http, gone, ready)
        assert await say(pool) == "".join(ANSWER)
        assert await say(pool) == "".join(ANSWER)
        assert chats(ready) == 2
        assert len(gone.peers) == 3  # the request, and two questions whether it is there


@pytest.mark.parametrize("status", [200, 401, 404, 500, 502, 503, 0])
async def test_one_that_answers_anything_is_waited_for(http: HttpClient, status: int) -> None:
    """0: it closes the connection of the question."""
    async with running(Thinking(status)) as thinking, running(Vllm()) as other:
        assert await say(pool_of(http, thinking, other)) == "".join(ANSWER)
        assert chats(thinking) == 1
        assert chats(other) == 0


async def test_one_that_takes_no_new_connections_is_waited_for(http: HttpClient) -> None:
    """As a server that ends when it is through with what it has."""
    asked, answer = asyncio.Event(), asyncio.Event()

    class Draining(Vllm):
        async def serve(self, peer: Peer) -> None:
            request = await peer.request()
            asked.set()
            await answer.wait()
            await peer.send(*self.respond(request))

    async with raw_server(Draining().serve) as draining, running(Vllm()) as other:
        said = asyncio.ensure_future(say(pool_of(http, draining, other)))
        await asked.wait()
        draining.refuse()
        await asyncio.sleep(2 * PATIENCE_S)
        answer.set()
        assert await said == "".join(ANSWER)
        assert chats(other) == 0


async def test_the_last_one_is_waited_for_until_the_request_is_due(http: HttpClient) -> None:
    async with raw_server(dead) as gone, raw_server(dead) as other:
        with pytest.raises(ProviderTimeout) as failed:
            await say(pool_of(http, gone, other), deadline_s=PATIENCE_S + 2)
        assert failed.value.is_deadline
        assert len(other.peers) == 1


async def test_embeddings_do_not_wait_for_one_that_is_gone(http: HttpClient) -> None:
    async with raw_server(dead) as gone, running(Vllm()) as ready:
        async with asyncio.timeout(30):
            assert len((await pool_of(http, gone, ready).embed(Vllm.model, ["x"])).vectors) == 1


async def test_nobody_is_left_for_one_that_is_set_aside(http: HttpClient) -> None:
    async with raw_server(dead) as silent, running(Vllm()) as other:
        pool = pool_of(http, silent, other)
        pool._members[1].rests_until_s = float("inf")
        with pytest.raises(ProviderTimeout) as failed:
            await say(pool, deadline_s=2 * PATIENCE_S)
        assert failed.value.is_deadline
        assert len(silent.peers) == 1
        assert chats(other) == 0


@pytest.mark.parametrize("wait_s", [SILENCE_S / 2, SILENCE_S + ANSWER_S / 2])
async def test_whoever_leaves_meanwhile_leaves_nothing_behind(http: HttpClient, wait_s: float) -> None:
    """In silence, and while it is asked."""
    async with raw_server(dead) as one, raw_server(dead) as other:
        pool = pool_of(http, one, other)
        before = asyncio.all_tasks()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(wait_s):
                await say(pool)
        assert {task for task in asyncio.all_tasks() - before if "_check_repeatedly" in repr(task.get_coro())} == set()
        assert pool._members[0].rests_until_s == 0.0
        assert pool._members[0].in_flight == 0


async def test_what_is_known_without_asking_tells_nothing(http: HttpClient) -> None:
    """With its models in the configuration nobody asks it for them."""
    async with raw_server(dead) as gone, running(Vllm()) as ready:
        with pytest.raises(ProviderTimeout):
            await say(pool_of(http, gone, ready, models=[Vllm.model]), deadline_s=2 * PATIENCE_S)
        assert chats(ready) == 0


async def test_it_is_said_what_happened(http: HttpClient) -> None:
    async with nothing_left(), raw_server(dead) as gone:
        with pytest.raises(ProviderUnavailable) as failed:
            async with watch_silence(provider_of(http, gone.url), silence_s=SILENCE_S, answer_s=ANSWER_S):
                await asyncio.sleep(30)
        assert failed.value.message == "pool: no answer within 0.5 s; it had taken a request and said nothing"


def test_a_host_that_cannot_be_reached_is_silent() -> None:
    error = explain_connect_error(OSError(errno.EHOSTUNREACH, "No route to host"), "http://10.0.0.5")
    assert isinstance(error, WireTimeout)
    assert error.message == "http://10.0.0.5: cannot connect: No route to host"


async def test_one_that_ends_without_a_word_has_failed() -> None:
    class Empty(ScriptedProvider):
        async def _nothing(self) -> AsyncGenerator[Batch, None]:
            for batch in ():
                yield batch

        def stream(
            self, request: StepRequest, relay: TextRelay | None = None
        ) -> AbstractAsyncContextManager[AsyncGenerator[Batch, None]]:
            return aclosing(self._nothing())

    with pytest.raises(ProviderProtocolError, match="answered with nothing"):
        await say(PoolProvider("pool", [Empty("a", {}), Empty("b", {})]))
