"""The server frontend over HTTP: statuses, headers, streams, and clients that leave or lie."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import pytest
import uvicorn

from aish.frontends.mcp.http import MAX_REQUESTS, McpHttp, mcp_app
from aish.frontends.mcp.protocol import MAX_CALLS
from aish.frontends.mcp.requests import META_CAPABILITIES, META_VERSION
from aish.net.http.client import HttpClient
from aish.ports import CallContext
from aish.tools.mcp.connect import open_session
from aish.tools.mcp.session import McpClientSession
from aish.tools.mcp.types import ServerSpec
from aish.types.messages import text_of
from aish.types.tools import Arguments, ToolOutput
from support.asgi import Reply, Visit
from support.engines import Bench, Tools, said
from support.eventually import eventually

DEADLINE_S = 20.0
BASE = {"host": "localhost:8000", "content-type": "application/json", "accept": "application/json, text/event-stream"}
META = {META_VERSION: "2026-07-28", META_CAPABILITIES: {}}
REGION = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}


class Waiting:
    """A tool that reports, waits, and says when it was stopped."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.calls = 0
        self.go = asyncio.Event()
        self.stopped = asyncio.Event()

    async def __call__(self, arguments: Arguments, context: CallContext) -> ToolOutput:
        context.status("waiting")
        self.calls += 1
        self.begun.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.stopped.set()
            raise
        return said("done")


@pytest.fixture
def waiting() -> Waiting:
    return Waiting()


@pytest.fixture
def app(waiting: Waiting) -> McpHttp:
    tools = Tools().add("a__b").add("a__wait", waiting).add("a__region", schema=REGION)
    return mcp_app(Bench(tools=tools).engine)


def visit(body: Any, method: str = "POST", drop: tuple[str, ...] = (), **headers: str) -> Visit:
    sent = {**BASE, **{name.replace("_", "-"): value for name, value in headers.items()}}
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Visit(method, [(name, value) for name, value in sent.items() if name not in drop], [data])


def message(method: str, params: dict[str, Any] | None = None, id: Any = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}


async def post(app: McpHttp, method: str, params: dict[str, Any] | None = None, **headers: str) -> Reply:
    return await visit(message(method, params), **headers).run(app)


async def modern(
    app: McpHttp, method: str, params: dict[str, Any] | None = None, *, drop: tuple[str, ...] = (), **headers: str
) -> Reply:
    """A request of the stateless era with the headers it should have, unless a test says otherwise."""
    given = {"_meta": META, **(params or {})}
    right = {"mcp_protocol_version": "2026-07-28", "mcp_method": method}
    if "name" in given:
        right["mcp_name"] = given["name"]
    return await visit(message(method, given), drop=drop, **{**right, **headers}).run(app)


# The handshake era.


async def test_a_client_shakes_hands_and_calls(app: McpHttp):
    opened = await post(app, "initialize", {"protocolVersion": "2025-11-25"})
    assert (opened.status, opened.headers["content-type"]) == (200, "application/json")
    assert opened.json["result"]["capabilities"] == {"tools": {}}
    session = {"mcp_session_id": opened.headers["mcp-session-id"], "mcp_protocol_version": "2025-11-25"}
    noted = await visit({"jsonrpc": "2.0", "method": "notifications/initialized"}, **session).run(app)
    assert (noted.status, noted.body) == (202, b"")
    called = await post(app, "tools/call", {"name": "a__b"}, **session)
    assert called.json["result"]["content"] == [{"type": "text", "text": "done"}]


@pytest.mark.parametrize(
    ("named", "knows"),
    [({}, False), ({"mcp_protocol_version": "2025-03-26"}, False), ({"mcp_protocol_version": "2025-06-18"}, True)],
    ids=["no revision", "2025-03-26", "2025-06-18"],
)
async def test_revisions_without_structured_results_are_told_the_words(named: dict[str, str], knows: Any):
    app = mcp_app(Bench(tools=Tools().add("a__b", output_schema={"type": "object", "required": ["n"]})).engine)
    (listed,) = (await post(app, "tools/list", **named)).json["result"]["tools"]
    result = (await post(app, "tools/call", {"name": "a__b"}, **named)).json["result"]
    assert ("outputSchema" in listed, result["isError"]) == (knows, knows)
    assert result["content"][-1]["text"] == "done"


