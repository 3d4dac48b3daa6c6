"""`/v1/events`: what every turn says, resumed without loss or repetition, kept to whom it belongs."""

import asyncio
import contextlib
import json
import random
import socket

import pytest

from aish.frontends.http.auth.keys import create_key, revoke_key
from aish.frontends.http.sessions.event_feed import MAX_LISTENERS, FeedListener, FeedPosition, encode_row
from aish.storage.sqlite.store import SqliteStore
from aish.types.events import Event, TextDelta, encode_events
from aish.types.messages import user
from aish.types.records import FeedRow, SessionRecord, TurnRecord
from aish.types.tools import Effect
from support.command import Command, ended
from support.engines import Bench, Tools, call, policy_gate
from support.eventually import eventually
from support.feed_client import listening, listening_at, read_feed
from support.free_port import free_port
from support.http_face import FakeRuntime, face, function
from support.serving import request

STEPS = [[TextDelta("a"), TextDelta("b"), TextDelta("c")]] * 20
BODY = {"model": "scripted:model", "messages": [{"role": "user", "content": "x"}]}


async def recorded(store, *turns):
    return [json.loads(line) for turn in turns for line in (await store.read_events(turn)).splitlines()]


async def test_a_turn_is_heard_event_by_event_as_it_was_recorded():
    bench = Bench(*STEPS)
    async with face(bench) as http, listening(http) as feed:
        turn = (await http.chat(session_id="s", stream=True)).headers["x-turn-id"]
        await eventually(feed.finished)
        assert feed.events == await recorded(bench.store, turn)
        ids = [one.id for one in feed.heard]
        assert len(set(ids)) == len(ids)


