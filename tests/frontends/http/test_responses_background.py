"""Responses in the background: polled, followed from anywhere, cancelled, and never in progress for ever."""

import asyncio
import socket

import msgspec
import pytest

from aish.frontends.http.openai.responses import background, handler
from aish.frontends.http.openai.responses.store import KIND, StoredResponse
from aish.frontends.http.turns import background_turns
from aish.types.events import TextDelta
from aish.types.records import Document
from support.engines import Bench, Tools, call, said
from support.eventually import eventually
from support.responses_client import Site, check_stream, events_of, text_of

MODEL = "scripted:model"


class Held:
    """A tool that waits to be let go."""

    def __init__(self):
        self.reached, self.go = asyncio.Event(), asyncio.Event()
        self.tools = Tools().add("t__x", self._wait)

    async def _wait(self, arguments, context):
        self.reached.set()
        await self.go.wait()
        return said("done")

    def bench(self, *before, store=None):
        return Bench(
            [*before, TextDelta("slow "), call("t__x")], [TextDelta("but sure")], tools=self.tools, store=store
        )


@pytest.fixture
def held():
    return Held()


async def followed(here, path):
    reply = await here.send("GET", path)
    assert reply.status == 200, reply.body
    return events_of(reply.body)


async def test_it_is_polled_to_its_end(held):
    async with Site(held.bench(), tools=["*"]).opened() as here:
        begun = await here.create(background=True)
        assert begun["status"] == "in_progress" and begun["background"] is True
        await held.reached.wait()
        assert (await here.get(f"/v1/responses/{begun['id']}"))["status"] == "in_progress"
        held.go.set()
        done = await here.until(begun["id"], "completed")
        assert text_of(done) == "slow but sure"
        after = await here.create("more", previous_response_id=begun["id"])
    assert after["status"] == "completed"
    assert [message.text for message in here.bench.scripted.requests[-1].messages][:2] == ["hello", "slow "]


async def test_what_goes_on_from_one_that_is_not_done_is_told_to_wait(held):
    async with Site(held.bench(), tools=["*"]).opened() as here:
        begun = await here.create(background=True)
        status, error = await here.refused(previous_response_id=begun["id"])
    assert (status, error["param"]) == (409, "previous_response_id")


async def test_a_model_that_is_not_there_is_told_at_once():
    async with Site(Bench([TextDelta("x")])).opened() as here:
        status, _ = await here.refused(background=True, model="nobody:nothing")
        assert status == 404 and await here.bench.store.list_documents(KIND) == []


async def test_a_client_that_leaves_the_stream_ends_nothing_and_may_come_back(held):
    async with Site(held.bench(), tools=["*"]).opened() as here:
        body = {"model": MODEL, "input": "x", "background": True, "stream": True}
        visit = here.visit("POST", "/v1/responses", body)
        first = asyncio.create_task(visit.run(here))
        await held.reached.wait()
        await eventually(lambda: b"mcp_call_arguments.done" in visit.reply.body)
        visit.leave()
        await first
        seen = events_of(visit.reply.body)
        path = f"/v1/responses/{seen[0]['response']['id']}?stream=true"
        back = asyncio.create_task(followed(here, f"{path}&starting_after={seen[-1]['sequence_number']}"))
        whole = asyncio.create_task(followed(here, path))
        await asyncio.sleep(0)
        held.go.set()
        check_stream(await whole)
        assert [*seen, *await back] == await whole
        assert await followed(here, path) == await whole  # made again from what was recorded
        assert await followed(here, f"{path}&starting_after=7") == (await whole)[8:]
        assert (await here.send("GET", f"{path}&starting_after=x")).status == 400


async def test_what_memory_does_not_keep_is_made_again_while_it_runs(held, monkeypatch):
    monkeypatch.setattr(
        background_turns.BackgroundTurn.__init__, "__kwdefaults__", {"buffer_bytes": 10, "refill": None}
    )
    words = [TextDelta(f"{n} ") for n in range(50)]
    async with Site(held.bench(*words), tools=["*"]).opened() as here:
        begun = await here.create(background=True)
        await held.reached.wait()
        path = f"/v1/responses/{begun['id']}?stream=true"
        late = asyncio.create_task(followed(here, path))
        await asyncio.sleep(0.05)
        held.go.set()
        events = await late
    check_stream(events)
    assert text_of(events[-1]["response"]).startswith("0 1 2 3 ")