async def test_errors_are_200_in_the_handshake_era(app: McpHttp):
    assert (await post(app, "nothing")).status == 200
    assert (await post(app, "tools/call", {"name": "gone"})).json["error"]["code"] == -32602


async def test_a_session_that_was_ended_is_not_found(app: McpHttp):
    session = {"mcp_session_id": "abc"}
    assert (await post(app, "ping", **session)).status == 200
    assert (await visit(b"", "DELETE", **session).run(app)).status == 204
    assert (await post(app, "ping", **session)).status == 404
    assert (await visit(b"", "DELETE", **session).run(app)).status == 404
    assert (await post(app, "ping", mcp_session_id="abd")).status == 200


@pytest.mark.parametrize("name", ["", " ", "x" * 200, "with space", "ünicode"])
async def test_a_session_no_client_was_given_is_not_found(app: McpHttp, name: str):
    assert (await post(app, "ping", mcp_session_id=name)).status == 404


async def test_cancelling_by_session_stops_the_tool(app: McpHttp, waiting: Waiting):
    session = {"mcp_session_id": "abc"}
    running = asyncio.ensure_future(post(app, "tools/call", {"name": "a__wait"}, **session))
    await waiting.begun.wait()
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    assert (await visit(cancel, mcp_session_id="abd").run(app)).status == 202
    assert (await visit(cancel).run(app)).status == 202
    assert not waiting.stopped.is_set()
    assert (await visit(cancel, **session).run(app)).status == 202
    assert (await running).json["error"]["message"] == "Request cancelled"
    assert waiting.stopped.is_set()


async def test_ending_a_session_stops_what_runs_in_it(app: McpHttp, waiting: Waiting):
    running = asyncio.ensure_future(post(app, "tools/call", {"name": "a__wait"}, mcp_session_id="abc"))
    await waiting.begun.wait()
    assert (await visit(b"", "DELETE", mcp_session_id="abc").run(app)).status == 204
    await running
    assert waiting.stopped.is_set()


async def test_batches_are_for_the_one_revision_that_had_them(app: McpHttp):
    batch = [message("ping", id=1), {"method": "notifications/initialized"}, message("nothing", id="x"), {"id": []}]
    answered = await visit(batch).run(app)
    assert [answer["id"] for answer in answered.json] == [1, "x"]
    refused = await visit(batch, mcp_protocol_version="2025-11-25").run(app)
    assert (refused.status, refused.json["error"]["code"]) == (400, -32600)
    quiet = await visit([{"method": "notifications/initialized"}]).run(app)
    assert (quiet.status, quiet.body) == (202, b"")


async def test_what_is_wrong_with_a_member_of_a_batch_is_told_under_its_id(app: McpHttp):
    batch = [{"id": 7, "method": "tools/call", "params": [1]}, {"id": {}, "method": "ping"}]
    answered = await visit(batch).run(app)
    assert [answer["id"] for answer in answered.json] == [7, None]


# Streams.


async def test_progress_turns_the_reply_into_a_stream(app: McpHttp, waiting: Waiting):
    waiting.go.set()
    reply = await post(app, "tools/call", {"name": "a__wait", "_meta": {"progressToken": "p"}})
    assert (reply.status, reply.headers["content-type"]) == (200, "text/event-stream")
    assert [event.get("method") for event in reply.events] == ["notifications/progress", None]
    assert reply.events[1]["result"]["content"][0]["text"] == "done"
    assert reply.ended


async def test_progress_leaves_while_the_tool_runs(app: McpHttp, waiting: Waiting):
    call = visit(message("tools/call", {"name": "a__wait", "_meta": {"progressToken": "p"}}))
    running = asyncio.ensure_future(call.run(app))
    await eventually(lambda: call.reply.events)
    assert not call.reply.ended
    waiting.go.set()
    assert len((await running).events) == 2


