"""Responses that are kept: found, continued, listed, deleted; and nobody else's."""

import asyncio
from urllib.parse import quote

import msgspec
import pytest

from aish.errors import StoreError
from aish.frontends.http.auth.keys import create_key
from aish.frontends.http.openai.responses.store import KIND
from aish.types.events import ReasoningDelta, TextDelta
from aish.types.messages import AssistantMessage, SystemMessage, ToolMessage, UserMessage
from aish.types.tools import Effect
from support.engines import Bench, Tools, call, policy_gate
from support.responses_client import Site, text_of

ADD = {"type": "function", "name": "add", "parameters": {"type": "object"}}


def said(bench: Bench, place: int = -1) -> list[tuple[str, str]]:
    names = {SystemMessage: "system", UserMessage: "user", AssistantMessage: "assistant", ToolMessage: "tool"}
    return [(names[type(message)], message.text) for message in bench.scripted.requests[place].messages]


def texts(page) -> list[str]:
    return [part["text"] for item in page["data"] for part in item["content"]]


async def test_a_response_is_kept_found_and_deleted():
    async with Site(Bench([TextDelta("Hello Ann.")])).opened() as here:
        made = await here.create("I am Ann")
        assert await here.get(f"/v1/responses/{made['id']}") == made
        gone = await here.send("DELETE", f"/v1/responses/{made['id']}")
        assert gone.json == {"id": made["id"], "object": "response", "deleted": True}
        reply = await here.send("GET", f"/v1/responses/{made['id']}")
        assert reply.status == 404 and reply.json["error"]["param"] == "response_id"
        status, error = await here.refused(previous_response_id=made["id"])
    assert (status, error["param"]) == (404, "previous_response_id")


async def test_what_is_not_to_be_stored_leaves_nothing():
    async with Site(Bench([TextDelta("x")])).opened() as here:
        made = await here.create(store=False)
        assert (await here.send("GET", f"/v1/responses/{made['id']}")).status == 404
        assert await here.bench.store.list_documents(KIND) == []


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("store", [True, False])
async def test_its_end_is_said_when_it_is_in_the_store(monkeypatch, stream, store):
    bench = Bench([TextDelta("x")])
    reached, go, put = asyncio.Event(), asyncio.Event(), bench.store.put

    async def put_slowly(document, *, wait=True):
        assert wait
        reached.set()
        await go.wait()
        await put(document)

    monkeypatch.setattr(bench.store, "put", put_slowly)
    async with Site(bench).opened() as here:
        body = {"model": "scripted:model", "input": "x", "stream": stream, "store": store}
        visit = here.visit("POST", "/v1/responses", body)
        asking = asyncio.create_task(visit.run(here))
        if store:
            await reached.wait()
            await asyncio.sleep(0.01)
            assert not asking.done() and b"response.completed" not in visit.reply.body
            go.set()
        reply = await asking
    assert reply.status == 200 and b'"status":"completed"' in reply.body
    assert reached.is_set() == store


@pytest.mark.parametrize(("effect", "status"), [(Effect.READ, 500), (Effect.WRITE, 424)])
async def test_one_that_could_not_be_kept_is_not_said_to_be_completed(monkeypatch, effect, status):
    tools = Tools().add("t__x", effect=effect)
    bench = Bench(*[[call("t__x")], [TextDelta("x")]] * 2, tools=tools, gate=policy_gate(write="allow"))

    async def put(document, *, wait=True):
        raise StoreError("the disk is full")

    monkeypatch.setattr(bench.store, "put", put)
    async with Site(bench, tools=["*"]).opened() as here:
        told, error = await here.refused()
        events = await here.stream()
    assert (told, error["code"]) == (status, "store_failed")
    kinds = [event["type"] for event in events]
    assert "response.completed" not in kinds and kinds[-1] == "response.failed"
    assert kinds.count("response.output_item.added") == kinds.count("response.output_item.done")
    assert [event["sequence_number"] for event in events] == [*range(len(events))]


async def test_a_chain_has_the_whole_history_but_not_the_instructions_of_before():
    bench = Bench([TextDelta("Hello Ann.")], [TextDelta("You are Ann.")], [TextDelta("Still Ann.")])
    async with Site(bench).opened() as here:
        first = await here.create("I am Ann", instructions="Be kind")
        second = await here.create("Who am I?", previous_response_id=first["id"])
        third = await here.create("And now?", previous_response_id=second["id"], instructions="Be short")
    assert text_of(third) == "Still Ann." and third["previous_response_id"] == second["id"]
    assert said(bench, 0)[0] == ("system", "Be kind")
    assert said(bench) == [
        ("system", "Be short"),
        ("user", "I am Ann"),
        ("assistant", "Hello Ann."),
        ("user", "Who am I?"),
        ("assistant", "You are Ann."),
        ("user", "And now?"),
    ]


