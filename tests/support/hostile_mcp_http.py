"""MCP servers behind HTTP that misbehave on purpose, in this process, on `raw_server`.

    async with http_mcp("session", "forgets") as server:
        ... server.url, server.requests, server.messages ...

Without a mode the server is well-behaved: JSON answers, 202 for notifications, 405 for GET, no session. Each mode is a
function `mode_*` below that changes it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from support.mcp_stub import text, tool
from support.raw_server import Peer, RawServer, Request, raw_server

Message = dict[str, Any]
Respond = Callable[[Peer, Request, Message], Awaitable[None]]


def response(body: bytes, status: str = "200 OK", kind: str = "application/json", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *(f"{n}: {v}" for n, v in headers.items())]
    if kind:
        lines.append(f"content-type: {kind}")
    return "\r\n".join([*lines, "\r\n"]).encode() + body


def as_json(message: Any, status: str = "200 OK", **headers: str) -> bytes:
    return response(json.dumps(message).encode(), status, **headers)


STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


def event(message: Any, id: str = "", retry: int | None = None) -> bytes:
    lines = [f"id: {id}"] if id else []
    lines += [f"retry: {retry}"] if retry is not None else []
    return "\n".join([*lines, f"data: {json.dumps(message) if message is not None else ''}", "\n"]).encode()


class HttpMcp:
    """What the server is and does; `on` holds what it does instead for a JSON-RPC or HTTP method."""

    def __init__(self) -> None:
        self.raw: RawServer | None = None
        self.version = "2025-11-25"
        self.capabilities: Any = {"tools": {}}
        self.tools: list[Any] = [tool("echo"), tool("other")]
        self.session = ""
        self.headers: dict[str, str] = {}
        self.kind = "application/json"
        self.on: dict[str, Respond] = {}
        self.extra: dict[str, Any] = {}
        self.wake = asyncio.Event()

    @property
    def url(self) -> str:
        assert self.raw is not None
        return f"{self.raw.url}/mcp"

    @property
    def requests(self) -> list[Request]:
        assert self.raw is not None
        return self.raw.requests

    @property
    def messages(self) -> list[Message]:
        return [json.loads(request.body) for request in self.requests if request.method == "POST"]

    def methods(self) -> list[str]:
        return [message.get("method", "answer") for message in self.messages]

    async def script(self, peer: Peer) -> None:
        while True:
            request = await peer.request()
            message = json.loads(request.body) if request.body else {}
            method = message.get("method", "") if request.method == "POST" else request.method
            respond = self.on.get(method) or self.on.get("*") or self.respond
            await respond(peer, request, message)
            if self.headers.get("connection") == "close" or peer.writer.is_closing():
                return

    async def respond(self, peer: Peer, request: Request, message: Message) -> None:
        if request.method == "DELETE":
            await peer.send(response(b"", "204 No Content", kind=""))
        elif request.method != "POST":
            await peer.send(response(b"", "405 Method Not Allowed", kind=""))
        elif "id" not in message or "method" not in message:
            await peer.send(response(b"", "202 Accepted", kind="", **self.headers))
        else:
            session = {"mcp-session-id": self.session} if self.session and message["method"] == "initialize" else {}
            body = json.dumps(self.answer(message)).encode()
            await peer.send(response(body, kind=self.kind, **session, **self.headers))

    def answer(self, message: Message) -> Message:
        return {"jsonrpc": "2.0", "id": message["id"], "result": self.result(message)}

    def result(self, message: Message) -> Any:
        match message["method"]:
            case "initialize":
                info = {"name": "web", "version": "1"}
                return {"protocolVersion": self.version, "capabilities": self.capabilities, "serverInfo": info}
            case "server/discover":
                return {"supportedVersions": ["2026-07-28"], "capabilities": self.capabilities, **self.extra}
            case "tools/list":
                return {"tools": self.tools}
            case _:
                return text(f"called {message['params'].get('name')}")


def instead(server: HttpMcp, method: str, *data: bytes | Callable[[Message], bytes], leave: bool = False) -> None:
    """Answer `method` with these bytes."""

    async def respond(peer: Peer, request: Request, message: Message) -> None:
        await peer.send(*(each(message) if callable(each) else each for each in data))
        if leave:
            peer.writer.close()

    server.on[method] = respond


# The dialects


def mode_lmcp(server: HttpMcp) -> None:
    """A small Lua server: one request per connection, an older version."""
    server.headers = {"connection": "close"}
    server.version = "2025-03-26"


def mode_version_2099(server: HttpMcp) -> None:
    server.version = "2099-01-01"


def mode_no_content_type(server: HttpMcp) -> None:
    server.kind = ""


def mode_text_plain(server: HttpMcp) -> None:
    server.kind = "text/plain"


def mode_chatty_notifications(server: HttpMcp) -> None:
    instead(server, "notifications/initialized", as_json({"ok": True}))


def mode_sse(server: HttpMcp) -> None:
    async def respond(peer: Peer, request: Request, message: Message) -> None:
        if "id" not in message or "method" not in message:
            await server.respond(peer, request, message)
            return
        await peer.send(STREAM, b": hello\n\n", event(server.answer(message), id="1"))
        peer.writer.close()

    server.on["*"] = respond


def mode_sse_without_type(server: HttpMcp) -> None:
    instead(server, "tools/call", lambda message: response(event(server.answer(message)), kind=""))


# Failures


def mode_unauthorized(server: HttpMcp) -> None:
    async def respond(peer: Peer, request: Request, message: Message) -> None:
        given = request.headers.get("authorization", "none")
        body = json.dumps({"error": "unauthorized", "given": given}).encode()
        challenge = {"www-authenticate": 'Bearer resource_metadata="https://x/meta"'}
        await peer.send(response(body, "401 Unauthorized", **challenge))

    server.on["*"] = respond


def mode_broken(server: HttpMcp) -> None:
    instead(server, "tools/call", response(b"stack trace here", "500 Internal Server Error", kind="text/plain"))


def mode_malformed(server: HttpMcp) -> None:
    instead(server, "tools/call", response(b'{"jsonrpc":"2.0","id":'))


def mode_truncated(server: HttpMcp) -> None:
    instead(server, "tools/call", b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{", leave=True)


def mode_empty(server: HttpMcp) -> None:
    instead(server, "tools/call", response(b"", "202 Accepted", kind=""))


def mode_wrong_id(server: HttpMcp) -> None:
    instead(server, "tools/call", as_json({"jsonrpc": "2.0", "id": 4711, "result": text("not yours")}))


def mode_wrong_id_sse(server: HttpMcp) -> None:
    async def respond(peer: Peer, request: Request, message: Message) -> None:
        await peer.send(STREAM, event({"jsonrpc": "2.0", "id": 4711, "result": text("not yours")}))
        await peer.left()

    server.on["tools/call"] = respond


def mode_string_id(server: HttpMcp) -> None:
    instead(server, "tools/call", lambda message: as_json(server.answer(message) | {"id": str(message["id"])}))


def mode_huge(server: HttpMcp) -> None:
    instead(server, "tools/call", response(b'{"a":"' + b"x" * 2_000_000 + b'"}'))


def mode_huge_sse(server: HttpMcp) -> None:
    instead(server, "tools/call", STREAM, b"data: " + b"x" * 2_000_000, leave=True)


def mode_silent(server: HttpMcp) -> None:
    async def respond(peer: Peer, request: Request, message: Message) -> None:
        await peer.left()

    server.on["tools/call"] = respond


def mode_rpc_error(server: HttpMcp) -> None:
    error = {"code": -32050, "message": "quota exceeded"}
    instead(server, "tools/call", lambda message: as_json({"jsonrpc": "2.0", "id": message["id"], "error": error}))


def mode_stream_ends(server: HttpMcp) -> None:
    instead(server, "tools/call", STREAM, leave=True)


def mode_redirects_away(server: HttpMcp) -> None:
    instead(server, "initialize", response(b"", "307 Temporary Redirect", location="http://127.0.0.1:9/steal"))


def mode_redirects_within(server: HttpMcp) -> None:
    async def respond(peer: Peer, request: Request, message: Message) -> None:
        if request.path == "/mcp":
            await peer.send(response(b"", "308 Permanent Redirect", location="/v2/mcp"))
        else:
            await server.respond(peer, request, message)

    server.on["*"] = respond


def mode_redirects_for_ever(server: HttpMcp) -> None:
    instead(server, "initialize", response(b"", "307 Temporary Redirect", location="/mcp"))


# Sessions and streams


def mode_session(server: HttpMcp) -> None:
    server.session = "s-1"


def mode_forgets(server: HttpMcp) -> None:
    """Forgets the first session at the first call, and knows the next one."""

    async def respond(peer: Peer, request: Request, message: Message) -> None:
        if request.headers.get("mcp-session-id") == "s-1":
            server.session = "s-2"
            await peer.send(as_json({"error": "no such session"}, "404 Not Found"))
        else:
            await server.respond(peer, request, message)

    server.on["tools/call"] = respond


def mode_always_forgets(server: HttpMcp) -> None:
    instead(server, "tools/call", as_json({"error": "no such session"}, "404 Not Found"))


def mode_announces(server: HttpMcp) -> None:
    """A GET stream that tells of a change when woken, and then stays open."""
    server.capabilities = {"tools": {"listChanged": True}}

    async def listen(peer: Peer, request: Request, message: Message) -> None:
        await peer.send(STREAM)
        await server.wake.wait()
        await peer.send(event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}))
        await peer.left()

    server.on["GET"] = listen


def mode_short_streams(server: HttpMcp) -> None:
    """A GET stream that ends as soon as it begins, as the older transport's does."""
    server.capabilities = {"tools": {"listChanged": True}}
    instead(server, "GET", STREAM + b"event: endpoint\ndata: /messages\n\n", leave=True)


