"""Files of this machine as models: for administrators to name, and for the configuration."""

import pytest

from aish.frontends.http.auth.keys import create_key
from aish.providers.scripted import ScriptedProvider, from_steps
from aish.types.chunks import StepEnd, StepFinished
from aish.types.events import TextDelta
from aish.types.models import Preset
from support.engines import Bench
from support.http_face import face

FILE = "/models/own.gguf"
SAID = [TextDelta("yes"), StepFinished(StepEnd.STOP)]


def bench():
    embedded = ScriptedProvider("embedded", {name: from_steps([SAID] * 9) for name in (FILE, "small", "a/b")})
    return Bench(others=[embedded], presets={"mine": Preset(model=f"embedded:{FILE}")})


def asking(model):
    said = {"model": model, "messages": [{"role": "user", "content": "hi"}]}
    return {
        "/v1/chat/completions": said,
        "/v1/messages": {**said, "max_tokens": 9},
        "/v1/responses": {"model": model, "input": "hi"},
        "/v1/embeddings": {"model": model, "input": "hi"},
        "/tokenize": {"model": model, "content": "hi"},
        "/v1/messages/count_tokens": said,
        "/v1/responses/input_tokens": {"model": model, "input": "hi"},
        "/v1/runs": {"model": model, "goal": "hi"},
    }


@pytest.mark.parametrize("path", asking(""))
async def test_a_key_names_no_file(path):
    under = bench()
    key, _ = await create_key(under.store, "ann")
    sent = {"authorization": f"Bearer {key}"}
    async with face(under) as http:
        for name in (FILE, "a/b", "..\\there", "there.gguf"):
            reply = await http.ask("POST", path, asking(f"embedded:{name}")[path], **sent)
            assert reply.status == 403 and "may name a file" in str(reply.json)


async def test_a_key_uses_what_the_configuration_names_and_what_is_no_file():
    under = bench()
    key, _ = await create_key(under.store, "ann")
    async with face(under) as http:
        for model in ("mine", "embedded:small", "scripted:model"):
            body = asking(model)["/v1/chat/completions"]
            assert (await http.ask("POST", "/v1/chat/completions", body, authorization=f"Bearer {key}")).status == 200
        looked_up = [
            (await http.ask("GET", f"/v1/models/embedded:{name}", authorization=f"Bearer {key}")).status
            for name in ("small", FILE.removeprefix("/"), "there.gguf")
        ]
    assert looked_up == [200, 404, 404]


async def test_an_administrator_names_any():
    under = bench()
    key, _ = await create_key(under.store, "ann", admin=True)
    body = asking(f"embedded:{FILE}")["/v1/chat/completions"]
    async with face(under) as http:
        assert (await http.ask("POST", "/v1/chat/completions", body, authorization=f"Bearer {key}")).status == 200
    async with face(bench()) as http:  # without keys whoever can reach it may do everything
        assert (await http.ask("POST", "/v1/chat/completions", body)).status == 200


async def test_the_configured_planner_may_be_a_file_and_the_asked_one_not():
    under = bench()
    key, _ = await create_key(under.store, "ann")
    body = asking("scripted:model")["/v1/chat/completions"] | {"planner": {"model": f"embedded:{FILE}"}}
    async with face(under) as http:
        reply = await http.ask("POST", "/v1/chat/completions", body, authorization=f"Bearer {key}")
    assert reply.status == 403