async def test_a_chain_is_the_same_after_a_restart_and_takes_no_more_room_with_its_length():
    bench = Bench(*[[TextDelta(f"answer {n}")] for n in range(9)])
    previous = None
    async with Site(bench).opened() as here:
        for n in range(8):
            made = await here.create(f"question {n}", **({"previous_response_id": previous} if previous else {}))
            previous = made["id"]
    sizes = {len(document.body) for document in await bench.store.list_documents(KIND)}
    assert max(sizes) - min(sizes) < 200
    async with Site(bench).opened() as here:
        await here.create("last", previous_response_id=previous)
    assert len(said(bench)) == 17 and said(bench)[0] == ("user", "question 0")


async def test_a_chain_remembers_our_rounds_and_the_clients_calls_once_each():
    steps = [TextDelta("a"), call("t__x")], [TextDelta("b"), call("add", '{"a": 1}')], [TextDelta("c")]
    bench = Bench(*steps, [TextDelta("d")], tools=Tools().add("t__x"))
    async with Site(bench, tools=["t__*"]).opened() as here:
        first = await here.create("go", tools=[ADD])
        assert [item["type"] for item in first["output"]] == ["message", "mcp_call", "message", "function_call"]
        output = {"type": "function_call_output", "call_id": first["output"][-1]["call_id"], "output": "2"}
        second = await here.create([output], previous_response_id=first["id"], tools=[ADD])
        expected = [("user", "go"), ("assistant", "a"), ("tool", "done"), ("assistant", "b"), ("tool", "2")]
        assert said(bench) == expected
        await here.create("more", previous_response_id=second["id"])
    assert said(bench) == [*expected, ("assistant", "c"), ("user", "more")]
    assert len(bench.tools.calls) == 1


async def test_one_step_with_a_tool_of_each_is_merged_in_order():
    steps = [call("add", index=0), call("t__x", index=1)], [TextDelta("Both.")]
    bench = Bench(*steps, tools=Tools().add("t__x"))
    async with Site(bench, tools=["t__*"]).opened() as here:
        first = await here.create("go", tools=[ADD])
        function = next(item for item in first["output"] if item["type"] == "function_call")
        output = {"type": "function_call_output", "call_id": function["call_id"], "output": "theirs"}
        second = await here.create([output], previous_response_id=first["id"], tools=[ADD])
    assert text_of(second) == "Both."
    assert said(bench) == [("user", "go"), ("assistant", ""), ("tool", "theirs"), ("tool", "done")]


@pytest.mark.parametrize("sends", [("function_call",), ("message", "mcp_call", "function_call")])
async def test_a_client_that_sends_its_history_itself_loses_nothing_and_repeats_nothing(sends):
    """Codex sends back what it knows, which is not our calls; the SDKs' loops send everything."""
    steps = [TextDelta("a"), call("t__x")], [TextDelta("b"), call("add")], [TextDelta("c")]
    bench = Bench(*steps, tools=Tools().add("t__x"))
    async with Site(bench, tools=["t__*"]).opened() as here:
        first = await here.create("go", tools=[ADD])
        back = [item for item in first["output"] if item["type"] in sends]
        output = {"type": "function_call_output", "call_id": first["output"][-1]["call_id"], "output": "2"}
        items = [{"role": "user", "content": "go"}, *back, output]
        await here.create(items, tools=[ADD], store=False)
    assert said(bench) == [("user", "go"), ("assistant", "a"), ("tool", "done"), ("assistant", "b"), ("tool", "2")]


async def test_steps_that_come_back_without_words_between_them_are_as_many_as_there_were():
    bench = Bench([call("t__x")], [call("t__x")], [call("add")], [TextDelta("ok")], tools=Tools().add("t__x"))
    async with Site(bench, tools=["t__*"]).opened() as here:
        first = await here.create("go", tools=[ADD])
        output = {"type": "function_call_output", "call_id": first["output"][-1]["call_id"], "output": "2"}
        items = [{"role": "user", "content": "go"}, *first["output"], output]
        await here.create(items, tools=[ADD], store=False)
    round = [("assistant", ""), ("tool", "done")]
    assert said(bench) == [("user", "go"), *round, *round, ("assistant", ""), ("tool", "2")]


