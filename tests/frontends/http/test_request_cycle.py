"""One request and its reply, over real sockets: how it is framed, and what becomes of it when it is done wrong."""

import asyncio
import re
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from aish.frontends.asgi import CONNECTION, Exchange
from aish.frontends.http.server.app import App
from support.engines import Bench
from support.eventually import eventually
from support.http_face import face
from support.http_listening import client, listening

GET = b"GET /x%20y?a=b HTTP/1.1\r\nhost: localhost\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4\r\n\r\nbody"


def head(status=200, *headers):
    return {"type": "http.response.start", "status": status, "headers": headers}


def piece(body=b"", *, more=False):
    return {"type": "http.response.body", "body": body, "more_body": more}


def length(count):
    return (b"content-length", b"%d" % count)


def app_that_sends(*messages):
    async def app(scope, receive, send):
        for message in messages:
            await send(message)

    return app


async def exchanged(app, sent, *, until=b""):
    """What comes back, to the end of the connection, or until this."""
    async with listening(app) as (port, _), client(port) as (reader, writer):
        writer.write(sent)
        return await (reader.readuntil(until) if until else reader.read())


async def test_a_scope_says_what_was_asked_for():
    seen = {}

    async def app(scope, receive, send):
        seen.update(scope, body=await receive())
        await send(head(200, length(0)))
        await send(piece())

    await exchanged(app, GET.replace(b"host:", b"HOST:"), until=b"\r\n\r\n")
    assert (seen["method"], seen["path"], seen["raw_path"]) == ("GET", "/x y", b"/x%20y")
    assert (seen["query_string"], seen["http_version"], seen["headers"]) == (b"a=b", "1.1", [(b"host", b"localhost")])
    assert seen["body"] == {"type": "http.request", "body": b"", "more_body": False}
    assert seen["client"][0] == "127.0.0.1"


async def test_a_body_comes_in_the_pieces_it_was_sent_in_and_then_its_end():
    bodies = []

    async def app(scope, receive, send):
        while True:
            message = await receive()
            bodies.append(message["body"])
            if not message["more_body"]:
                break
        await send(head(200, length(0)))
        await send(piece())

    async with listening(app) as (port, _), client(port) as (reader, writer):
        writer.write(POST[:-4])
        for letter in (b"b", b"o", b"dy"):
            writer.write(letter)
            await eventually(lambda: b"".join(bodies).endswith(letter))  # noqa: B023
        await reader.readuntil(b"\r\n\r\n")
    assert b"".join(bodies) == b"body"
    assert len(bodies) >= 3


async def test_a_reply_whose_length_is_known_is_sent_as_it_is():
    raw = await exchanged(
        app_that_sends(head(200, length(4)), piece(b"o", more=True), piece(b"kay")), GET, until=b"kay"
    )
    assert raw == b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nokay"


async def test_a_reply_whose_length_is_not_known_is_sent_in_chunks():
    sent = app_that_sends(head(), piece(b"first", more=True), piece(b"", more=True), piece(b"last"))
    raw = await exchanged(sent, GET, until=b"0\r\n\r\n")
    assert raw == b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n4\r\nlast\r\n0\r\n\r\n"


async def test_to_head_only_the_head_is_told():
    asked = GET.replace(b"GET", b"HEAD")
    raw = await exchanged(app_that_sends(head(200, length(4)), piece(b"okay")), asked + asked, until=b"4\r\n\r\n")
    assert raw == b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n"


async def test_a_reply_without_a_body_has_no_frame():
    raw = await exchanged(app_that_sends(head(204), piece()), GET, until=b"\r\n\r\n")
    assert raw == b"HTTP/1.1 204 No Content\r\n\r\n"