@pytest.mark.parametrize("meta", [{}, {"progressToken": "p"}])
async def test_a_client_that_takes_no_stream_gets_json(app: McpHttp, waiting: Waiting, meta: dict[str, Any]):
    waiting.go.set()
    reply = await post(app, "tools/call", {"name": "a__wait", "_meta": meta}, accept="application/json")
    assert reply.headers["content-type"] == "application/json"
    assert reply.json["result"]["isError"] is False


@pytest.mark.parametrize("meta", [{}, {"progressToken": "p"}])
async def test_a_client_that_leaves_takes_its_call_with_it(app: McpHttp, waiting: Waiting, meta: dict[str, Any]):
    call = visit(message("tools/call", {"name": "a__wait", "_meta": meta}))
    running = asyncio.ensure_future(call.run(app))
    await waiting.begun.wait()
    call.leave()
    await running
    assert waiting.stopped.is_set()
    assert not call.reply.ended


# The stateless era.


async def test_a_stateless_client_needs_no_handshake(app: McpHttp):
    assert (await modern(app, "server/discover")).json["result"]["supportedVersions"] == ["2026-07-28"]
    assert (await modern(app, "tools/call", {"name": "a__b"})).json["result"]["resultType"] == "complete"
    assert "mcp-session-id" not in (await modern(app, "tools/list")).headers


async def test_stateless_errors_have_their_status(app: McpHttp):
    unknown = await modern(app, "nothing")
    assert (unknown.status, unknown.json["error"]["code"]) == (404, -32601)
    removed = await modern(app, "initialize")
    assert (removed.status, removed.json["error"]["code"]) == (404, -32601)
    wrong = await modern(app, "tools/call", {"name": "gone"})
    assert (wrong.status, wrong.json["error"]["code"]) == (400, -32602)
    newer = {"_meta": {**META, META_VERSION: "2099-01-01"}}
    other = await modern(app, "tools/list", newer, mcp_protocol_version="2099-01-01")
    assert (other.status, other.json["error"]["code"]) == (400, -32022)
    assert other.json["error"]["data"]["supported"] == ["2026-07-28"]


async def test_an_unknown_revision_in_the_header_alone_is_told_the_known_ones(app: McpHttp):
    reply = await post(app, "tools/list", mcp_protocol_version="1999-01-01")
    assert (reply.status, reply.json["error"]["code"]) == (400, -32022)


@pytest.mark.parametrize("params", [{"_meta": None}, {"_meta": {META_VERSION: "2026-07-28"}}])
async def test_a_stateless_request_without_its_envelope_is_a_bad_request(app: McpHttp, params: dict[str, Any]):
    reply = await modern(app, "tools/list", params)
    assert (reply.status, reply.json["error"]["code"], reply.json["id"]) == (400, -32602, 1)


@pytest.mark.parametrize(
    ("headers", "drop"),
    [
        ({"mcp_method": "tools/list"}, ()),
        ({"mcp_method": "TOOLS/CALL"}, ()),
        ({"mcp_name": "a__c"}, ()),
        ({"mcp_name": "=?base64?!!?="}, ()),
        ({"mcp_protocol_version": "2025-11-25"}, ()),
        ({}, ("mcp-method",)),
        ({}, ("mcp-name",)),
        ({}, ("mcp-protocol-version",)),
    ],
)
async def test_headers_that_say_otherwise_than_the_body_are_refused(
    app: McpHttp, headers: dict[str, str], drop: tuple[str, ...]
):
    reply = await modern(app, "tools/call", {"name": "a__b"}, drop=drop, **headers)
    assert (reply.status, reply.json["error"]["code"]) == (400, -32020)


async def test_a_header_sent_twice_is_refused(app: McpHttp):
    pairs = [
        *BASE.items(),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/list"),
        ("mcp-method", "ping"),
    ]
    reply = await Visit("POST", pairs, [json.dumps(message("tools/list", {"_meta": META})).encode()]).run(app)
    assert reply.json["error"]["code"] == -32020


