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


async def test_a_deleted_item_is_no_longer_part_of_what_is_gone_on_from():
    bench = Bench([TextDelta("one")], [TextDelta("two")])
    async with Site(bench).opened() as here, Site(bench).opened() as there:
        made = await make(here, items=[{"role": "user", "content": "a"}, {"role": "user", "content": "b"}])
        path = f"/v1/conversations/{made['id']}/items"
        first = await there.create("c", conversation=made["id"])
        listed = (await here.get(f"{path}?order=asc"))["data"]
        said = {part["text"]: item["id"] for item in listed for part in item["content"]}
        for gone in ("a", "one"):
            assert (await here.send("DELETE", f"{path}/{said[gone]}")).json == made
            assert (await here.send("GET", f"{path}/{said[gone]}")).status == 404
        assert [item["id"] for item in (await here.get(f"{path}?order=asc"))["data"]] == [said["b"], said["c"]]
        await there.create("d", conversation=made["id"])
        assert text_of(await here.get(f"/v1/responses/{first['id']}")) == "one"
    assert texts(bench) == ["b", "c", "d"]


async def test_a_call_whose_item_is_deleted_takes_its_result_out_of_what_the_model_sees():
    asked = {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"}
    got = {"type": "function_call_output", "call_id": "call_1", "output": "seen"}
    bench = Bench([TextDelta("ok")])
    async with Site(bench).opened() as here:
        made = await make(here, items=[{"role": "user", "content": "a"}, asked, got])
        path = f"/v1/conversations/{made['id']}/items"
        call = next(item for item in (await here.get(path))["data"] if item["type"] == "function_call")
        assert (await here.send("DELETE", f"{path}/{call['id']}")).status == 200
        await here.create("b", conversation=made["id"])
    assert texts(bench) == ["a", "b"]


async def test_an_item_that_is_not_there_cannot_be_deleted():
    async with Site(Bench([])).opened() as here:
        made = await make(here, items=[{"role": "user", "content": "a"}])
        path = f"/v1/conversations/{made['id']}/items"
        refused = await here.send("DELETE", f"{path}/msg_none")
        assert (refused.status, refused.json["error"]["param"]) == (404, "item_id")
        assert len((await here.get(path))["data"]) == 1


async def test_items_added_while_another_process_ends_a_response_lose_neither():
    bench = Bench([TextDelta("one")])
    async with Site(bench).opened() as here, Site(bench).opened() as there:
        made = await make(here)
        conversations = here.service.store
        swap, begun = conversations.swap, asyncio.Event()

        async def late(document, *, old):
            if document.kind == "conversation" and not begun.is_set():
                begun.set()
                await there.create("q", conversation=made["id"])
            return await swap(document, old=old)

        conversations.swap = late
        path = f"/v1/conversations/{made['id']}/items"
        await here.send("POST", path, {"items": [{"role": "user", "content": "by hand"}]})
        page = await here.get(f"{path}?order=asc")
    assert [part["text"] for item in page["data"] for part in item["content"]] == ["q", "one", "by hand"]