@pytest.mark.parametrize(
    "asked", [GET.replace(b"1.1\r\n", b"1.0\r\n"), GET.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")]
)
async def test_a_client_that_wants_the_connection_closed_has_it_closed(asked):
    raw = await exchanged(app_that_sends(head(200, length(2)), piece(b"ok")), asked)
    assert raw.endswith(b"\r\nconnection: close\r\n\r\nok")


async def test_so_has_an_application():
    raw = await exchanged(app_that_sends(head(200, (b"connection", b"close"), length(2)), piece(b"ok")), GET)
    assert raw.count(b"connection: close") == 1


async def test_a_head_goes_out_though_nothing_follows_it():
    async def app(scope, receive, send):
        await send(head())
        await receive()
        await receive()

    assert b"chunked" in await exchanged(app, GET, until=b"\r\n\r\n")


async def test_a_client_that_waits_to_be_told_to_go_on_is_told():
    async def app(scope, receive, send):
        body = (await receive())["body"] or (await receive())["body"]
        await send(head(200, length(len(body))))
        await send(piece(body))

    async with listening(app) as (port, _), client(port) as (reader, writer):
        writer.write(POST[:-4].replace(b"\r\n\r\n", b"\r\nexpect: 100-continue\r\n\r\n"))
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"body")
        assert (await reader.readuntil(b"body")).startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize(
    "headers",
    [[(b"x-a", b"1\r\nx-b: 2")], [(b"x-a\nx-b", b"1")], [(b"x-a", b"1\r2")], [(b"x-a", b"1\0")]],
)
@pytest.mark.parametrize("framed", [[length(0)], []], ids=["whole", "streamed"])
async def test_a_header_cannot_bring_another(headers, framed):
    """What a client or a tool has said may stand in one."""
    raw = await exchanged(app_that_sends(head(200, *headers, *framed), piece()), GET)
    assert raw.startswith(b"HTTP/1.1 500 ")
    assert raw.endswith(b"\r\n\r\nInternal Server Error")
    assert b"x-b" not in raw


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [piece(b"x")],
        [{"type": "websocket.accept"}],
        [None],
    ],
)
async def test_an_application_that_begins_no_reply_is_answered_for(messages):
    raw = await exchanged(app_that_sends(*messages), GET)
    assert raw.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
    assert b"connection: close\r\n" in raw


@pytest.mark.parametrize(
    "messages",
    [
        [head(200, length(4)), piece(b"ok")],
        [head(200, length(4)), piece(b"too much", more=True)],
        [head(), piece(b"ok", more=True)],
        [head(), head()],
    ],
)
async def test_a_reply_that_is_not_ended_well_ends_with_the_connection(messages):
    raw = await exchanged(app_that_sends(*messages), GET + GET)
    assert raw.startswith(b"HTTP/1.1 200 OK\r\n")
    assert raw.count(b"HTTP/1.1") == 1
    assert not raw.endswith(b"0\r\n\r\n")


async def test_nothing_can_be_sent_after_the_end(caplog):
    async def app(scope, receive, send):
        await send(head(200, length(0)))
        await send(piece())
        await send(piece(b"more"))

    raw = await exchanged(app, GET, until=b"\r\n\r\n")
    assert raw == b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
    assert "a reply is one head and its body" in caplog.text


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02",
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: h\r\nbad header\r\n\r\n",
        b"GET \xff HTTP/1.1\r\n\r\n",
    ],
)
async def test_what_is_no_request_is_refused(sent):
    raw = await exchanged(app_that_sends(head(200, length(0)), piece()), sent)
    assert raw.startswith(b"HTTP/1.1 400 Bad Request\r\n")


async def test_a_request_that_says_its_length_twice_is_refused():
    twice = b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"
    assert (await exchanged(app_that_sends(head(200, length(0)), piece()), twice)).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    "hosts", [[], [b"localhost", b"elsewhere"], [b"localhost", b"localhost"]], ids=["none", "two", "twice"]
)
@pytest.mark.parametrize("asks", [b"", b"upgrade: h2c\r\nconnection: upgrade\r\n"], ids=["", "upgrade"])
async def test_a_request_that_does_not_name_its_host_once_is_refused(hosts, asks):
    lines = b"".join(b"Host: %b\r\n" % host for host in hosts)
    reply = await exchanged(app_that_sends(head(), piece()), b"GET / HTTP/1.1\r\n%b%b\r\n" % (lines, asks))
    assert reply.startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(("hosts", "status"), [(0, b"200"), (1, b"200"), (2, b"400")])
