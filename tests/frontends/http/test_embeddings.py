"""Embeddings, in both of the forms clients ask for."""

import array
import asyncio
import base64

import pytest

from aish.engine.model.ledger import Caps, Prices
from aish.frontends.http.auth.keys import create_key
from aish.net.http.client import HttpClient
from aish.providers.endpoint import Endpoint
from aish.providers.ollama.provider import OllamaProvider
from aish.providers.scripted import ScriptedProvider, from_steps
from aish.types.requests import EmbeddingResult
from aish.types.usage import Price, Usage
from support.backends import Ollama, running
from support.engines import Bench
from support.http_face import face


class Embedder(ScriptedProvider):
    used = None
    embedded = None

    async def embed(self, model, inputs):
        self.embedded = inputs
        return EmbeddingResult([[float(len(given)), 0.5] for given in inputs], self.used)


def bench(used=None, **settings):
    provider = Embedder("scripted", {"model": from_steps([[]])})
    provider.used = used
    return Bench(provider=provider, settings=settings)


async def ask(http, **fields):
    return await http.ask("POST", "/v1/embeddings", {"model": "scripted:model", **fields})


async def test_floats_and_base64_hold_the_same_numbers():
    async with face(bench()) as http:
        plain = (await ask(http, input=["a", "bcd"])).json
        packed = (await ask(http, input=["a", "bcd"], encoding_format="base64")).json
    assert [row["embedding"] for row in plain["data"]] == [[1.0, 0.5], [3.0, 0.5]]
    decoded = [array.array("f", base64.b64decode(row["embedding"])).tolist() for row in packed["data"]]
    assert decoded == [[1.0, 0.5], [3.0, 0.5]]
    assert [row["index"] for row in packed["data"]] == [0, 1]


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ([], "input"),
        (["a", ""], "input[1]"),
        (["a", None], "input[1]"),
        (["a"] * 3000, "input"),
        ([[1]] * 3000, "input"),
        ([1] * 150_000, "input"),
        ([[1], [1] * 150_000], "input[1]"),
        ([[1], []], "input[1]"),
        ([1, -1], "input[1]"),
        ([[1], [2, -1]], "input[1][1]"),
        ([[2**31]], "input[0][0]"),
        ([[True]], "input[0][0]"),
        ([[1.5]], "input[0][0]"),
        ([["a"]], "input[0][0]"),
        (["a", [1]], "input"),
        ([1, [1]], "input"),
        (7, "input"),
    ],
)
async def test_what_is_neither_text_nor_token_ids_is_refused_by_its_place(given, field):
    async with face(bench()) as http:
        reply = await ask(http, input=given)
    assert (reply.status, reply.json["error"]["param"]) == (400, field)


@pytest.mark.parametrize(("given", "asked"), [([5, 6, 7], [[5, 6, 7]]), ([[5], [0, 2**31 - 1]], [[5], [0, 2**31 - 1]])])
async def test_token_ids_are_one_input_or_several_and_each_is_a_token(given, asked):
    provider = Embedder("scripted", {"model": from_steps([[]])})
    async with face(Bench(provider=provider)) as http:
        reply = await ask(http, input=given)
    assert provider.embedded == asked
    assert [row["embedding"][0] for row in reply.json["data"]] == [len(ids) for ids in asked]
    assert reply.json["usage"]["prompt_tokens"] == sum(map(len, asked))


async def test_a_backend_that_embeds_no_ids_is_a_400_that_says_what_to_do():
    async with running(Ollama()) as server, HttpClient() as client:
        provider = OllamaProvider("local", Endpoint(url=server.url), client)
        async with face(Bench(provider=provider)) as http:
            body = {"model": f"local:{Ollama.model}", "input": [[1, 2]]}
            reply = await http.ask("POST", "/v1/embeddings", body)
    assert reply.status == 400
    assert "check_embedding_ctx_length=False" in reply.json["error"]["message"]
    assert not any(request.path == "/api/embed" for request in server.requests)


@pytest.mark.parametrize(("wanted", "status"), [(2, 200), (None, 200), (1, 400), (0, 400)])
async def test_vectors_of_another_length_than_was_asked_for_are_not_given(wanted, status):
    async with face(bench()) as http:
        reply = await ask(http, input="x", dimensions=wanted)
    assert reply.status == status
    assert status == 200 or "gives 2, and no other number" in reply.json["error"]["message"]