async def test_it_is_cancelled_and_its_tool_stopped(held):
    async with Site(held.bench(), tools=["*"]).opened() as here:
        body = {"model": MODEL, "input": "x", "background": True, "stream": True}
        visit = here.visit("POST", "/v1/responses", body)
        following = asyncio.create_task(visit.run(here))
        await held.reached.wait()
        await eventually(lambda: b"mcp_call_arguments.done" in visit.reply.body)
        id = events_of(visit.reply.body)[0]["response"]["id"]
        cancelled = await here.send("POST", f"/v1/responses/{id}/cancel")
        assert cancelled.json["status"] == "cancelled" and cancelled.json["output"][-1]["status"] == "incomplete"
        await following
        events = events_of(visit.reply.body)
        check_stream(events)
        assert events[-1]["response"]["status"] == "cancelled"
        assert (await here.send("POST", f"/v1/responses/{id}/cancel")).json == cancelled.json
        assert (await here.get(f"/v1/responses/{id}")) == cancelled.json
        assert (await followed(here, f"/v1/responses/{id}?stream=true"))[-1]["response"]["status"] == "cancelled"


async def test_only_one_in_the_background_is_cancelled_or_streamed_again():
    async with Site(Bench([TextDelta("x")])).opened() as here:
        made = await here.create()
        for method, path in [
            ("POST", f"/v1/responses/{made['id']}/cancel"),
            ("GET", f"/v1/responses/{made['id']}?stream=true"),
        ]:
            assert (await here.send(method, path)).status == 400


async def test_a_deleted_one_is_ended_first(held):
    async with Site(held.bench(), tools=["*"]).opened() as here:
        begun = await here.create(background=True)
        await held.reached.wait()
        assert (await here.send("DELETE", f"/v1/responses/{begun['id']}")).status == 200
        assert (await here.send("GET", f"/v1/responses/{begun['id']}")).status == 404
        assert here.service.background_turns.find(begun["id"]) is None


async def test_when_the_server_closes_those_that_run_have_failed(held):
    bench = held.bench()
    async with Site(bench, tools=["*"]).opened() as here:
        begun = await here.create(background=True)
        await held.reached.wait()
    async with Site(bench, tools=["*"]).opened() as here:
        kept = await here.get(f"/v1/responses/{begun['id']}")
    assert kept["status"] == "failed" and "shut down" in kept["error"]["message"]


async def test_one_whose_process_was_killed_has_failed_with_what_was_recorded_of_it(held):
    bench = held.bench()
    async with Site(bench, tools=["*"]).opened() as here:
        begun = await here.create(background=True)
        await held.reached.wait()
        (running,) = await bench.store.list_documents(KIND)
        kept = msgspec.json.decode(running.body, type=StoredResponse)
        dead = msgspec.structs.replace(kept, runner=f"{socket.gethostname()}/1/1")
        await here.send("DELETE", f"/v1/responses/{begun['id']}")
    await bench.store.put(Document(KIND, running.id, msgspec.json.encode(dead)))
    async with Site(bench).opened() as here:
        now = await here.get(f"/v1/responses/{begun['id']}")
        assert now["status"] == "failed" and now["error"]["message"] and text_of(now) == "slow "
        events = await followed(here, f"/v1/responses/{begun['id']}?stream=true")
        check_stream(events)
        assert events[-1]["type"] == "response.failed" and events[-1]["response"] == now
        await here.create("more", previous_response_id=begun["id"])
    assert [message.text for message in bench.scripted.requests[-1].messages][:2] == ["hello", "slow "]
    stored = msgspec.json.decode((await bench.store.find(KIND, running.id)).body)
    assert stored["status"] == "failed"


async def test_one_that_ends_while_it_is_read_has_not_failed(held, monkeypatch):
    bench = held.bench()
    find = bench.store.find

    async def find_slowly(kind, id):
        found = await find(kind, id)
        if kind == KIND:
            held.go.set()
            await eventually(lambda: here.service.background_turns.find(id) is None)
        return found

    async with Site(bench, tools=["*"]).opened() as here:
        begun = await here.create(background=True)
        await held.reached.wait()
        with monkeypatch.context() as patch:
            patch.setattr(bench.store, "find", find_slowly)
            await here.get(f"/v1/responses/{begun['id']}")
        done = await here.get(f"/v1/responses/{begun['id']}")
    assert (done["status"], text_of(done)) == ("completed", "slow but sure")