async def test_one_who_speaks_the_first_http_need_not_name_it(hosts, status):
    sent = b"GET / HTTP/1.0\r\n%b\r\n" % (b"host: localhost\r\n" * hosts)
    assert (await exchanged(app_that_sends(head(), piece()), sent)).startswith(b"HTTP/1.1 %b " % status)


@pytest.mark.parametrize(
    "connection",
    [b"a b: c", b"a : b", b": b", b"a", b"\xe9: b", b"a: \x00", b"a: \x01", b"a: \x7f", b"a: b\rc", b"a: b\r\n c"],
)
async def test_a_header_of_bytes_that_none_has_is_refused(connection):
    sent = GET.replace(b"\r\n\r\n", b"\r\n%b\r\n\r\n" % connection)
    assert (await exchanged(app_that_sends(head(), piece()), sent)).startswith(b"HTTP/1.1 400 ")


async def test_a_body_that_breaks_its_frame_is_refused_and_whoever_reads_it_is_told():
    told = []

    async def app(scope, receive, send):
        while (message := await receive())["type"] == "http.request":
            told.append(message["body"])
        told.append(message["type"])

    broken = b"POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\nzz\r\n"
    assert (await exchanged(app, broken)).startswith(b"HTTP/1.1 400 ")
    assert told[-1] == "http.disconnect"


async def test_rubbish_after_a_request_does_not_break_its_reply():
    go_on = asyncio.Event()

    async def app(scope, receive, send):
        await send(head())
        await send(piece(b"first", more=True))
        await go_on.wait()
        await send(piece(b"last"))

    async with listening(app) as (port, state), client(port) as (reader, writer):
        writer.write(GET)
        raw = await reader.readuntil(b"first\r\n")
        writer.write(b"\0\0 rubbish\r\n\r\n")
        [connection] = state.connections
        await eventually(lambda: connection._ignores_input)
        go_on.set()
        raw += await reader.read()
    assert raw.endswith(b"5\r\nfirst\r\n4\r\nlast\r\n0\r\n\r\n")


async def test_a_reply_that_comes_before_the_body_has_ended_leaves_the_connection_fit_for_the_next():
    async with (
        listening(app_that_sends(head(200, length(2)), piece(b"ok"))) as (port, state),
        client(port) as (reader, writer),
    ):
        writer.write(POST[:-4])
        await reader.readuntil(b"ok")
        writer.write(b"body" + GET)
        assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200 OK")
        assert state.total_requests == 2


async def test_one_who_asks_for_another_protocol_is_answered_in_this_one():
    asked = GET.replace(b"\r\n\r\n", b"\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n")
    raw = await exchanged(app_that_sends(head(200, length(2)), piece(b"ok")), asked, until=b"ok")
    assert raw.startswith(b"HTTP/1.1 200 OK\r\n")


async def echo(scope, receive, send):
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body")
    said = b"%s %s %d" % (scope["path"].encode(), body, len(scope["headers"]))
    await send(head(200, length(len(said))))
    await send(piece(said))


@pytest.mark.parametrize("cut", [0, 4, 5, 6, 100])
async def test_the_body_of_one_who_asks_for_another_protocol_is_read_and_so_is_what_follows(cut):
    asked = POST.replace(b"\r\n\r\n", b"\r\nconnection: upgrade, http2-settings\r\nupgrade: h2c\r\n\r\n")
    async with listening(echo) as (port, state), client(port) as (reader, writer):
        writer.write(asked[:-cut] if cut else asked)
        if cut:
            await eventually(lambda: state.connections)
            await asyncio.sleep(0)
            writer.write(asked[-cut:])
        assert (await reader.readuntil(b"/ body 3")).startswith(b"HTTP/1.1 200 OK\r\n")
        writer.write(asked + GET)
        await reader.readuntil(b"/ body 3")
        await reader.readuntil(b"/x y  1")