async def test_what_is_embedded_is_spent_by_its_key():
    under = bench()
    key, _ = await create_key(under.store, "ann", tokens_per_day=10)
    body = {"model": "scripted:model", "input": ["x" * 20] * 2}
    async with face(under) as http:
        replies = [await http.ask("POST", "/v1/embeddings", body, authorization=f"Bearer {key}") for _ in range(2)]
    assert [reply.status for reply in replies] == [200, 402]


@pytest.mark.parametrize(("used", "tokens"), [(Usage(7), 7), (None, 10)])
async def test_what_is_embedded_is_counted_and_priced_as_the_backend_says_else_as_we_count(used, tokens):
    under = bench(used, prices=Prices({"scripted:model": Price(1.0, 0.0)}))
    async with face(under) as http:
        reply = await ask(http, input=["x" * 20] * 2)
        rows = (await http.ask("GET", "/v1/spending?by=category&days=1")).json["rows"]
    assert reply.json["usage"] == {"prompt_tokens": tokens, "total_tokens": tokens}
    assert [(row["category"], row["calls"], row["tokens_in"], row["cost"]) for row in rows] == [
        ("embed", 1, tokens, pytest.approx(tokens / 1e6))
    ]


async def test_a_cap_holds_for_embeddings_too():
    under = bench(prices=Prices({"scripted:model": Price(1.0, 0.0)}), caps=Caps(day=0.000015))
    async with face(under) as http:
        replies = [await ask(http, input="x" * 40) for _ in range(2)]
    assert [reply.status for reply in replies] == [200, 402]
    assert "today's" in replies[1].json["error"]["message"]


async def test_what_was_set_aside_for_embeddings_that_failed_is_free_again():
    settings = {"prices": Prices({"scripted:model": Price(1.0, 0.0)}), "caps": Caps(day=0.000015)}
    async with face(Bench(settings=settings)) as http:
        replies = [await ask(http, input="x" * 40) for _ in range(2)]
    assert [reply.status for reply in replies] == [400, 400]
    assert "no embeddings" in replies[1].json["error"]["message"]


async def test_a_model_without_embeddings_says_so():
    async with face(Bench()) as http:
        reply = await ask(http, input="x")
    assert reply.status == 400 and "no embeddings" in reply.json["error"]["message"]


class Slow(ScriptedProvider):
    """Says when it was asked, and when that was broken off."""

    def __init__(self):
        super().__init__("scripted", {"model": from_steps([[]])})
        self.asked, self.broken_off = asyncio.Event(), asyncio.Event()

    async def embed(self, model, inputs):
        await self._never()

    async def count_tokens(self, model, text):
        await self._never()

    async def _never(self):
        self.asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.broken_off.set()


SAID = {"messages": [{"role": "user", "content": "x"}]}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/embeddings", {"input": "x"}),
        ("/tokenize", {"content": "x"}),
        ("/v1/messages/count_tokens", SAID),
        ("/v1/responses/input_tokens", {"input": "x"}),
    ],
)
async def test_a_client_that_leaves_takes_its_question_to_the_backend_with_it(path, body):
    slow = Slow()
    async with face(Bench(provider=slow)) as http:
        visit = http.visit("POST", path, {"model": "scripted:model", **body})
        running = asyncio.create_task(visit.run(http.app))
        await slow.asked.wait()
        visit.leave()
        await running
        assert slow.broken_off.is_set()
    assert visit.reply.status == 0


async def test_what_was_broken_off_is_paid_for():
    slow = Slow()
    under = Bench(provider=slow, settings={"prices": Prices({"scripted:model": Price(1.0, 0.0)})})
    async with face(under) as http:
        visit = http.visit("POST", "/v1/embeddings", {"model": "scripted:model", "input": "x" * 40})
        running = asyncio.create_task(visit.run(http.app))
        await slow.asked.wait()
        visit.leave()
        await running
        rows = (await http.ask("GET", "/v1/spending?by=category&days=1")).json["rows"]
    assert [(row["category"], row["tokens_in"], row["cost"]) for row in rows] == [("embed", 10, pytest.approx(1e-5))]


async def test_what_they_cost_is_counted_with_the_rest():
    priced = bench(Usage(70, 0), prices=Prices({"scripted:model": Price(1.0, 1.0)}))
    async with face(priced) as http:
        await ask(http, input="x")
        page = (await http.ask("GET", "/metrics")).body.decode()
        point = http.service.metrics.series.now()
    assert 'aish_tokens_total{direction="in",model="scripted:model"} 70.0' in page
    assert 'aish_cost_dollars_total{model="scripted:model"} 7e-05' in page
    assert (point.tokens_in, point.turns) == (70, 0)
