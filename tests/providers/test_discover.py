from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from aish.config.schema.models import DiscoveryConfig, ServerConfig
from aish.net.http.client import HttpClient
from aish.ports import Provider
from aish.providers.discovery import discover
from aish.providers.endpoint import Endpoint
from aish.providers.ollama.provider import OllamaProvider
from aish.providers.openai.provider import OpenAIProvider
from support.backends import LlamaCpp, Ollama, Vllm, json_answer, running
from support.raw_server import Peer, Request, nothing_left, raw_server


class Finder:
    def __init__(self, http: HttpClient) -> None:
        self._http = http

    def make(self, server: ServerConfig) -> Provider:
        kind = OllamaProvider if server.kind == "ollama" else OpenAIProvider
        return kind(server.name, Endpoint(url=server.url), self._http)

    async def find(self, *servers: ServerConfig, timeout_s: float = 5.0) -> list[str]:
        async with asyncio.timeout(20):
            found = await discover(DiscoveryConfig(timeout_s=timeout_s, servers=servers), self.make)
        return [provider.name for provider in found]


@pytest.fixture
async def finder() -> AsyncIterator[Finder]:
    async with nothing_left(), HttpClient() as http:
        yield Finder(http)


def at(name: str, url: str, kind: str = "openai") -> ServerConfig:
    return ServerConfig(name=name, url=url, kind=kind)


async def test_what_runs_is_found_in_the_order_of_the_settings(finder):
    async with running(Vllm()) as a, running(Ollama()) as b, running(LlamaCpp()) as c:
        servers = [at("vllm", a.url), at("ollama", b.url, "ollama"), at("llamacpp", c.url)]
        assert await finder.find(*servers) == ["vllm", "ollama", "llamacpp"]


async def test_all_places_are_tried_at_the_same_time(finder):
    """Each answers only when all have been asked: one after the other none would."""
    waiting = 0
    all_asked = asyncio.Event()

    async def script(peer: Peer) -> None:
        nonlocal waiting
        await peer.request()
        waiting += 1
        if waiting == 3:
            all_asked.set()
        async with asyncio.timeout(10):
            await all_asked.wait()
        await peer.send(json_answer({"data": [{"id": "m"}]}))

    async with raw_server(script) as a, raw_server(script) as b, raw_server(script) as c:
        servers = [at("a", a.url), at("b", b.url), at("c", c.url)]
        assert await finder.find(*servers) == ["a", "b", "c"]


async def test_garbage_silence_and_nothing_are_passed_over(finder):
    async def silent(peer: Peer) -> None:
        await peer.request()
        await peer.left()

    async def garbage(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"220 mail.example ESMTP\r\n")

    async def login(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>")

    async def flood(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\n\r\n", *[b"x" * 1_000_000] * 40)

    class Empty(Vllm):
        def get_v1_models(self, request: Request) -> list[bytes]:
            return [json_answer({"data": []})]

    async with raw_server(silent) as gone:
        pass
    async with (
        raw_server(silent) as quiet,
        raw_server(garbage) as mail,
        raw_server(login) as page,
        raw_server(flood) as torrent,
        running(Empty()) as empty,
        running(Vllm()) as good,
    ):
        urls = [gone.url, quiet.url, mail.url, page.url, torrent.url, empty.url]
        servers = [at(f"odd{n}", url) for n, url in enumerate(urls)]
        assert await finder.find(*servers, at("good", good.url), timeout_s=0.5) == ["good"]
        await quiet.scripts_ended()


async def test_none_found_is_an_empty_list(finder):
    async with raw_server(lambda peer: peer.left()) as server:
        url = server.url
    assert await finder.find(at("a", url), at("b", url, "ollama")) == []
    assert await finder.find() == []


async def test_two_names_for_one_place_are_one_provider(finder):
    async with running(Vllm()) as server:
        named = server.url.replace("127.0.0.1", "localhost")
        servers = [at("mnn", server.url), at("vllm", f"{named}/v1"), at("again", f"{server.url}/v1")]
        assert await finder.find(*servers) == ["mnn"]


async def test_of_two_kinds_at_one_place_the_one_that_answers_is_found(finder):
    async with running(Vllm()) as server:
        assert await finder.find(at("ollama", server.url, "ollama"), at("vllm", server.url)) == ["vllm"]