async def test_those_who_ask_for_another_protocol_again_and_again_are_all_answered():
    asked = POST.replace(b"\r\n\r\n", b"\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n")
    async with listening(echo) as (port, state), client(port) as (reader, writer):
        writer.write(asked * 1000)
        for _ in range(1000):
            await reader.readuntil(b"/ body 3")
        assert state.total_requests == 1000


CHUNKS = b"POST /c HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n2\r\nbo\r\n2;x=y\r\ndy\r\n0\r\nx: y\r\n\r\n"
ASKS = b"POST /u HTTP/1.1\r\nhost: h\r\nconnection: upgrade\r\nupgrade: h2c\r\ncontent-length: 4\r\n\r\nbody"
ASKS_IN_CHUNKS = CHUNKS.replace(b"/c", b"/v").replace(b"1.1\r\n", b"1.1\r\nconnection: upgrade\r\nupgrade: h2c\r\n")
EVERY = POST + CHUNKS + ASKS + GET + ASKS_IN_CHUNKS + CHUNKS + GET.replace(b"/x%20y", b"/end")
ANSWERS = [b"/ body 2", b"/c body 2", b"/u body 3", b"/x y  1", b"/v body 3", b"/c body 2", b"/end  1"]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(1, len(EVERY) - 1), max_size=40), st.booleans())
@example(list(range(1, len(EVERY))), True)
@example(list(range(1, len(EVERY))), False)
async def test_requests_are_the_same_wherever_they_are_cut(cuts, waits):
    async with listening(echo) as (port, state), client(port) as (reader, _):
        await eventually(lambda: state.connections)
        [connection] = state.connections
        places = [0, *sorted(cuts), len(EVERY)]
        for start, end in pairwise(places):
            connection.data_received(EVERY[start:end])
            if waits:
                await asyncio.sleep(0)
        raw = await reader.readuntil(b"/end  1")
    assert [part.partition(b"\r\n\r\n")[2] for part in raw.split(b"HTTP/1.1 200 OK\r\n")[1:]] == ANSWERS


@pytest.mark.parametrize(("target", "path"), [(b"http://localhost:80/x?y", b"/x"), (b"http://localhost", b"/")])
async def test_a_whole_url_is_a_target_too(target, path):
    await exchanged(echo, b"GET %b HTTP/1.1\r\nhost: localhost\r\n\r\n" % target, until=path + b"  1")


async def test_nobody_is_connected_through_to_somewhere_else():
    asked = b"CONNECT localhost:80 HTTP/1.1\r\nhost: localhost\r\n\r\n"
    assert (await exchanged(echo, asked)).startswith(b"HTTP/1.1 400 ")


async def test_a_client_that_knows_no_chunks_gets_none():
    sent = app_that_sends(head(), piece(b"first ", more=True), piece(b"last"))
    raw = await exchanged(sent, GET.replace(b"1.1\r\n", b"1.0\r\n"))
    assert raw == b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nfirst last"


async def test_nor_is_it_told_to_go_on():
    asked = POST.replace(b"1.1\r\n", b"1.0\r\nexpect: 100-continue\r\n")
    async with listening(echo) as (port, state), client(port) as (reader, writer):
        writer.write(asked[:-4])
        await eventually(lambda: state.tasks)
        writer.write(asked[-4:])
        assert (await reader.read()).startswith(b"HTTP/1.1 200 ")


async def test_what_follows_a_body_is_no_header():
    chunks = (
        b"POST / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\norigin: x\r\n\r\n"
    )
    await exchanged(echo, chunks, until=b"/ body 2")