@pytest.mark.parametrize("given", ["eu", "  eu\t", "=?base64?ZXU=?="])
async def test_a_mirrored_argument_may_be_plain_or_in_base64(app: McpHttp, given: str):
    reply = await modern(
        app, "tools/call", {"name": "a__region", "arguments": {"region": "eu"}}, mcp_param_region=given
    )
    assert reply.status == 200


@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        ({"region": "eu"}, {}),
        ({"region": "eu"}, {"mcp_param_region": "us"}),
        ({"region": "eu"}, {"mcp_param_region": "=?base64?ZXU?="}),
        ({}, {"mcp_param_region": "eu"}),
        ({"region": ["eu"]}, {"mcp_param_region": "eu"}),
    ],
)
async def test_a_mirrored_argument_that_differs_is_refused(
    app: McpHttp, arguments: dict[str, Any], headers: dict[str, str]
):
    reply = await modern(app, "tools/call", {"name": "a__region", "arguments": arguments}, **headers)
    assert (reply.status, reply.json["error"]["code"]) == (400, -32020)


# Who may come in, and with what.


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "127.0.0.1:8000", "[::1]:8000", "192.168.1.5", "aish.lan"]
)
async def test_our_own_names_and_addresses_are_served(host: str):
    app = mcp_app(Bench(tools=Tools()).engine, hosts=["aish.lan"])
    assert (await post(app, "ping", host=host)).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "evil.example:8000", "a@localhost", "", "[::1", "localhost/x"]
)
async def test_a_name_that_is_not_ours_is_refused(app: McpHttp, host: str):
    assert (await post(app, "ping", host=host)).status == 403


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost:8000", 200),
        ("https://localhost:8000", 200),
        ("https://console.example", 200),
        ("http://localhost:9999", 403),
        ("http://evil.example", 403),
        ("null", 403),
        ("", 403),
        ("ftp://localhost:8000", 403),
    ],
)
async def test_only_our_own_pages_and_named_sites_may_call(origin: str, status: int):
    app = mcp_app(Bench(tools=Tools()).engine, origins=["https://console.example/"])
    assert (await post(app, "ping", origin=origin)).status == status


@pytest.mark.parametrize("method", ["GET", "PUT", "OPTIONS", "HEAD", "PATCH"])
async def test_other_methods_are_not_allowed(app: McpHttp, method: str):
    reply = await visit(b"", method).run(app)
    assert (reply.status, reply.headers["allow"]) == (405, "POST, DELETE")


async def test_there_is_nothing_to_delete_in_the_stateless_era_nor_without_a_session(app: McpHttp):
    assert (await visit(b"", "DELETE", mcp_protocol_version="2026-07-28").run(app)).status == 405
    assert (await visit(b"", "DELETE").run(app)).status == 400


@pytest.mark.parametrize("kind", ["text/plain", "", "application/jsonx", "multipart/form-data"])
async def test_what_a_form_can_send_is_refused(app: McpHttp, kind: str):
    assert (await post(app, "ping", content_type=kind)).status == 415
    assert (await post(app, "ping", content_type="Application/JSON; charset=utf-8")).status == 200


@pytest.mark.parametrize(("body", "code"), [(b"", -32700), (b"{", -32700), (b"5", -32600), (b"[]", -32600)])
async def test_a_body_that_is_no_message_is_a_bad_request(app: McpHttp, body: bytes, code: int):
    reply = await visit(body).run(app)
    assert (reply.status, reply.json["error"]["code"], reply.json["id"]) == (400, code, None)


async def test_a_body_is_bounded_whether_or_not_it_says_how_large_it_is(app: McpHttp):
    announced = Visit("POST", [*BASE.items(), ("content-length", "99999999")], [])
    assert (await announced.run(app)).status == 413
    pieces = [b"x" * (1 << 20)] * 100
    silent = Visit("POST", list(BASE.items()), pieces)
    assert (await silent.run(app)).status == 413
    assert len(silent._pieces) > 90


