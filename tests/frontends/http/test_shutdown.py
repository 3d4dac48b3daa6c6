"""The server ends while it is answering: what is under way is cancelled, as uvicorn does when `drain_s` is over."""

import asyncio

import pytest

from aish.types.events import TextDelta, TurnEnd
from aish.types.tools import Effect
from support.engines import Bench, Tools, call, policy_gate
from support.eventually import eventually
from support.http_face import face

MESSAGES = [{"role": "user", "content": "x"}]
APIS = {
    "/v1/chat/completions": {"messages": MESSAGES},
    "/v1/responses": {"input": "x"},
    "/v1/messages": {"messages": MESSAGES, "max_tokens": 9},
}
LONG_S = 30.0
KEYS = pytest.mark.parametrize("key", [{}, {"idempotency_key": "k"}], ids=["", "idempotent"])
EACH_API = pytest.mark.parametrize("path", APIS)


def halted() -> tuple[Bench, Tools]:
    """A tool that does not come back."""
    tools = Tools()

    async def stay(arguments, context):
        await asyncio.sleep(LONG_S)

    tools.add("t__w", stay, effect=Effect.WRITE)
    return Bench([call("t__w")], tools=tools, gate=policy_gate(write="allow")), tools


async def cancelled(http, path, ready, key, *, stream):
    visit = http.visit("POST", path, {"model": "scripted:model", "stream": stream, **APIS[path]}, **key)
    answering = asyncio.create_task(visit.run(http.app))
    await eventually(lambda: ready(visit.reply))
    answering.cancel()
    return await answering


@KEYS
@EACH_API
async def test_a_stream_comes_to_a_proper_end_that_says_so(path, key):
    async with face(Bench([TextDelta("half"), LONG_S])) as http:
        reply = await cancelled(http, path, lambda reply: b"half" in reply.body, key, stream=True)
    last = reply.body.decode().removesuffix("data: [DONE]\n\n").split("\n\n")[-2]
    assert reply.ended and "shut down" in last
    assert "api_error" in last if path == "/v1/messages" else "server_error" in last


@KEYS
@EACH_API
async def test_who_waits_for_the_whole_is_told_to_ask_again(path, key):
    bench = Bench([LONG_S])
    async with face(bench) as http:
        reply = await cancelled(http, path, lambda reply: bench.scripted.requests, key, stream=False)
    assert reply.status == 503 and "shut down" in reply.json["error"]["message"]


@KEYS
@EACH_API
async def test_but_not_where_a_tool_was_broken_off(path, key):
    bench, tools = halted()
    async with face(bench, tools=("t__*",)) as http:
        reply = await cancelled(http, path, lambda reply: tools.calls, key, stream=False)
    assert reply.status == 424 and reply.json["error"]["type"] == "invalid_request_error"


@EACH_API
@pytest.mark.parametrize("stream", [True, False])
async def test_the_turn_that_was_broken_off_is_named(path, stream):
    bench = Bench([LONG_S])
    async with face(bench) as http:
        reply = await cancelled(http, path, lambda reply: bench.scripted.requests, {}, stream=stream)
        record = await http.service.store.find_turn(reply.headers["x-turn-id"])
    assert record is not None and record.end is TurnEnd.CANCELLED
