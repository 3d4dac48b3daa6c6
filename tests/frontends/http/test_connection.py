"""Connections of the server over real sockets: who waits, who leaves, who says nothing, who does not read."""

import asyncio
import json
import socket

import pytest

from aish.frontends.asgi import CONNECTION, Exchange
from aish.frontends.http.server.reply_stream import ClientDisconnected, ReplyStream
from aish.types.events import TextDelta
from support.asgi import Visit
from support.engines import Bench
from support.eventually import eventually
from support.http_face import face
from support.http_listening import client, listening

LONG_S = 30.0


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr("aish.net.event_loop.PERIOD_S", 0.02)


def chat(text, *, stream=False):
    messages = [{"role": "user", "content": text}]
    body = json.dumps({"model": "scripted:model", "messages": messages, "stream": stream}).encode()
    return b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(body) + body


async def said(reader):
    head = await reader.readuntil(b"\r\n\r\n")
    [length] = [line.split(b":")[1] for line in head.split(b"\r\n") if line.startswith(b"content-length")]
    return json.loads(await reader.readexactly(int(length)))["choices"][0]["message"]["content"]


async def test_requests_sent_at_once_are_answered_in_their_order():
    bench = Bench([0.05, TextDelta("heard")])
    async with face(bench) as http, listening(http.app) as (port, _), client(port) as (reader, writer):
        writer.write(chat("a") + chat("b"))
        await eventually(lambda: bench.scripted.requests)
        writer.write(chat("c"))
        assert [await said(reader) for _ in range(3)] == ["heard"] * 3
    assert [request.messages[-1].text for request in bench.scripted.requests] == ["a", "b", "c"]


@pytest.mark.parametrize("waiting", [0, 1, 3])
@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_is_noticed_while_further_requests_of_it_wait(waiting, stream, caplog):
    bench = Bench([LONG_S])
    async with face(bench) as http, listening(http.app) as (port, state):
        async with client(port) as (_, writer):
            writer.write(chat("a", stream=stream))
            await eventually(lambda: bench.scripted.requests)
            [connection] = state.connections
            writer.write(chat("b") * waiting)
            await eventually(lambda: len(connection.pipeline) == waiting)
        await eventually(lambda: not state.tasks)
        assert http.service.active_requests == 0
    assert len(bench.scripted.requests) == 1
    assert not caplog.records


@pytest.mark.parametrize("more", [chat("b") * 100, chat("b" * 150_000)], ids=["requests", "body"])
async def test_a_client_that_leaves_is_noticed_though_it_has_sent_more_than_is_read(more):
    bench = Bench([LONG_S])
    async with face(bench) as http, listening(http.app) as (port, state):
        async with client(port) as (_, writer):
            writer.write(chat("a"))
            await eventually(lambda: bench.scripted.requests)
            [connection] = state.connections
            writer.write(more)
            await eventually(lambda: not connection._is_reading)
        await eventually(lambda: not state.tasks and not state.connections)
    assert len(bench.scripted.requests) == 1


async def test_the_next_request_of_a_connection_is_watched_like_the_first():
    bench = Bench([TextDelta("one")], [LONG_S])
    async with face(bench) as http, listening(http.app) as (port, state):
        async with client(port) as (reader, writer):
            writer.write(chat("a"))
            assert await said(reader) == "one"
            writer.write(chat("b"))
            await eventually(lambda: len(bench.scripted.requests) == 2)
        await eventually(lambda: not state.tasks)


async def test_a_head_that_does_not_come_is_not_waited_for(monkeypatch):
    monkeypatch.setattr("aish.frontends.http.server.connection.HEAD_S", 0.05)
    async with face(Bench()) as http, listening(http.app) as (port, _), client(port) as (reader, writer):
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: loc")
        assert (await reader.read()).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize(("rest", "answers"), [(b"b", 0), (b"bodyGET /", 1)], ids=["body", "next"])
async def test_who_was_answered_before_its_body_came_is_not_answered_twice(rest, answers):
    """The rest of the body has as long as a head, and then the next head."""
    async with face(Bench()) as http, listening(http.app) as (port, state), client(port) as (reader, writer):
        writer.write(b"POST /none HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4\r\n\r\n")
        await reader.readuntil(b"}}")
        [connection] = state.connections
        for letter in rest:
            connection.data_received(bytes([letter]))
        connection.check_deadlines(asyncio.get_running_loop().time() + LONG_S)
        assert (await reader.read()).count(b"HTTP/1.1 408 ") == answers


