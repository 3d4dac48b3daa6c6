"""Conversations: made with items, gone on in by responses one at a time, listed, changed and deleted."""

import asyncio

from aish.types.events import TextDelta
from support.engines import Bench, Tools, call, said
from support.eventually import eventually
from support.responses_client import Site, text_of


async def make(here, **body):
    reply = await here.send("POST", "/v1/conversations", body or None)
    assert reply.status == 200, reply.body
    return reply.json


def texts(bench, place=-1):
    return [message.text for message in bench.scripted.requests[place].messages]


async def test_a_conversation_is_made_found_changed_and_deleted():
    async with Site(Bench([])).opened() as here:
        made = await make(here, metadata={"topic": "x"})
        assert made["object"] == "conversation" and made["id"].startswith("conv_") and made["created_at"]
        path = f"/v1/conversations/{made['id']}"
        assert await here.get(path) == made
        changed = await here.send("POST", path, {"metadata": {"topic": "y"}})
        assert changed.json == {**made, "metadata": {"topic": "y"}} == await here.get(path)
        gone = await here.send("DELETE", path)
        assert gone.json == {"id": made["id"], "object": "conversation.deleted", "deleted": True}
        assert (await here.send("GET", path)).status == 404
        status, error = await here.refused(conversation=made["id"])
    assert (status, error["param"]) == (404, "conversation")


async def test_responses_go_on_from_its_items_and_from_each_other():
    bench = Bench([TextDelta("Hello Ann.")], [TextDelta("You are Ann.")])
    async with Site(bench).opened() as here:
        made = await make(here, items=[{"role": "user", "content": "I am Ann"}])
        first = await here.create("hi", conversation=made["id"])
        assert first["conversation"] == {"id": made["id"]} and first["previous_response_id"] is None
        second = await here.create("Who am I?", conversation={"id": made["id"]})
        assert text_of(second) == "You are Ann."
        page = await here.get(f"/v1/conversations/{made['id']}/items?order=asc")
    assert texts(bench) == ["I am Ann", "hi", "Hello Ann.", "Who am I?"]
    assert [item["role"] for item in page["data"]] == ["user", "user", "assistant", "user", "assistant"]


async def test_items_are_added_listed_and_found_by_id():
    bench = Bench([TextDelta("ok")])
    async with Site(bench).opened() as here:
        made = await make(here)
        path = f"/v1/conversations/{made['id']}/items"
        items = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": t}]} for t in "ab"]
        added = await here.send("POST", path, {"items": items})
        assert [item["content"] for item in added.json["data"]] == [item["content"] for item in items]
        first = added.json["data"][0]
        assert await here.get(f"{path}/{first['id']}") == first
        assert (await here.send("GET", f"{path}/nothing")).status == 404
        assert (await here.send("POST", path, {"items": []})).status == 400
        assert (await here.send("POST", path, {"items": [{}]})).status == 400
        assert [item["id"] for item in (await here.get(path))["data"]] == [i["id"] for i in added.json["data"]][::-1]
        await here.create("c", conversation=made["id"])
    assert texts(bench) == ["a", "b", "c"]


async def test_two_responses_in_one_conversation_come_one_after_the_other():
    running, most = 0, 0
    tools = Tools()

    async def count(arguments, context):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return said("done")

    bench = Bench([call("t__x")], [TextDelta("1")], [call("t__x")], [TextDelta("2")], tools=tools.add("t__x", count))
    async with Site(bench, tools=["*"]).opened() as here:
        made = await make(here)
        await asyncio.gather(*(here.create(f"q{n}", conversation=made["id"]) for n in range(2)))
        page = await here.get(f"/v1/conversations/{made['id']}/items?order=asc")
    assert most == 1
    assert [item["type"] for item in page["data"]] == ["message", "mcp_call", "message"] * 2


async def test_one_in_the_background_keeps_the_conversation_until_it_is_done():
    bench = Bench([TextDelta("1")], [TextDelta("2")])
    async with Site(bench).opened() as here:
        made = await make(here)
        begun = await here.create("a", conversation=made["id"], background=True)
        second = await here.create("b", conversation=made["id"])
        assert (await here.get(f"/v1/responses/{begun['id']}"))["status"] == "completed"
    assert texts(bench) == ["a", "1", "b"] and text_of(second) == "2"


async def test_a_conversation_needs_its_responses_to_be_stored():
    async with Site(Bench([TextDelta("x")])).opened() as here:
        made = await make(here)
        status, error = await here.refused(conversation=made["id"], store=False)
    assert (status, error["param"]) == (400, "conversation")


async def test_responses_made_by_two_processes_at_once_are_both_in_it():
    go = asyncio.Event()

    async def wait(arguments, context):
        await go.wait()
        return said("done")

    bench = Bench([call("t__x")], [TextDelta("x")], tools=Tools().add("t__x", wait))
    async with Site(bench, tools=["*"]).opened() as here, Site(bench, tools=["*"]).opened() as there:
        made = await make(here)
        sent = [asyncio.create_task(site.create("q", conversation=made["id"])) for site in (here, there)]
        await eventually(lambda: len(bench.tools.calls) == 2)
        go.set()
        await asyncio.gather(*sent)
        page = await here.get(f"/v1/conversations/{made['id']}/items?order=asc")
    assert [item["type"] for item in page["data"]] == ["message", "mcp_call", "message"] * 2