@pytest.mark.parametrize(
    "begun",
    [
        b"GET / HTTP/1.1\r\nhost: h\r\nx-long: ",
        b"GET /",
        b"POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\nx-long: ",
        b"POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n4;",
    ],
    ids=["header", "target", "trailer", "extension"],
)
async def test_what_comes_around_a_body_is_not_kept_without_end(begun):
    async with listening(echo) as (port, _), client(port) as (reader, writer):
        writer.write(begun)
        for _ in range(40):
            writer.write(b"x" * 10_000)
        assert (await reader.read()).startswith(b"HTTP/1.1 431 ")


EARLIER = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 3000\r\n\r\n" + b"b" * 3000


def head_of(size):
    written = b"POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 5\r\nx-long: %b\r\n\r\n"
    return written % (b"a" * (size - len(written % b"")))


@pytest.mark.parametrize("earlier", [b"", EARLIER], ids=["first", "second"])
@pytest.mark.parametrize("first_read", [10, 40_000, 65_535, 200_000])
@pytest.mark.parametrize(("size", "status"), [(65_536, b"200"), (65_537, b"431"), (100_000, b"431")])
async def test_a_head_may_have_exactly_64_kib(size, status, first_read, earlier):
    async with listening(echo) as (port, _), client(port) as (reader, writer):
        sent = earlier + head_of(size) + b"hello"
        writer.write(sent[:first_read])
        await writer.drain()
        await asyncio.sleep(0)
        writer.write(sent[first_read:])
        replies = re.findall(rb"HTTP/1.1 (\d+)", await reader.read())
        assert replies == [b"200"] * bool(earlier) + [status]


async def test_a_client_that_was_refused_before_it_was_told_to_go_on_starts_afresh():
    """It may send its body or leave it out: the next request could be taken for it."""
    asked = POST[:-4].replace(b"\r\n\r\n", b"\r\nexpect: 100-continue\r\n\r\n")
    raw = await exchanged(app_that_sends(head(403, length(2)), piece(b"no")), asked)
    assert raw.endswith(b"connection: close\r\n\r\nno")


@pytest.mark.parametrize(
    "asked", [POST.replace(b"h: 4", b"h: 8000000\r\nconnection: close"), b"rubbish\r\n"], ids=["early", "refused"]
)
async def test_a_client_that_is_still_sending_when_the_connection_ends_learns_why(asked):
    async with (
        listening(app_that_sends(head(403, length(2)), piece(b"no"))) as (port, _),
        client(port) as (reader, writer),
    ):
        writer.write(asked)
        for _ in range(80):
            writer.write(b"x" * 100_000)
        await writer.drain()
        assert (await reader.read()).startswith(b"HTTP/1.1 40")


async def test_a_body_in_many_small_chunks_comes_whole():
    chunks = b"POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 50_000 + b"0\r\n\r\n"
    await exchanged(echo, chunks, until=b"/ " + b"x" * 50_000 + b" 2")


async def test_whoever_is_broken_off_before_it_could_answer_is_told_to_come_back():
    async def app(scope, receive, send):
        await asyncio.Event().wait()

    async with listening(app) as (port, state), client(port) as (reader, writer):
        writer.write(GET)
        await eventually(lambda: state.tasks)
        for task in state.tasks:
            task.cancel()
        assert (await reader.read()).startswith(b"HTTP/1.1 503 ")


async def test_more_requests_than_are_kept_are_answered_all_the_same():
    async with (
        listening(app_that_sends(head(200, length(2)), piece(b"ok"))) as (port, state),
        client(port) as (reader, writer),
    ):
        writer.write(GET * 100)
        for _ in range(100):
            await reader.readuntil(b"ok")
        assert state.total_requests == 100