async def test_a_listener_that_comes_back_anywhere_misses_nothing_and_hears_nothing_twice(tmp_path):
    store = SqliteStore(tmp_path / "aish.db")
    bench = Bench(*STEPS, store=store)
    async with face(bench) as http:
        turns = [(await http.chat(session_id=f"s{n}", stream=True)).headers["x-turn-id"] for n in range(4)]
        await store.flush()
        whole = await recorded(store, *turns)
        async with listening(http, "after=0") as feed:
            await eventually(lambda: feed.finished(4))
            assert feed.events == whole
            ids = [one.id for one in feed.heard]
        for place in [0, len(ids) // 2, *random.Random(7).sample(range(len(ids)), 10), len(ids) - 1]:
            async with listening(http, last_event_id=ids[place]) as again:
                rest = whole[place + 1 :]
                await eventually(lambda again=again, rest=rest: len(again.events) >= len(rest))
                assert again.events == rest
    await store.aclose()


async def test_what_happens_while_nobody_is_connected_is_told_afterwards():
    bench = Bench(*STEPS)
    async with face(bench) as http:
        async with listening(http) as feed:
            opening = bytes(feed.body).decode()
        last = next(line.removeprefix("id: ") for line in opening.splitlines() if line.startswith("id: "))
        turn = (await http.chat(session_id="s")).headers["x-turn-id"]
        async with listening(http, last_event_id=last) as feed:
            await eventually(feed.finished)
            assert feed.events == await recorded(bench.store, turn)


async def test_a_key_hears_its_own_sessions_only_and_an_administrator_all():
    bench = Bench(*STEPS)
    ann, _ = await create_key(bench.store, "ann")
    bob, _ = await create_key(bench.store, "bob")
    boss, _ = await create_key(bench.store, "boss", admin=True)
    async with (
        face(bench) as http,
        listening(http, x_api_key=ann) as anns,
        listening(http, x_api_key=bob) as bobs,
        listening(http, x_api_key=boss) as all_of_it,
        listening(http, "session=s", x_api_key=ann) as one_session,
    ):
        for key, session in ((ann, "s"), (bob, "s"), (bob, "t"), (ann, None)):
            body = {**BODY, "session_id": session} if session else BODY
            assert (await http.ask("POST", "/v1/chat/completions", body, x_api_key=key)).status == 200
        await eventually(lambda: all_of_it.finished(4))
        await eventually(lambda: bobs.finished(2))
        assert anns.finished(1)
        assert anns.events == one_session.events
        mine = {event["turn"] for event in anns.events}
        assert len(mine) == 1
        assert len({event["turn"] for event in bobs.events} - mine) == 2


async def test_one_turn_is_followed_by_its_id():
    bench = Bench(*STEPS)
    async with face(bench) as http:
        first, second = [(await http.chat()).headers["x-turn-id"] for _ in range(2)]
        async with listening(http, f"after=0&turn={second}") as feed:
            await eventually(feed.finished)
            assert {event["turn"] for event in feed.events} == {second} != {first}


@pytest.mark.parametrize("query", ["after=x", "after=1.x", "after=-1", "after=1.1.1", "after=" + "9" * 30, "after=٣"])
async def test_a_place_that_is_none_is_a_clear_refusal(query):
    async with face(Bench()) as http:
        reply = await http.ask("GET", f"/v1/events?{query}")
        assert (reply.status, reply.json["error"]["param"]) == (400, "after")


async def test_a_place_of_another_store_begins_now():
    async with face(Bench(*STEPS)) as http:
        await http.chat(session_id="old")
        async with listening(http, "after=999999") as feed:
            await http.chat(session_id="new")
            await eventually(feed.finished)
            assert {event["session"] for event in feed.events} == {"new"}


async def test_approvals_are_heard_when_they_begin_and_are_answered_and_the_second_answer_is_told_the_first():
    bench = Bench(
        [call("t__w")], [TextDelta("x")], tools=Tools().add("t__w", effect=Effect.WRITE), gate=policy_gate(write="ask")
    )
    async with face(bench) as http, listening(http) as feed:
        asking = asyncio.create_task(http.chat(tools=[function("t__w")], session_id="s"))
        await eventually(lambda: feed.approvals)
        (begun,) = feed.approvals
        assert begun["question"]["tool"] == "t__w"
        async with listening(http) as late:
            await eventually(lambda: late.approvals)
            assert late.approvals == [begun]
        path = f"/v1/approvals/{begun['id']}"
        answers = await asyncio.gather(*(http.ask("POST", path, {"choice": choice}) for choice in ("no", "yes", "yes")))
        assert sorted(answer.status for answer in answers) == [200, 409, 409]
        (won,) = [answer.json["answer"]["choice"] for answer in answers if answer.status == 200]
        for lost in answers:
            if lost.status == 409:
                assert lost.json["error"]["code"] == "already_answered"
                assert lost.json["error"]["message"].endswith(f"answered already: {won}")
        await asking
        await eventually(lambda: len(feed.approvals) == 2)
        assert feed.approvals[1]["answer"]["choice"] == won


async def test_an_approval_that_nobody_answered_is_withdrawn_in_the_feed():
    bench = Bench(
        [call("t__w")], [TextDelta("x")], tools=Tools().add("t__w", effect=Effect.WRITE), gate=policy_gate(write="ask")
    )
    async with face(bench, approval_timeout_s=0.2) as http, listening(http) as feed:
        await http.chat(tools=[function("t__w")], session_id="s")
        await eventually(lambda: len(feed.approvals) == 2)
        assert feed.approvals[1] == {"id": feed.approvals[0]["id"], "withdrawn": True}


async def test_a_key_does_not_hear_of_the_approvals_of_another():
    bench = Bench(
        [call("t__w")], [TextDelta("x")], tools=Tools().add("t__w", effect=Effect.WRITE), gate=policy_gate(write="ask")
    )
    ann, _ = await create_key(bench.store, "ann")
    bob, _ = await create_key(bench.store, "bob")
    async with (
        face(bench, approval_timeout_s=0.2) as http,
        listening(http, x_api_key=ann) as anns,
        listening(http, x_api_key=bob) as bobs,
    ):
        body = {**BODY, "tools": [function("t__w")], "session_id": "s"}
        await http.ask("POST", "/v1/chat/completions", body, x_api_key=ann)
        await eventually(lambda: len(anns.approvals) == 2)
        assert bobs.heard == []


async def test_a_silent_feed_shows_that_it_lives():
    async with face(Bench(), heartbeat_s=0.05) as http, listening(http) as feed:
        await eventually(lambda: b"\n: \n\n" in feed.body)


async def test_a_new_configuration_ends_the_feed_and_whoever_comes_back_misses_nothing(tmp_path):
    path = tmp_path / "aish.db"
    old, new = (Bench(*STEPS, store=SqliteStore(path)) for _ in range(2))
    runtime = FakeRuntime(old)
    runtime.reloads_to = FakeRuntime(new)
    async with face(old, runtime=runtime) as http:
        reply = asyncio.create_task(http.ask("GET", "/v1/events?after=0"))
        await http.chat(session_id="before")
        await http.service.reload(runtime.reload())
        first = read_feed((await reply).body)
        await http.chat(session_id="after")
        async with listening(http, last_event_id=first[-1].id if first else "0") as feed:
            await eventually(lambda: feed.events and feed.events[-1]["body"]["type"] == "turn_finished")
            await eventually(lambda: feed.events[-1]["session"] == "after")
            heard = [one.data for one in first] + feed.events
    seen = [(event["session"], event["seq"]) for event in heard]
    assert len(set(seen)) == len(seen)
    for session in ("before", "after"):
        mine = [seq for name, seq in seen if name == session]
        assert mine == list(range(1, len(mine) + 1))
    for bench in (old, new):
        await bench.store.aclose()


async def test_the_feed_ends_when_the_server_does():
    async with face(Bench()) as http:
        reply = asyncio.create_task(http.ask("GET", "/v1/events"))
        await eventually(lambda: http.service.feed._listeners)
        http.service.draining = True
        assert (await reply).ended
        assert not http.service.feed._listeners
        assert not http.service.feed._tasks


async def test_there_is_a_limit_to_those_who_listen(monkeypatch):
    monkeypatch.setattr("aish.frontends.http.sessions.event_feed.MAX_LISTENERS", 1)
    assert MAX_LISTENERS > 1
    async with face(Bench()) as http, listening(http):
        refused = await http.ask("GET", "/v1/events")
        assert refused.status == 503
        assert refused.headers["retry-after"]


def test_a_listener_that_takes_nothing_is_lost_and_holds_no_more():
    listener = FeedListener(lambda owner: owner == "mine")
    for _ in range(10_000):
        listener.put("others", b"x")
    assert not listener.is_lost
    for _ in range(10_000):
        listener.put("mine", b"x")
    assert listener.is_lost
    assert len(list(listener.take())) <= 256


def test_a_place_within_a_row_skips_what_was_heard_of_it():
    row = FeedRow(7, "s", "t", 1, b'{"n":1}\n{"n":2}\n{"n":3}\n')
    assert [one.data["n"] for one in read_feed(encode_row(row, FeedPosition(7, 2).lines_to_skip(row)))] == [3]
    assert [one.id for one in read_feed(encode_row(row))] == ["7.1", "7.2", "7.3"]
    assert encode_row(row, FeedPosition(7, 3).lines_to_skip(row)) == b""
    assert FeedPosition(7, 2).before == 6
    assert FeedPosition(7).before == 7
    assert FeedPosition(6).lines_to_skip(row) == 0


async def test_a_turn_begun_in_another_process_is_heard_as_it_was_recorded(tmp_path):
    command, port = Command(tmp_path), free_port()
    server = command.start("serve", "--listen", f"127.0.0.1:{port}")
    try:
        await eventually(lambda: _is_ready(port), timeout_s=60)
        async with listening_at(port) as feed:
            ran = await asyncio.to_thread(command.run, "--model", "scripted:fake-tool", "--json", "add 2 and 3")
            assert ran.code == 0, ran.err
            await eventually(feed.finished, timeout_s=20)
            assert feed.events == [json.loads(line) for line in ran.out.splitlines()]
            kinds = [event["body"]["type"] for event in feed.events]
            assert "tool_result" in kinds
        _, body = await asyncio.to_thread(request, port, "GET", "/v1/sessions")
        assert len(json.loads(body)["data"]) == 1
    finally:
        ended(server)


async def test_a_reader_that_stops_reading_is_dropped_and_comes_back_without_loss(tmp_path):
    command, port, events = Command(tmp_path), free_port(), 4000
    store = SqliteStore(tmp_path / "aish.db")
    await store.create_session(SessionRecord("s", 1, 1))
    await store.start_turn(TurnRecord("turn_1", "s", 0, "m", 1, (user("x"),)))
    for seq in range(1, events + 1):
        event = Event("s", "turn_1", seq, 1, TextDelta("x" * 5000))
        store.append_events("turn_1", seq, seq, encode_events([event]))
    await store.aclose()
    command.write_config(
        f'[store]\npath = "{tmp_path / "aish.db"}"\n[serve]\nsend_timeout_s = 0.5\nheartbeat_s = 0.2\n'
    )
    server = command.start("serve", "--listen", f"127.0.0.1:{port}")
    try:
        await eventually(lambda: _is_ready(port), timeout_s=60)
        with socket.create_connection(("127.0.0.1", port)) as lazy:
            lazy.sendall(b"GET /v1/events?after=0 HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert await asyncio.to_thread(lazy.recv, 1, socket.MSG_PEEK)
            await eventually(lambda: _under_way(port) == 1, timeout_s=30)  # only the question itself
            arrived = await asyncio.to_thread(_rest_of, lazy)
        first = read_feed(_unchunked(arrived))
        assert 0 < len(first) < events
        async with listening_at(port, last_event_id=first[-1].id) as feed:
            await eventually(lambda: feed.body.count(b"\nevent: ") >= events - len(first), timeout_s=30)
            seen = [one.data["seq"] for one in first] + [event["seq"] for event in feed.events]
        assert seen == list(range(1, events + 1))
    finally:
        ended(server)


def _under_way(port):
    page = request(port, "GET", "/metrics")[1].decode()
    return next(float(line.split()[1]) for line in page.splitlines() if line.startswith("aish_requests_under_way "))


def _rest_of(connection):
    connection.settimeout(20)
    pieces = []
    with contextlib.suppress(ConnectionError):
        while piece := connection.recv(1 << 20):
            pieces.append(piece)
    return b"".join(pieces)


def _unchunked(data):
    """The body of a reply that may have broken off in the middle of a chunk."""
    body, rest = b"", data.partition(b"\r\n\r\n")[2]
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        body += rest[: int(size or b"0", 16)]
        rest = rest[int(size or b"0", 16) + 2 :]
    return body


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_a_listener_does_not_hold_up_a_server_that_is_to_end(tmp_path, workers):
    command, port = Command(tmp_path), free_port()
    command.write_config("[serve]\ndrain_s = 600.0\n")
    server = command.start("serve", "--workers", workers, "--listen", f"127.0.0.1:{port}")
    try:
        await eventually(lambda: _is_ready(port), timeout_s=60)
        async with listening_at(port) as feed:
            server.terminate()
            await eventually(lambda: feed.ended, timeout_s=30)
            await eventually(lambda: server.poll() is not None, timeout_s=30)
    finally:
        ended(server)


def _is_ready(port):
    try:
        return request(port, "GET", "/readyz")[0] == 200
    except OSError:
        return False


async def test_one_whose_key_is_revoked_hears_no_more(monkeypatch):
    monkeypatch.setattr("aish.frontends.http.auth.authentication._CACHE_S", 0.0)
    bench = Bench(*STEPS)
    boss, record = await create_key(bench.store, "boss", admin=True)
    ann, _ = await create_key(bench.store, "ann")
    async with face(bench) as http, listening(http, x_api_key=boss) as feed, listening(http, x_api_key=ann) as own:
        await http.ask("POST", "/v1/chat/completions", {**BODY, "session_id": "a"}, x_api_key=ann)
        await eventually(feed.finished)
        assert await revoke_key(bench.store, record.id)
        await http.ask("POST", "/v1/chat/completions", {**BODY, "session_id": "b"}, x_api_key=ann)
        await eventually(lambda: own.finished(2))
        assert not feed.finished(2)


async def test_one_without_a_key_hears_no_more_once_there_is_one(monkeypatch):
    monkeypatch.setattr("aish.frontends.http.auth.authentication._CACHE_S", 0.0)
    bench = Bench(*STEPS)
    async with face(bench) as http, listening(http) as feed:
        key, _ = await create_key(bench.store, "ann")
        async with listening(http, x_api_key=key) as own:
            await http.ask("POST", "/v1/chat/completions", {**BODY, "session_id": "a"}, x_api_key=key)
            await eventually(own.finished)
        assert not feed.events
