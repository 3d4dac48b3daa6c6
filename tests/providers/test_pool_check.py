"""An endpoint that takes a request and says nothing: is it gone, or does it think?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack

import pytest

from aish.errors import ProviderTimeout, ProviderUnavailable
from aish.providers.endpoint import Endpoint
from aish.providers.openai import OpenAIProvider
from aish.providers.pool import PoolProvider
from aish.providers.pool_check import watched
from aish.types.events import TextDelta
from aish.types.messages import user
from aish.types.requests import StepRequest
from aish.wire.http import HttpClient
from support.backends import ANSWER, Vllm, running
from support.raw_server import Peer, RawServer, nothing_left, raw_server

SILENCE_S, ANSWER_S = 0.1, 1.0


class Slow(Vllm):
    """Thinks for longer than anybody waits in silence, and answers other questions meanwhile."""

    async def serve(self, peer: Peer) -> None:
        while True:
            request = await peer.request()
            if request.path.endswith("/chat/completions"):
                await asyncio.sleep(1.5 * (SILENCE_S + ANSWER_S))
            await peer.send(*self.respond(request))


async def dead(peer: Peer) -> None:
    """As a stopped process: the system accepts for it, and there is never a word."""
    await peer.left()


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    async with nothing_left(), HttpClient() as client:
        yield client


def pool_of(http: HttpClient, *servers: RawServer, models: Sequence[str] = ()) -> PoolProvider:
    members = [OpenAIProvider("pool", Endpoint(url=server.url, models=tuple(models)), http) for server in servers]
    return PoolProvider("pool", members, silence_s=SILENCE_S, answer_s=ANSWER_S)


async def say(pool: PoolProvider, *, deadline_s: float = 8.0, stream: bool = True) -> str:
    request = StepRequest(Vllm.model, (user("hi"),), deadline_s=deadline_s, stream=stream)
    async with asyncio.timeout(10), pool.stream(request) as chunks:
        return "".join([chunk.text async for batch in chunks for chunk in batch if isinstance(chunk, TextDelta)])


def chats(server: RawServer) -> int:
    return sum(request.path.endswith("/chat/completions") for request in server.requests)


async def test_one_that_is_gone_is_left_for_the_next_and_set_aside(http: HttpClient) -> None:
    async with raw_server(dead) as gone, running(Vllm()) as ready:
        pool = pool_of(http, gone, ready)
        assert await say(pool) == "".join(ANSWER)
        assert await say(pool) == "".join(ANSWER)
        assert chats(ready) == 2
        assert len(gone.peers) == 2  # the request, and the question whether it is there


async def test_one_that_thinks_is_waited_for(http: HttpClient) -> None:
    async with running(Slow()) as slow, running(Vllm()) as other:
        assert await say(pool_of(http, slow, other)) == "".join(ANSWER)
        assert chats(other) == 0
        assert sum(request.path == "/v1/models" for request in slow.requests) > 1


async def test_the_last_one_is_waited_for_until_the_request_is_due(http: HttpClient) -> None:
    async with raw_server(dead) as gone, raw_server(dead) as other:
        with pytest.raises(ProviderTimeout) as failed:
            await say(pool_of(http, gone, other), deadline_s=2.5)
        assert failed.value.is_deadline
        assert len(other.peers) == 1


async def test_whoever_leaves_meanwhile_leaves_nothing_behind(http: HttpClient) -> None:
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(raw_server(dead)) for _ in range(2)]
        pool = pool_of(http, *servers)
        for wait_s in (0.05, SILENCE_S + 0.05):  # in silence, and while it is asked
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await say(pool)
        assert pool._members[0].rests_until_s == 0.0


async def test_what_is_known_without_asking_tells_nothing(http: HttpClient) -> None:
    """With its models in the configuration nobody asks it for them."""
    async with raw_server(dead) as gone, running(Vllm()) as ready:
        with pytest.raises(ProviderTimeout):
            await say(pool_of(http, gone, ready, models=[Vllm.model]), deadline_s=1.5)
        assert chats(ready) == 0


async def test_it_is_said_what_happened(http: HttpClient) -> None:
    async with raw_server(dead) as gone:
        provider = OpenAIProvider("lab", Endpoint(url=gone.url), http)
        with pytest.raises(ProviderUnavailable, match=r"lab has said nothing for 1\.1 s and lists no models"):
            async with watched(provider, silence_s=SILENCE_S, answer_s=ANSWER_S):
                await asyncio.sleep(9)
