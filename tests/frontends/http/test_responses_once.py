"""The same request, sent again with the same key, has one answer and one effect."""

import asyncio

import pytest

from aish.errors import ProviderUnavailable
from aish.types.events import TextDelta
from aish.types.tools import Effect
from support.engines import Bench, Tools, call, policy_gate, said
from support.eventually import eventually
from support.responses_client import Site, check_stream, events_of

BODY = {"model": "scripted:model", "input": "go"}


def writing(*last, wait=None):
    async def write(arguments, context):
        if wait is not None:
            await wait.wait()
        return said("written")

    tools = Tools().add("t__w", write, effect=Effect.WRITE)
    return Bench(
        [TextDelta("a"), call("t__w")], list(last) or [TextDelta("done")], tools=tools, gate=policy_gate(write="allow")
    )


def post(here, body=None, key="k", **headers):
    return here.send("POST", "/v1/responses", body or BODY, idempotency_key=key, **headers)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_request_that_is_sent_again_gets_the_recorded_answer(stream):
    bench, body = writing(), {**BODY, "stream": stream}
    async with Site(bench, tools=["*"]).opened() as here:
        first = await post(here, body)
        second = await post(here, body)
    async with Site(bench, tools=["*"]).opened() as here:
        third = await post(here, body)
    assert first.status == second.status == third.status == 200
    assert first.body == second.body == third.body and len(bench.tools.calls) == 1
    assert first.headers["content-type"] == third.headers["content-type"]
    assert "idempotent-replayed" not in first.headers and second.headers["idempotent-replayed"] == "true"
    if stream:
        check_stream(events_of(first.body))


@pytest.mark.parametrize("stream", [True, False])
async def test_the_same_request_at_once_is_answered_by_one_turn(stream):
    go = asyncio.Event()
    bench = writing(wait=go)
    async with Site(bench, tools=["*"]).opened() as here:
        sent = [asyncio.create_task(post(here, {**BODY, "stream": stream})) for _ in range(5)]
        await eventually(lambda: bench.tools.calls)
        go.set()
        replies = await asyncio.gather(*sent)
    assert len({reply.body for reply in replies}) == 1 and len(bench.tools.calls) == 1
    assert all(reply.status == 200 and reply.ended for reply in replies)


async def test_a_client_that_loses_its_connection_finds_the_answer_when_it_comes_back():
    go = asyncio.Event()
    bench = writing(wait=go)
    async with Site(bench, tools=["*"]).opened() as here:
        visit = here.visit("POST", "/v1/responses", BODY, {"idempotency-key": "k"})
        lost = asyncio.create_task(visit.run(here))
        await eventually(lambda: bench.tools.calls)
        visit.leave()
        await lost
        again = asyncio.create_task(post(here))
        await asyncio.sleep(0)
        go.set()
        assert (await again).json["status"] == "completed"
    assert len(bench.tools.calls) == 1


@pytest.mark.parametrize("said_first", [(), (TextDelta("half "),)])
async def test_what_failed_without_an_effect_may_be_tried_again(said_first):
    down = [*said_first, ProviderUnavailable("down")]
    bench = Bench(down)
    async with Site(bench).opened() as here:
        await post(here, {**BODY, "stream": True})
        down[:] = [TextDelta("up")]
        again = await post(here, {**BODY, "stream": True})
    assert again.status == 200 and events_of(again.body)[-1]["type"] == "response.completed"


async def test_what_failed_after_an_effect_is_not_tried_again():
    bench = writing(ProviderUnavailable("gone"))
    async with Site(bench, tools=["*"]).opened() as here:
        first, second = await post(here), await post(here)
    assert first.status == second.status == 424 and first.body == second.body
    assert len(bench.tools.calls) == 1