async def test_nor_is_a_body_and_its_connection_ends_with_it(monkeypatch):
    monkeypatch.setattr("aish.frontends.asgi._BODY_S", 0.05)
    async with face(Bench()) as http, listening(http.app) as (port, _), client(port) as (reader, writer):
        writer.write(chat("a")[:-1])
        assert (await reader.read()).startswith(b"HTTP/1.1 408 ")


async def test_a_connection_that_says_nothing_is_closed_without_a_word(monkeypatch):
    monkeypatch.setattr("aish.frontends.http.server.connection.HEAD_S", 0.05)
    async with face(Bench()) as http, listening(http.app) as (port, _), client(port) as (reader, _):
        assert await reader.read() == b""


@pytest.mark.parametrize(("path", "status"), [(b"/healthz", b"200"), (b"/v1/models", b"405")])
async def test_what_is_open_to_all_can_be_asked_for_its_head(path, status):
    async with face(Bench()) as http, listening(http.app) as (port, _), client(port) as (reader, writer):
        writer.write(b"HEAD %b HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n" % path)
        raw = await reader.read()
    assert raw.startswith(b"HTTP/1.1 " + status)
    assert raw.endswith(b"\r\n\r\n")


async def test_a_connection_that_is_not_used_is_closed_and_no_longer_looked_at():
    bench = Bench([TextDelta("one")])
    async with face(bench) as http, listening(http.app, keep_alive_s=0) as (port, state):
        async with client(port) as (reader, writer):
            writer.write(chat("a"))
            assert await said(reader) == "one"
            [connection] = state.connections
            assert await reader.read() == b""
        assert connection not in connection._deadlines._watched


async def stop_reading(port, data):
    """A client that sends this and reads nothing."""
    connected = socket.socket()
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connected.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(connected, ("127.0.0.1", port))
    await loop.sock_sendall(connected, data)
    return connected


@pytest.mark.parametrize("key", [b"", b"idempotency-key: k\r\n"], ids=["", "idempotent"])
@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_does_not_read_is_given_up(stream, key):
    much = [TextDelta("x" * 65_000) for _ in range(100)]
    async with face(Bench(much), send_timeout_s=0.1) as http, listening(http.app) as (port, state):
        request = chat("a", stream=stream).replace(b"\r\n\r\n", b"\r\n" + key + b"\r\n", 1)
        with await stop_reading(port, request * 2):
            await eventually(lambda: state.connections)
            await eventually(lambda: not state.connections and not state.tasks)
        await eventually(lambda: http.service.active_requests == 0)


def app_that_sends(body, *headers):
    """Of this length."""

    async def app(scope, receive, send):
        about = [(b"content-length", b"%d" % len(body)), *headers]
        await send({"type": "http.response.start", "status": 200, "headers": about})
        await send({"type": "http.response.body", "body": body})

    return app


GET = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"


@pytest.mark.parametrize("ending", [[(b"connection", b"close")], []], ids=["last", "idle"])
async def test_the_last_that_a_client_is_sent_does_not_wait_for_it_for_ever(ending, monkeypatch):
    """Little enough that more would still be kept for it."""
    monkeypatch.setattr("aish.frontends.http.server.connection._SEND_S", 0.1)
    app = app_that_sends(b"x" * 60_000, *ending)
    async with listening(app, keep_alive_s=0) as (port, state):
        with await stop_reading(port, GET):
            await eventually(lambda: state.total_requests)
            [connection] = state.connections
            assert connection.transport.get_write_buffer_size() and not connection.is_full
            await eventually(lambda: not state.connections)