@pytest.mark.parametrize("names", [("add", "t__x"), ("t__x", "add")])
@pytest.mark.parametrize("who", [{}, {"session_id": "s"}])
async def test_calls_of_one_step_that_come_back_are_made_and_answered_once_each(names, who):
    calls = [call(name, index=place) for place, name in enumerate(names)]
    bench = Bench(calls, [TextDelta("ok")], [TextDelta("ok")], tools=Tools().add("t__x"))
    async with Site(bench, tools=["t__*"]).opened() as here:
        first = await here.create("go", tools=[ADD], **who)
        made = next(item for item in first["output"] if item["type"] == "function_call")
        output = {"type": "function_call_output", "call_id": made["call_id"], "output": "2"}
        items = [{"role": "user", "content": "go"}, *first["output"], output]
        await here.create(items, tools=[ADD], **who)
    messages = bench.scripted.requests[-1].messages
    steps = [message for message in messages if isinstance(message, AssistantMessage)]
    assert sorted(made.name for step in steps for made in step.tool_calls) == ["add", "t__x"]
    assert sorted(message.text for message in messages if isinstance(message, ToolMessage)) == ["2", "done"]


async def test_thoughts_that_come_back_are_thoughts_again():
    bench = Bench([ReasoningDelta("hm"), call("add", '{"a": 1, "b": 1}', id="c1")], [TextDelta("ok")])
    async with Site(bench).opened() as here:
        first = await here.create("x", tools=[ADD])
        asked = first["output"][-1]["call_id"]
        output = {"type": "function_call_output", "call_id": asked, "output": "2"}
        await here.create([{"role": "user", "content": "x"}, *first["output"], output], tools=[ADD])
        encrypted = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "xyz"}
        await here.create([encrypted, {"role": "assistant", "content": "A"}, {"role": "user", "content": "y"}])
    assert bench.scripted.requests[1].messages[1].reasoning == "hm"
    assert bench.scripted.requests[2].messages[0] == AssistantMessage("A")


async def test_input_items_are_listed_in_pages_with_ids():
    items = [{"role": "user", "content": f"{n}"} for n in range(5)]
    async with Site(Bench([TextDelta("x")])).opened() as here:
        made = await here.create(items)
        path = f"/v1/responses/{made['id']}/input_items"
        page = await here.get(f"{path}?limit=2&order=asc")
        assert texts(page) == ["0", "1"] and page["has_more"]
        assert page["first_id"] == page["data"][0]["id"] and page["last_id"] == page["data"][1]["id"]
        rest = await here.get(f"{path}?order=asc&after={page['last_id']}")
        assert texts(rest) == ["2", "3", "4"] and not rest["has_more"]
        newest = await here.get(path)
        assert texts(newest)[0] == "4" and len({item["id"] for item in newest["data"]}) == 5
        for limit in ("0", "101", "-1", "1.5", "\u0663", "9" * 5000):  # which Python refuses to read
            assert (await here.send("GET", f"{path}?limit={quote(limit)}")).status == 400


@pytest.mark.parametrize("number", ["-1", "x", "9" * 5000])
async def test_a_stream_is_not_gone_on_with_behind_what_is_no_number(number):
    async with Site(Bench([TextDelta("x")])).opened() as here:
        made = await here.create("x", background=True)
        asked = f"/v1/responses/{made['id']}?stream=true&starting_after={number}"
        refused = await here.send("GET", asked)
        assert (refused.status, refused.json["error"]["param"]) == (400, "starting_after")


async def test_text_is_listed_as_one_message():
    async with Site(Bench([TextDelta("x")])).opened() as here:
        made = await here.create("hello")
        (item,) = (await here.get(f"/v1/responses/{made['id']}/input_items"))["data"]
    assert item["type"] == "message" and item["content"] == [{"type": "input_text", "text": "hello"}]


async def test_an_item_is_referred_to_by_its_id():
    bench = Bench([TextDelta("one")], [TextDelta("two")])
    async with Site(bench).opened() as here:
        first = await here.create("hello")
        reference = {"type": "item_reference", "id": first["output"][0]["id"]}
        await here.create([reference, {"role": "user", "content": "go on"}])
        assert said(bench) == [("assistant", "one"), ("user", "go on")]
        status, error = await here.refused(input=[{"id": "msg_nothing"}])
    assert (status, error["param"]) == (400, "input[0].id")


@pytest.mark.parametrize("way", ["whole", "stream", "background"])
async def test_calls_that_we_ran_are_referred_to_by_their_ids(way):
    bench = Bench([call("t__x", id="c1")], [TextDelta("ok")], [TextDelta("more")], tools=Tools().add("t__x"))
    fields = {"background": True} if way == "background" else {}
    async with Site(bench, tools=["t__*"]).opened() as here:
        made = [await _made(here, way, **fields) for _ in range(2)]
        calls = [next(item for item in one["output"] if item["type"] == "mcp_call") for one in made]
        assert len({item["id"] for item in calls}) == 2
        references = [{"type": "item_reference", "id": item["id"]} for item in made[1]["output"]]
        last = await here.create([{"role": "user", "content": "go"}, *references, {"role": "user", "content": "on"}])
        listed = (await here.get(f"/v1/responses/{last['id']}/input_items?order=asc"))["data"]
        assert listed[1] == calls[1]
    assert said(bench) == [("user", "go"), ("assistant", ""), ("tool", "done"), ("assistant", "ok"), ("user", "on")]