def mode_resumes(server: HttpMcp) -> None:
    """A call's stream breaks off after an event with an id; the answer comes on a GET stream from there."""
    asked: list[Message] = []

    async def call(peer: Peer, request: Request, message: Message) -> None:
        asked.append(message)
        await peer.send(STREAM, event(None, id="e-1", retry=700))
        peer.writer.close()

    async def resume(peer: Peer, request: Request, message: Message) -> None:
        if request.headers.get("last-event-id") == "e-1":
            await peer.send(STREAM, event(None, id="e-2", retry=900))
        else:
            await peer.send(STREAM, event(server.answer(asked[0]), id="e-3"))
        peer.writer.close()

    server.on["tools/call"] = call
    server.on["GET"] = resume


def mode_never_resumes(server: HttpMcp) -> None:
    instead(server, "tools/call", STREAM + event(None, id="e-1", retry=0), leave=True)
    instead(server, "GET", STREAM + event(None, id="e-1", retry=0), leave=True)


def mode_asks_back(server: HttpMcp) -> None:
    """Asks things of the client on the stream that answers a call, and answers once it was answered."""

    async def call(peer: Peer, request: Request, message: Message) -> None:
        await peer.send(STREAM)
        for id, method in enumerate(("sampling/createMessage", "ping")):
            await peer.send(event({"jsonrpc": "2.0", "id": f"q{id}", "method": method, "params": {}}))
        await server.wake.wait()
        await peer.send(event(server.answer(message)))
        peer.writer.close()

    server.on["tools/call"] = call