async def test_a_client_that_reads_slowly_has_the_time_it_needs_and_one_that_stops_has_not(monkeypatch):
    monkeypatch.setattr("aish.net.event_loop.PERIOD_S", LONG_S)  # the test looks itself
    loop = asyncio.get_running_loop()
    async with listening(app_that_sends(b"x" * 4_000_000), keep_alive_s=600) as (port, state):
        with await stop_reading(port, GET) as slow:
            await eventually(lambda: state.connections and next(iter(state.connections)).is_full)
            [connection] = state.connections
            now_s = loop.time()
            for _ in range(5):
                left = connection.transport.get_write_buffer_size()
                while connection.transport.get_write_buffer_size() > left - 100_000:
                    await loop.sock_recv(slow, 65_536)
                now_s += LONG_S - 1
                connection.check_deadlines(now_s)
                assert not connection.transport.is_closing()
            connection.check_deadlines(now_s + LONG_S)
            await eventually(lambda: not state.connections)


async def test_a_reply_that_follows_what_was_answered_early_is_not_cut_by_the_time_between_requests():
    go_on = asyncio.Event()

    async def app(scope, receive, send):
        if scope["method"] == "GET":
            await go_on.wait()
        await app_that_sends(scope["method"].encode())(scope, receive, send)

    async with listening(app, keep_alive_s=0.1) as (port, state), client(port) as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4\r\n\r\nbo")
        await reader.readuntil(b"POST")
        writer.write(b"dy" + GET)
        await eventually(lambda: state.tasks)
        [connection] = state.connections
        connection.check_deadlines(asyncio.get_running_loop().time() + 1)
        go_on.set()
        await reader.readuntil(b"GET")


class Link:
    on_gone = None
    is_gone = False
    more_body = False
    send = send_piece = send_now = is_open = None


async def test_a_request_that_ends_late_leaves_its_connection_to_the_next():
    link, told = Link(), []
    first, second = (
        Exchange({"method": "GET", "path": "/", "headers": [], CONNECTION: link}, None, None) for _ in "ab"
    )
    first.when_gone(lambda: told.append("first"))
    second.when_gone(lambda: told.append("second"))
    first.stop_watching()
    link.on_gone()
    assert told == ["second"]


async def test_whoever_no_longer_watches_is_not_told_that_the_client_had_gone():
    link, told = Link(), []
    link.is_gone = True
    exchange = Exchange({"method": "GET", "path": "/", "headers": [], CONNECTION: link}, None, None)
    exchange.when_gone(lambda: told.append("gone"))
    exchange.stop_watching()
    await asyncio.sleep(0)
    assert told == []


async def test_what_closes_after_a_client_that_has_gone_is_not_broken_off():
    link, closed = Link(), []
    exchange = Exchange({"method": "GET", "path": "/", "headers": [], CONNECTION: link}, None, None)

    async def left():
        with ReplyStream(exchange, None, heartbeat_s=LONG_S):
            try:
                await asyncio.sleep(LONG_S)
            finally:
                link.on_gone()
                await asyncio.sleep(0)
                closed.append(True)

    task = asyncio.create_task(left())
    await eventually(lambda: link.on_gone)
    link.on_gone()
    with pytest.raises(ClientDisconnected):
        await task
    assert closed == [True]


class Signs:
    heartbeat = b"sign"

    def opening(self):
        return b"opening "


async def test_news_wait_for_the_opening_where_the_client_takes_its_time():
    visit, go = Visit("GET", [], []), asyncio.Event()

    async def send(event):
        if event["type"] == "http.response.start":
            await go.wait()
        await visit._send(event)

    with ReplyStream(Exchange(visit._scope, visit._receive, send), Signs(), heartbeat_s=LONG_S) as watch:
        watch.check_deadlines(asyncio.get_running_loop().time() + 2)
        await asyncio.sleep(0)
        telling = asyncio.ensure_future(watch.send(b"news"))
        await asyncio.sleep(0)
        go.set()
        await telling
        await watch.finish()
    assert visit.reply.body == b"opening news" and visit.reply.ended


async def test_headers_that_are_due_when_the_first_news_comes_are_sent_once():
    visit, starts = Visit("GET", [], []), []

    async def send(event):
        starts.extend([1] * (event["type"] == "http.response.start"))
        await visit._send(event)

    exchange = Exchange(visit._scope, visit._receive, send)
    with ReplyStream(exchange, Signs(), heartbeat_s=LONG_S) as watch:
        watch.check_deadlines(asyncio.get_running_loop().time() + 2)
        await watch.send(b"news")
        assert watch._pending is not None
        await watch._pending
        await watch.finish()
    assert starts == [1] and visit.reply.body == b"opening news" and visit.reply.ended