async def _made(here, way, **fields):
    if way == "stream":
        return (await here.stream("go"))[-1]["response"]
    begun = await here.create("go", **fields)
    return await here.until(begun["id"], "completed")


async def test_a_key_sees_only_what_it_made():
    async with Site(Bench([TextDelta("x")])).opened() as here:
        mine, _ = await create_key(here.bench.store, "a")
        other, _ = await create_key(here.bench.store, "b")
        body = {"model": "scripted:model", "input": "x"}
        made = await here.send("POST", "/v1/responses", body, authorization=f"Bearer {mine}")
        path = f"/v1/responses/{made.json['id']}"
        assert (await here.send("GET", path, authorization=f"Bearer {mine}")).status == 200
        for method, place in [
            ("GET", path),
            ("DELETE", path),
            ("GET", f"{path}/input_items"),
            ("POST", f"{path}/cancel"),
        ]:
            assert (await here.send(method, place, authorization=f"Bearer {other}")).status == 404
        body["previous_response_id"] = made.json["id"]
        refused = await here.send("POST", "/v1/responses", body, authorization=f"Bearer {other}")
    assert refused.status == 404


async def test_what_was_said_before_a_deleted_response_is_not_lost_to_those_after_it():
    bench = Bench([TextDelta("1")], [TextDelta("2")], [TextDelta("3")], [TextDelta("4")])
    async with Site(bench).opened() as here:
        first = await here.create("a")
        second = await here.create("b", previous_response_id=first["id"])
        third = await here.create("c", previous_response_id=second["id"])
        await here.send("DELETE", f"/v1/responses/{second['id']}")
        assert (await here.send("GET", f"/v1/responses/{second['id']}")).status == 404
        await here.create("d", previous_response_id=third["id"])
        follow = {"model": "scripted:model", "input": "x", "previous_response_id": second["id"]}
        assert (await here.send("POST", "/v1/responses", follow)).status == 404
        assert (await here.send("DELETE", f"/v1/responses/{second['id']}")).status == 404
    assert said(bench) == [("user", "a"), ("assistant", "1"), ("user", "c"), ("assistant", "3"), ("user", "d")]


async def test_a_history_whose_beginning_was_deleted_goes_on_with_what_is_left():
    bench = Bench([TextDelta("1")], [TextDelta("2")], [TextDelta("3")])
    async with Site(bench).opened() as here:
        first = await here.create("a")
        second = await here.create("b", previous_response_id=first["id"])
        await here.send("DELETE", f"/v1/responses/{first['id']}")
        await here.create("c", previous_response_id=second["id"])
    assert said(bench) == [("user", "b"), ("assistant", "2"), ("user", "c")]


async def test_a_failed_response_is_kept_as_failed():
    from aish.errors import ProviderUnavailable

    async with Site(Bench([TextDelta("half"), ProviderUnavailable("gone")])).opened() as here:
        events = await here.stream()
        kept = await here.get(f"/v1/responses/{events[-1]['response']['id']}")
    assert kept == events[-1]["response"] and kept["status"] == "failed"


async def test_tokens_are_counted_with_history_instructions_and_tools():
    async with Site(Bench([TextDelta("one two")])).opened() as here:
        first = await here.create("a b c")
        counted = await here.send("POST", "/v1/responses/input_tokens", {"model": "scripted:model", "input": "a b c"})
        assert counted.json == {"object": "response.input_tokens", "input_tokens": 3}
        more = {"model": "scripted:model", "input": "d", "previous_response_id": first["id"], "instructions": "x y"}
        counted = await here.send("POST", "/v1/responses/input_tokens", more)
        assert counted.json["input_tokens"] == 8
        counted = await here.send("POST", "/v1/responses/input_tokens", {**more, "tools": [ADD]})
    assert counted.json["input_tokens"] > 8


async def test_a_session_is_taken_from_the_body_and_its_history_on_demand():
    bench = Bench([TextDelta("1")], [TextDelta("2")])
    async with Site(bench).opened() as here:
        await here.create("a", session_id="s")
        await here.create("b", session_id="s", use_server_history=True)
    assert said(bench) == [("user", "a"), ("assistant", "1"), ("user", "b")]


async def test_effects_are_kept_in_the_document_as_messages_that_can_be_read():
    bench = Bench([call("t__x")], [TextDelta("ok")], tools=Tools().add("t__x", effect=Effect.READ))
    async with Site(bench, tools=["*"]).opened() as here:
        made = await here.create("go")
    (document,) = await bench.store.list_documents(KIND)
    kept = msgspec.json.decode(document.body)
    assert document.id == made["id"]
    assert [message["role"] for message in kept["messages"]] == ["user", "assistant", "tool", "assistant"]
