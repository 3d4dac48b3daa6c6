"""Embeddings, in both of the forms clients ask for."""

import array
import base64

import pytest

from aish.providers.scripted import ScriptedProvider, from_steps
from support.engines import Bench
from support.http_face import face


class Embedder(ScriptedProvider):
    async def embed(self, model, texts):
        return [[float(len(text)), 0.5] for text in texts]


def bench():
    return Bench(provider=Embedder("scripted", {"model": from_steps([[]])}))


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
    ("given", "field"), [([], "input"), ([[1, 2]], "input[0]"), (["a", ""], "input[1]"), (["a"] * 3000, "input")]
)
async def test_what_is_no_text_is_refused(given, field):
    async with face(bench()) as http:
        reply = await ask(http, input=given)
    assert (reply.status, reply.json["error"]["param"]) == (400, field)


async def test_a_model_without_embeddings_says_so():
    async with face(Bench()) as http:
        reply = await ask(http, input="x")
    assert reply.status == 400 and "no embeddings" in reply.json["error"]["message"]