# The stateless era


def mode_stateless(server: HttpMcp) -> None:
    error = {"code": -32022, "message": "Unsupported protocol version", "data": {"supported": ["2026-07-28"]}}
    instead(server, "initialize", as_json({"jsonrpc": "2.0", "id": None, "error": error}, "400 Bad Request"))
    region = {"type": "string", "x-mcp-header": "Region"}
    bad = {"type": "number", "x-mcp-header": "Score"}
    server.tools = [
        tool("regional", inputSchema={"type": "object", "properties": {"region": region}}),
        tool("broken", inputSchema={"type": "object", "properties": {"score": bad}}),
    ]


def mode_stateless_hiccup(server: HttpMcp) -> None:
    """Refuses the first call for its version, although it supports it."""
    mode_stateless(server)
    error = {"code": -32022, "message": "try again", "data": {"supported": ["2026-07-28"]}}

    async def call(peer: Peer, request: Request, message: Message) -> None:
        del server.on["tools/call"]
        await peer.send(as_json({"jsonrpc": "2.0", "id": message["id"], "error": error}, "400 Bad Request"))

    server.on["tools/call"] = call


def mode_stateless_no_method(server: HttpMcp) -> None:
    mode_stateless(server)
    error = {"code": -32601, "message": "Method not found"}
    instead(server, "tools/call", lambda m: as_json({"jsonrpc": "2.0", "id": m["id"], "error": error}, "404 Not Found"))


def mode_stateless_changes(server: HttpMcp) -> None:
    """Tells of a change, and then breaks off; the next subscription hears nothing, and has missed one."""
    mode_stateless(server)
    server.capabilities = {"tools": {"listChanged": True}}

    async def listen(peer: Peer, request: Request, message: Message) -> None:
        said = {"_meta": {"io.modelcontextprotocol/subscriptionId": message["id"]}}
        granted = {**said, "notifications": message["params"]["notifications"]}
        acknowledged = {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": granted}
        await peer.send(STREAM, event(acknowledged))
        if server.methods().count("subscriptions/listen") == 1:
            await server.wake.wait()
            changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": said}
            await peer.send(event(changed))
            peer.writer.close()
        else:
            await peer.left()

    server.on["subscriptions/listen"] = listen


def mode_stateless_deaf(server: HttpMcp) -> None:
    """Announces changes, and knows no way to hear of them."""
    mode_stateless(server)
    server.capabilities = {"tools": {"listChanged": True}}
    error = {"code": -32601, "message": "Method not found"}
    instead(server, "subscriptions/listen", lambda m: as_json({"jsonrpc": "2.0", "id": m["id"], "error": error}))


@asynccontextmanager
async def http_mcp(*modes: str) -> AsyncIterator[HttpMcp]:
    server = HttpMcp()
    for mode in modes:
        globals()[f"mode_{mode}"](server)
    async with raw_server(server.script) as server.raw:
        yield server