async def test_the_last_word_of_a_process_that_has_just_died_counts(held, monkeypatch):
    bench = held.bench()
    find, dead = bench.store.find, f"{socket.gethostname()}/1/1"
    async with Site(bench, tools=["*"]).opened() as here:
        begun = await here.create(background=True)
        await held.reached.wait()
        (running,) = await bench.store.list_documents(KIND)
        held.go.set()
        done = await here.until(begun["id"], "completed")
    (ended,) = await bench.store.list_documents(KIND)
    kept = msgspec.structs.replace(msgspec.json.decode(running.body, type=StoredResponse), runner=dead)
    await bench.store.put(msgspec.structs.replace(running, body=msgspec.json.encode(kept)))

    async def find_late(kind, id):
        found = await find(kind, id)
        if kind == KIND:
            await bench.store.put(ended)
        return found

    monkeypatch.setattr(bench.store, "find", find_late)
    async with Site(bench, tools=["*"]).opened() as here:
        assert await here.get(f"/v1/responses/{begun['id']}") == done


async def test_one_that_is_cancelled_as_it_is_being_kept_stays_completed_and_its_stream_has_its_end(held, monkeypatch):
    bench, reached, go = held.bench(), asyncio.Event(), asyncio.Event()
    put = bench.store.put

    async def put_slowly(document, *, wait=True):
        if document.kind == KIND and msgspec.json.decode(document.body)["status"] == "completed":
            reached.set()
            await go.wait()
        await put(document, wait=wait)

    monkeypatch.setattr(bench.store, "put", put_slowly)
    async with Site(bench, tools=["*"]).opened() as here:
        visit = here.visit("POST", "/v1/responses", {"model": MODEL, "input": "x", "background": True, "stream": True})
        following = asyncio.create_task(visit.run(here))
        held.go.set()
        await reached.wait()
        id = events_of(visit.reply.body)[0]["response"]["id"]
        cancelling = asyncio.create_task(here.send("POST", f"/v1/responses/{id}/cancel"))
        await asyncio.sleep(0.01)
        go.set()
        assert (await cancelling).json["status"] == "completed"
        await following
        check_stream(events_of(visit.reply.body))


async def test_there_are_not_more_at_once_than_there_is_room_for(held):
    async with Site(held.bench(), tools=["*"]).opened() as here:
        here.service.background_turns._max_turns = 1
        await here.create(background=True)
        status, error = await here.refused(background=True)
    assert (status, error["code"]) == (503, "overloaded")


class Process:
    """Another process of the same machine, as far as owners know."""

    def __init__(self, name):
        self.me = name

    def is_alive(self, owner):
        return True


@pytest.fixture
def processes(monkeypatch):
    names = iter("abc")
    monkeypatch.setattr(handler, "CurrentOwners", lambda service: Process(next(names)))
    monkeypatch.setattr(background, "POLL_S", 0.01)


@pytest.mark.usefixtures("processes")
async def test_another_process_polls_and_streams_it_from_the_store(held):
    bench = held.bench()
    async with Site(bench, tools=["*"]).opened() as here, Site(bench, tools=["*"]).opened() as there:
        begun = await here.create(background=True)
        await held.reached.wait()
        path = f"/v1/responses/{begun['id']}"
        assert (await there.get(path))["status"] == "in_progress"
        visit = there.visit("GET", f"{path}?stream=true")
        following = asyncio.create_task(visit.run(there))
        await eventually(lambda: b"mcp_call_arguments.done" in visit.reply.body)
        late = asyncio.create_task(followed(there, f"{path}?stream=true&starting_after=4"))
        held.go.set()
        await following
        events = events_of(visit.reply.body)
        check_stream(events)
        assert events == await followed(here, f"{path}?stream=true")
        assert await late == events[5:] and text_of(await there.get(path)) == "slow but sure"


@pytest.mark.usefixtures("processes")
async def test_another_process_cancels_it(held):
    bench = held.bench()
    async with Site(bench, tools=["*"]).opened() as here, Site(bench, tools=["*"]).opened() as there:
        begun = await here.create(background=True)
        await held.reached.wait()
        cancelled = await there.send("POST", f"/v1/responses/{begun['id']}/cancel")
        assert cancelled.json["status"] == "cancelled" == (await here.get(f"/v1/responses/{begun['id']}"))["status"]