async def test_a_client_that_leaves_before_its_body_is_whole_is_forgotten(app: McpHttp):
    half = Visit("POST", [*BASE.items(), ("content-length", "100")], [])
    half.leave()
    assert (await half.run(app)).status == 0


async def test_calls_beyond_the_bound_wait_for_their_place(app: McpHttp, waiting: Waiting):
    calls = [visit(message("tools/call", {"name": "a__wait"})) for _ in range(MAX_CALLS + 5)]
    running = [asyncio.ensure_future(call.run(app)) for call in calls]
    await eventually(lambda: waiting.calls == MAX_CALLS)
    assert (await post(app, "ping")).status == 200
    waiting.go.set()
    assert {(await each).status for each in running} == {200}
    assert waiting.calls == MAX_CALLS + 5


async def test_requests_beyond_the_bound_are_turned_away_unread(app: McpHttp):
    slow = [Visit("POST", list(BASE.items()), []) for _ in range(MAX_REQUESTS)]
    running = [asyncio.ensure_future(each.run(app)) for each in slow]
    await asyncio.sleep(0)
    assert (await post(app, "ping")).status == 503
    for each in slow:
        each.leave()
    await asyncio.gather(*running)
    assert (await post(app, "ping")).status == 200


# Over a real socket.


@asynccontextmanager
async def listening(app: McpHttp) -> AsyncIterator[str]:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        config = uvicorn.Config(app, lifespan="off", ws="none", log_level="error", timeout_graceful_shutdown=5)
        server = uvicorn.Server(config)
        server.capture_signals = nullcontext  # type: ignore[method-assign]
        task = asyncio.ensure_future(server.serve([door]))
        try:
            await eventually(lambda: server.started, DEADLINE_S)
            yield f"http://localhost:{door.getsockname()[1]}/mcp"
        finally:
            server.should_exit = True
            async with asyncio.timeout(DEADLINE_S):
                await task


@asynccontextmanager
async def connected(url: str, protocol: Any) -> AsyncIterator[McpClientSession]:
    spec = ServerSpec("self", url=url, protocol=protocol)
    async with HttpClient() as http, open_session(spec, http=http) as session:
        yield session


@pytest.mark.parametrize("protocol", ["legacy", "2026-07-28"])
async def test_our_own_client_calls_our_own_server(app: McpHttp, waiting: Waiting, protocol: Any):
    waiting.go.set()
    lines: list[str] = []
    async with listening(app) as url, connected(url, protocol) as session:
        assert {tool.name for tool in session.tools} == {"a__b", "a__wait", "a__region"}
        output = await session.call_tool("a__wait", {}, on_status=lines.append)
        assert (text_of(output.parts), lines) == ("done", ["waiting (1)"])
        output = await session.call_tool("a__region", {"region": "Übersee"})
        assert not output.is_error


@pytest.mark.parametrize("protocol", ["legacy", "2026-07-28"])
async def test_our_own_client_is_given_structured_results(protocol: Any):
    async def count(arguments: Arguments, context: CallContext) -> ToolOutput:
        return ToolOutput(said("one").parts, structured={"n": 1} if arguments else None)

    promise = {"type": "object", "properties": {"n": {"type": "integer"}}}
    app = mcp_app(Bench(tools=Tools().add("a__count", count, output_schema=promise)).engine)
    async with listening(app) as url, connected(url, protocol) as session:
        assert [tool.output_schema for tool in session.tools] == [promise]
        output = await session.call_tool("a__count", {"to": 1})
        assert (output.structured, output.is_error) == ({"n": 1}, False)
        output = await session.call_tool("a__count", {})
        assert (output.structured, output.is_error) == (None, True)


@pytest.mark.parametrize("protocol", ["legacy", "2026-07-28"])
async def test_giving_up_in_our_own_client_stops_the_tool(app: McpHttp, waiting: Waiting, protocol: Any):
    async with listening(app) as url, connected(url, protocol) as session:
        call = asyncio.ensure_future(session.call_tool("a__wait", {}))
        await waiting.begun.wait()
        call.cancel()
        async with asyncio.timeout(DEADLINE_S):
            await waiting.stopped.wait()