async def test_of_requests_that_wait_no_more_than_a_few_are_read():
    async def app(scope, receive, send):
        await asyncio.Event().wait()

    async with listening(app) as (port, state), client(port) as (_, writer):
        writer.write(GET)
        await eventually(lambda: state.tasks)
        [connection] = state.connections
        for _ in range(40):
            writer.write(POST * 1000)
        await eventually(lambda: len(connection.pipeline) > 16)
        assert len(connection.pipeline) <= 1000
        assert not connection._is_reading or connection._ignores_input
        for task in state.tasks:
            task.cancel()


async def test_a_body_that_nobody_takes_is_not_kept_without_end():
    seen = []

    async def app(scope, receive, send):
        seen.append(scope[CONNECTION])
        await asyncio.Event().wait()

    async with listening(app) as (port, state), client(port) as (_, writer):
        writer.write(POST.replace(b"content-length: 4", b"content-length: 50000000")[:-4])
        writer.write(b"x" * 4_000_000)
        await eventually(lambda: seen and len(seen[0]._body) > 64 * 1024)
        assert len(seen[0]._body) < 1_000_000
        for task in state.tasks:
            task.cancel()


async def test_of_more_requests_in_one_read_than_are_held_the_first_are_answered():
    async with (
        listening(app_that_sends(head(200, length(2)), piece(b"ok"))) as (port, state),
        client(port) as (reader, writer),
    ):
        writer.write(GET * 2000)
        raw = await reader.read()
    assert raw.count(b"\r\n\r\nok") == state.total_requests <= 2000
    assert raw.endswith(b"connection: close\r\n\r\nok")


async def test_a_defect_in_reading_a_request_is_told_of(monkeypatch, caplog):
    monkeypatch.setattr("aish.frontends.http.server.connection.RequestCycle", None)
    assert (await exchanged(app_that_sends(), GET)).startswith(b"HTTP/1.1 400 ")
    assert "by a defect of aish" in caplog.text


async def test_what_is_mounted_is_told_with_the_headers_of_every_reply_and_counted():
    async def mount(scope, receive, send):
        await Exchange(scope, receive, send).reply(202, b"{}")

    asked = b"POST /mcp HTTP/1.1\r\nhost: localhost\r\norigin: https://here.example\r\ncontent-length: 2\r\n\r\n{}"
    async with face(Bench(), origins=("https://here.example",)) as http:
        raw = await exchanged(App(http.service, {"/mcp": mount}), asked, until=b"\r\n\r\n")
        page = http.service.metrics.page()
    assert raw.startswith(b"HTTP/1.1 202")
    assert b"\r\nx-request-id: req_" in raw
    assert b"\r\naccess-control-allow-origin: https://here.example\r\n" in raw
    assert b'aish_requests_total{route="/mcp",status="202"} 1.0' in page


@pytest.mark.parametrize("end", ["eof_received", "shutdown", "close"])
async def test_a_reply_that_waits_to_be_written_is_written_before_its_connection_ends(end):
    async def app(scope, receive, send):
        scope[CONNECTION]._connection._batcher.active_requests += 1
        await Exchange(scope, receive, send).reply(200, b"{}")
        getattr(scope[CONNECTION]._connection, end)()  # as the loop does it, before this round is over

    assert (await exchanged(app, GET)).endswith(b"\r\n\r\n{}")


async def test_a_reply_that_waits_to_be_written_comes_before_a_refusal():
    async def app(scope, receive, send):
        scope[CONNECTION]._connection._batcher.active_requests += 1
        await Exchange(scope, receive, send).reply(200, b"{}")
        scope[CONNECTION]._connection.data_received(b"what is this\r\n\r\n")

    came = await exchanged(app, GET)
    assert came.index(b"HTTP/1.1 200") < came.index(b"{}") < came.index(b"HTTP/1.1 400")


@pytest.mark.parametrize("close", [(b"connection", b"close"), [b"connection", b"close"]], ids=["a tuple", "a list"])
async def test_an_application_that_says_close_more_than_once_is_heard_once(close):
    app = app_that_sends(head(200, close, (b"connection", b"keep-alive"), close, length(2)), piece(b"{}"))
    came = await exchanged(app, GET)  # to the end of the connection
    assert came.count(b"connection: close") == 1 and came.endswith(b"\r\n\r\n{}")


