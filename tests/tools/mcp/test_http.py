"""The client against HTTP servers, good and bad, over real sockets. Nothing may be left open, and no secret shown."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aish.net.http.client import HttpClient
from aish.tools.mcp.connect import open_session
from aish.tools.mcp.errors import FaultKind, McpError
from aish.tools.mcp.session import McpClientSession
from aish.tools.mcp.text import Sanitiser
from aish.tools.mcp.transport.http import HttpTransport
from aish.tools.mcp.transport.incoming_messages import IncomingMessages
from aish.tools.mcp.types import ListChanged, ServerSpec, ServerWarning, SessionEvent
from aish.types.messages import text_of
from aish.types.tools import ResultStatus
from support.eventually import eventually
from support.hostile_mcp_http import HttpMcp, http_mcp
from support.raw_server import nothing_left

TOKEN = "tok-51c0ffee-9a7d"


class Client:
    def __init__(self, server: HttpMcp, session: McpClientSession, events: list[SessionEvent]) -> None:
        self.server = server
        self.session = session
        self.events = events

    async def call(self, name: str = "echo", **options: Any) -> str:
        output = await self.session.call_tool(name, options.pop("arguments", {}), **options)
        return text_of(output.parts)

    async def fail(self, **options: Any) -> McpError:
        with pytest.raises(McpError) as caught:
            await self.call(**options)
        assert_discreet(caught.value)
        return caught.value


def assert_discreet(error: McpError) -> None:
    assert str(error).startswith(f"MCP server web: {error.phase}: {error.kind}")
    for shown in ("".join(traceback.format_exception(error)), repr(error), repr(vars(error))):
        assert TOKEN not in shown


@asynccontextmanager
async def connected(*modes: str, **fields: Any) -> AsyncIterator[Client]:
    events: list[SessionEvent] = []
    async with nothing_left(), asyncio.timeout(20), http_mcp(*modes) as server, HttpClient() as http:
        spec = ServerSpec("web", **({"url": server.url, "token": TOKEN} | fields))
        async with open_session(spec, http=http, on_event=events.append) as session:
            yield Client(server, session, events)
        assert TOKEN not in repr(events)


async def refused(*modes: str, **fields: Any) -> McpError:
    with pytest.raises(McpError) as caught:
        async with connected(*modes, **fields):
            pass
    assert_discreet(caught.value)
    return caught.value


# Dialects


@pytest.mark.parametrize(
    "mode",
    [
        "lmcp",
        "no_content_type",
        "text_plain",
        "sse",
        "sse_without_type",
        "string_id",
        "chatty_notifications",
        "redirects_within",
    ],
)
async def test_servers_of_many_dialects_are_understood(mode: str) -> None:
    async with connected(mode) as client:
        assert [tool.name for tool in client.session.tools] == ["echo", "other"]
        assert await client.call() == "called echo"
        assert await client.call("unlisted") == "called unlisted"
    assert client.server.methods().count("tools/list") == 1
    assert client.events == []


async def test_an_unknown_version_is_noted_and_accepted() -> None:
    async with connected("version_2099") as client:
        assert await client.call() == "called echo"
    text = "protocol version mismatch (sent 2025-11-25, got 2099-01-01); proceeding"
    assert client.events == [ServerWarning("web", text)]


async def test_every_request_says_who_asks_and_what_it_accepts() -> None:
    async with connected(headers={"x-team": "blue"}) as client:
        await client.call()
    first, *others = client.server.requests
    assert "mcp-protocol-version" not in first.headers
    for request in client.server.requests:
        assert request.headers["authorization"] == f"Bearer {TOKEN}"
        assert request.headers["accept"] == "application/json, text/event-stream"
        assert request.headers["x-team"] == "blue"
    assert {request.headers["mcp-protocol-version"] for request in others} == {"2025-11-25"}
    assert {request.method for request in client.server.requests} == {"POST"}


# Failures


async def test_a_refusal_keeps_status_body_and_challenge_without_the_token() -> None:
    error = await refused("unauthorized")
    assert (error.phase, error.kind, error.code) == ("initialize", FaultKind.HTTP, 401)
    assert error.status is ResultStatus.TRANSPORT
    assert '"given": "Bearer [redacted]"' in error.body
    assert error.challenge == 'Bearer resource_metadata="https://x/meta"'
    assert "unauthorized" in str(error)


async def test_a_server_that_is_not_there_is_unreachable() -> None:
    error = await refused(url="http://127.0.0.1:9/mcp")
    assert (error.phase, error.kind) == ("initialize", FaultKind.UNREACHABLE)


@pytest.mark.parametrize(
    ("mode", "kind", "code"),
    [
        ("broken", FaultKind.HTTP, 500),
        ("malformed", FaultKind.PROTOCOL, None),
        ("truncated", FaultKind.UNREACHABLE, None),
        ("empty", FaultKind.PROTOCOL, None),
        ("wrong_id", FaultKind.PROTOCOL, None),
        ("wrong_id_sse", FaultKind.PROTOCOL, None),
        ("huge", FaultKind.TOO_LARGE, None),
        ("huge_sse", FaultKind.TOO_LARGE, None),
        ("rpc_error", FaultKind.RPC, -32050),
        ("stream_ends", FaultKind.PROTOCOL, None),
    ],
)
async def test_a_call_that_goes_wrong_says_how_and_the_next_one_works(
    mode: str, kind: FaultKind, code: int | None
) -> None:
    async with connected(mode, max_message_bytes=1_000_000) as client:
        error = await client.fail()
        assert (error.phase, error.kind, error.code) == ("call", kind, code)
        client.server.on.clear()
        assert await client.call() == "called echo"


async def test_a_call_without_an_answer_times_out_and_the_server_is_told() -> None:
    async with connected("silent") as client:
        error = await client.fail(timeout_s=0.2)
        assert (error.kind, error.status) == (FaultKind.TIMEOUT, ResultStatus.TIMEOUT)
        await eventually(lambda: "notifications/cancelled" in client.server.methods())
    call = next(message for message in client.server.messages if message["method"] == "tools/call")
    told = next(message for message in client.server.messages if message["method"] == "notifications/cancelled")
    assert told["params"]["requestId"] == call["id"]


async def test_a_redirect_to_another_origin_is_not_followed() -> None:
    error = await refused("redirects_away")
    assert (error.kind, error.code) == (FaultKind.HTTP, 307)
    assert "another origin" in str(error)


async def test_redirects_come_to_an_end() -> None:
    assert (await refused("redirects_for_ever")).kind is FaultKind.HTTP


async def test_servers_are_independent_of_each_other() -> None:
    async with connected() as one, connected("broken") as other:
        await other.fail()
        assert await one.call() == "called echo"


# Sessions


async def test_a_session_is_kept_and_ended() -> None:
    async with connected("session") as client:
        await client.call()
    first, *others = client.server.requests
    assert "mcp-session-id" not in first.headers
    assert {request.headers["mcp-session-id"] for request in others} == {"s-1"}
    assert others[-1].method == "DELETE"


async def test_a_forgotten_session_is_begun_again_once_for_all_who_ask() -> None:
    async with connected("session", "forgets") as client:
        answers = await asyncio.gather(*(client.call() for _ in range(5)))
        assert answers == ["called echo"] * 5
        assert client.server.methods().count("initialize") == 2
    assert client.server.requests[-1].headers["mcp-session-id"] == "s-2"
    assert ListChanged("web", "tools") in client.events


async def test_a_session_forgotten_while_its_tools_are_listed_does_not_have_them_listed_again() -> None:
    async with connected("session", "forgets") as client:
        await client.session.refresh_tools()
    assert client.events == []


async def test_a_session_that_is_forgotten_again_is_an_error() -> None:
    async with connected("session", "always_forgets") as client:
        error = await client.fail()
        assert (error.kind, error.code) == (FaultKind.HTTP, 404)
        assert client.server.methods().count("initialize") == 2


async def test_not_found_without_a_session_is_an_error_at_once() -> None:
    async with connected("always_forgets") as client:
        assert (await client.fail()).code == 404
        assert client.server.methods().count("initialize") == 1


# Streams


async def test_changes_are_heard_on_a_stream_of_their_own() -> None:
    async with connected("session", "announces") as client:
        client.server.wake.set()
        await eventually(lambda: ListChanged("web", "tools") in client.events)


@pytest.mark.parametrize("modes", [("announces",), ("session",)])
async def test_no_stream_is_opened_without_a_session_or_without_changes_to_hear_of(modes: tuple[str, ...]) -> None:
    async with connected(*modes) as client:
        await client.call()
    assert "GET" not in {request.method for request in client.server.requests}


async def test_streams_that_end_at_once_are_opened_ever_more_rarely() -> None:
    pauses: list[float] = []
    enough = asyncio.Event()

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 8:
            enough.set()
            await asyncio.Event().wait()

    async with http_mcp("session", "short_streams") as server, HttpClient() as http, asyncio.timeout(10):
        spec = ServerSpec("web", url=server.url)
        incoming = IncomingMessages("web", Sanitiser(), None)
        async with HttpTransport.open(spec, incoming, http, pause=pause) as transport:
            await transport.request("initialize", {}, timeout_s=5)
            transport.listen()
            await enough.wait()
    assert pauses == [2, 4, 8, 16, 32, 60, 60, 60]


async def test_an_answer_is_fetched_where_its_stream_broke_off_after_the_time_the_server_names() -> None:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    async with http_mcp("resumes") as server, HttpClient() as http, asyncio.timeout(10):
        spec = ServerSpec("web", url=server.url)
        async with HttpTransport.open(spec, IncomingMessages("web", Sanitiser(), None), http, pause=pause) as transport:
            raw = await transport.request("tools/call", {"name": "echo"}, timeout_s=5)
    assert b"called echo" in bytes(raw)
    assert pauses == [0.7, 0.9]
    assert [request.headers["last-event-id"] for request in server.requests if request.method == "GET"] == [
        "e-1",
        "e-2",
    ]


async def test_an_answer_that_never_comes_on_any_stream_is_given_up() -> None:
    async with connected("never_resumes") as client:
        assert (await client.fail()).kind is FaultKind.PROTOCOL
    assert len([request for request in client.server.requests if request.method == "GET"]) == 10


async def test_a_server_that_asks_on_a_stream_is_answered_by_post() -> None:
    async with connected("asks_back") as client:
        calling = asyncio.create_task(client.call())
        await eventually(lambda: client.server.methods().count("answer") == 2)
        client.server.wake.set()
        assert await calling == "called echo"
    answers = {message["id"]: message for message in client.server.messages if "method" not in message}
    assert answers["q0"]["error"]["code"] == -32601
    assert answers["q1"]["result"] == {}


# The stateless era


async def test_a_stateless_server_is_found_and_told_everything_in_headers() -> None:
    async with connected("stateless") as client:
        assert client.session.facts.protocol_version == "2026-07-28"
        assert [tool.name for tool in client.session.tools] == ["regional"]
        await client.call("regional", arguments={"region": "Zürich"})
    others = client.server.requests[1:]
    assert client.server.methods() == ["initialize", "server/discover", "tools/list", "tools/call"]
    for request, message in zip(others, client.server.messages[1:], strict=True):
        assert request.headers["mcp-protocol-version"] == "2026-07-28"
        assert request.headers["mcp-method"] == message["method"]
        assert message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
    assert others[-1].headers["mcp-name"] == "regional"
    assert others[-1].headers["mcp-param-region"] == "=?base64?WsO8cmljaA==?="
    assert any("broken cannot be used" in event.text for event in client.events if isinstance(event, ServerWarning))


async def test_a_version_refused_and_then_named_as_supported_is_tried_once_more() -> None:
    async with connected("stateless_hiccup", protocol="2026-07-28") as client:
        assert await client.call("regional") == "called regional"


async def test_an_error_inside_a_status_is_the_error_in_the_stateless_era() -> None:
    async with connected("stateless_no_method", protocol="2026-07-28") as client:
        error = await client.fail()
    assert (error.kind, error.code) == (FaultKind.RPC, -32601)


async def test_changes_are_heard_by_a_subscription_in_the_stateless_era_and_missed_ones_are_looked_for() -> None:
    async with connected("stateless_changes", protocol="2026-07-28") as client:
        await eventually(lambda: "subscriptions/listen" in client.server.methods())
        assert ListChanged("web", "tools") not in client.events
        client.server.wake.set()
        await eventually(lambda: ListChanged("web", "tools") in client.events)
        await eventually(lambda: client.events.count(ListChanged("web", "tools")) == 2)
        assert await client.call("regional") == "called regional"
    first, second = (message for message in client.server.messages if message["method"] == "subscriptions/listen")
    assert first == second and first["params"]["notifications"] == {"toolsListChanged": True}
    assert first["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
    sent = next(request for request in client.server.requests if b"subscriptions/listen" in request.body)
    assert sent.headers["mcp-method"] == "subscriptions/listen"


async def test_a_server_that_announces_changes_and_has_no_subscriptions_is_asked_once() -> None:
    async with connected("stateless_deaf", protocol="2026-07-28") as client:
        await eventually(lambda: "subscriptions/listen" in client.server.methods())
        assert await client.call("regional") == "called regional"
    assert client.server.methods().count("subscriptions/listen") == 1


async def test_no_notification_is_sent_in_the_stateless_era_when_a_call_is_cancelled() -> None:
    async with connected("stateless", "silent", protocol="2026-07-28") as client:
        assert (await client.fail(timeout_s=0.2)).kind is FaultKind.TIMEOUT
        await client.session.refresh_tools()
    assert "notifications/cancelled" not in client.server.methods()