async def test_long_addresses_mean_what_short_ones_do():
    seen = []

    async def app(scope, receive, send):
        seen.append((scope["path"], scope["raw_path"], scope["query_string"]))
        await Exchange(scope, receive, send).reply(200, b"{}")

    for path in (b"/a%20b", b"/a%20b", b"/a%20b" + b"c" * 300):
        await exchanged(app, GET.replace(b"/x%20y", path), until=b"{}")
    short = ("/a b", b"/a%20b", b"a=b")
    assert seen == [short, short, ("/a b" + "c" * 300, b"/a%20b" + b"c" * 300, b"a=b")]


async def test_the_outbox_knows_how_many_requests_are_at_work():
    seen, both = [], asyncio.Barrier(2)

    async def app(scope, receive, send):
        async with asyncio.timeout(10):
            await both.wait()
        batcher = scope[CONNECTION]._connection._batcher
        seen.append(batcher.active_requests)
        await Exchange(scope, receive, send).reply(200, b"{}")
        seen.append(batcher)

    async with listening(app) as (port, _), client(port) as (reader, writer), client(port) as (other, other_writer):
        writer.write(GET)
        other_writer.write(GET)
        await asyncio.gather(reader.readuntil(b"{}"), other.readuntil(b"{}"))
        await eventually(lambda: len(seen) == 4 and seen[-1].active_requests == 0)
    assert seen[0] == 2


async def test_a_reply_is_open_between_its_head_and_its_end_while_the_client_keeps_up():
    seen = {}

    async def app(scope, receive, send):
        cycle = scope[CONNECTION]
        seen["at first"] = cycle.is_open()
        cycle.send_head(200, [], at_once=True)
        seen["with its head to come"] = cycle.is_open()
        cycle.send_piece(b"one")
        seen["between"] = cycle.is_open()
        cycle._connection.pause_writing()
        seen["behind"] = cycle.is_open()
        cycle._connection.resume_writing()
        seen["between again"] = cycle.is_open()
        cycle.send_piece(b"", last=True)
        seen["at its end"] = cycle.is_open()

    await exchanged(app, GET, until=b"0\r\n\r\n")
    assert [name for name, is_open in seen.items() if is_open] == ["between", "between again"]


@pytest.mark.parametrize(
    ("version", "headers", "framed"),
    [
        (b"1.1", [], b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"),
        (b"1.1", [(b"content-length", b"6")], b"onetwo"),
        (b"1.0", [], b"onetwo"),
    ],
    ids=["in chunks", "of a known length", "until the end"],
)
async def test_what_is_sent_now_is_framed_as_every_piece_is(version, headers, framed):
    async def app(scope, receive, send):
        cycle = scope[CONNECTION]
        cycle.send_head(200, [*headers, (b"connection", b"close")], at_once=True)
        cycle.send_piece(b"one")
        cycle.send_now(b"two")
        cycle.send_piece(b"", last=True)

    reply = await exchanged(app, GET.replace(b"HTTP/1.1", b"HTTP/" + version))
    assert reply.partition(b"\r\n\r\n")[2] == framed


async def test_a_reply_is_not_open_once_its_client_has_gone():
    seen, gone = [], asyncio.Event()

    async def app(scope, receive, send):
        cycle = scope[CONNECTION]
        cycle.on_gone = gone.set
        cycle.send_head(200, [], at_once=True)
        cycle.send_piece(b"one")
        seen.append(cycle.is_open())
        async with asyncio.timeout(10):
            await gone.wait()
        seen.append(cycle.is_open())

    async with listening(app) as (port, _):
        async with client(port) as (reader, writer):
            writer.write(GET)
            await reader.readuntil(b"one")
        await eventually(lambda: len(seen) == 2)
    assert seen == [True, False]
