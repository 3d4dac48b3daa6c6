"""The HTTP transport as an ASGI application: one POST per message, answered with JSON or, if there is progress to
report, with a stream of events.

Requests share no state, so any worker can answer any of them. The server starts no messages of its own, so GET is 405.
If a client disconnects, its call is cancelled: no other client could fetch the result.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from aish.errors import ConnectionLost
from aish.frontends.asgi import TOOLS, App, Exchange, HttpRefusal, Receive, Scope, Send
from aish.frontends.mcp.headers import VERSION, check_mirrored, check_standard
from aish.frontends.mcp.protocol import McpResponse, ToolHost, ToolServer, error_response
from aish.frontends.mcp.requests import (
    BUSY,
    CANCELLED,
    HANDSHAKE,
    HEADER_MISMATCH,
    META_VERSION,
    NO_SESSION,
    STATELESS,
    TEXT_ONLY,
    UNSUPPORTED_VERSION,
    Request,
    cancelled_request,
    check_envelope,
    read_request,
    read_rpc_messages,
    speaks_stateless,
    unsupported_version,
)
from aish.frontends.origin_guard import OriginGuard
from aish.net.jsonrpc_message import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR, Message, RpcError

# A call's arguments: larger than any file a model writes at once, small enough for MAX_REQUESTS of them in memory.
MAX_BODY_BYTES = 4 * 1024 * 1024
MAX_REQUESTS = 128
_SESSION = "mcp-session-id"
_BATCH_VERSIONS = (None, "2025-03-26")  # None: clients of that revision do not send it

# The stateless era has a status for each error. In the other one an error is a 200, unless the request was invalid.
_ALWAYS = {PARSE_ERROR: 400, INVALID_REQUEST: 400, UNSUPPORTED_VERSION: 400, NO_SESSION: 404, BUSY: 503}
_STATELESS_ONLY = {INVALID_PARAMS: 400, HEADER_MISMATCH: 400, METHOD_NOT_FOUND: 404}
_PING_S = 15.0  # proxies drop a stream that is silent for a minute or so
_END_S = 15.0  # more than the engine gives a tool that is cancelled
_MAX_NOTES = 256  # for a client that does not read; more are dropped
_MAX_ENDED = 10_000  # an ended session that is pushed out by others is usable again
_NAME = re.compile(r"[\x21-\x7e]{1,128}")


def mcp_app(
    engine: ToolHost, *, tools: Sequence[str] = ("*",), hosts: Sequence[str] = (), origins: Sequence[str] = ()
) -> McpHttp:
    """The application for `/mcp`. `hosts` are further names of this server, `origins` other sites that may call it."""
    return McpHttp(ToolServer(engine, tools=tools), OriginGuard(hosts=hosts, origins=origins))


def mcp_mount(engine: Callable[[], ToolHost]) -> App:
    """The application for a server whose engine may be replaced, and whose callers may be limited to some tools."""
    apps: dict[tuple[str, ...], tuple[ToolHost, McpHttp]] = {}  # by the tools that a caller may use

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        current, tools = engine(), tuple(scope.get(TOOLS, ("*",)))
        if tools not in apps or apps[tools][0] is not current:
            apps[tools] = (current, mcp_app(current, tools=tools))
        await apps[tools][1](scope, receive, send)

    return app


class McpHttp:
    def __init__(self, server: ToolServer, guard: OriginGuard, *, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        self._server = server
        self._guard = guard
        self._max_body_bytes = max_body_bytes
        self._sessions = McpSessions()
        self._open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise NotImplementedError(f"no {scope['type']} here")
        exchange = Exchange(scope, receive, send)
        self._open += 1
        try:
            self._check(exchange)
            await (self._end_session if exchange.method == "DELETE" else self._post)(exchange)
        except HttpRefusal as exc:
            refusal = error_response(None, RpcError(INVALID_REQUEST, str(exc)))
            await exchange.reply(exc.status, refusal.body, exc.headers)
        except (ConnectionLost, OSError):  # OSError: raised by `send` of some servers
            return
        finally:
            self._open -= 1

    def _server_for(self, exchange: Exchange) -> ToolServer:
        return self._server.for_owner(exchange.owner) if exchange.owner else self._server

    def _check(self, exchange: Exchange) -> None:
        """Refuses invalid requests before the body is read."""
        headers = exchange.headers
        if why := self._guard.find_objection(headers.get("host") or "", headers.get("origin")):
            raise HttpRefusal(403, why)
        if self._open > MAX_REQUESTS:
            raise HttpRefusal(503, "too many requests at once", [(b"retry-after", b"1")])
        deletes = exchange.method == "DELETE" and headers.get(VERSION) not in STATELESS
        if exchange.method != "POST" and not deletes:
            raise HttpRefusal(405, "there is nothing to get here", [(b"allow", b"POST, DELETE")])
        if exchange.method == "POST" and not _is_json(headers.get("content-type")):
            raise HttpRefusal(415, "send application/json")

    async def _end_session(self, exchange: Exchange) -> None:
        session = exchange.headers.get(_SESSION)
        if session is None:
            raise HttpRefusal(400, f"which session? send {_SESSION}")
        if not self._sessions.is_usable(session):
            raise HttpRefusal(404, "no such session")
        self._sessions.end(session)
        await exchange.reply(204)

    async def _post(self, exchange: Exchange) -> None:
        body = await exchange.body(self._max_body_bytes)
        try:
            messages = read_rpc_messages(body)
            session = self._session_of(exchange)
            if body.lstrip()[:1] == b"[":
                await self._serve_batch(exchange, messages)
                return
        except RpcError as exc:
            await _reply(exchange, error_response(None, exc), stateless=False)
            return
        [message] = messages
        if message.id is None or message.is_response:
            self._handle_notification(message, session)
            await exchange.reply(202)
        else:
            await self._serve(exchange, message, session)

    def _session_of(self, exchange: Exchange) -> str | None:
        session = exchange.headers.get(_SESSION)
        if session is not None and not self._sessions.is_usable(session):
            raise RpcError(NO_SESSION, "Session not found")
        return session

    def _handle_notification(self, message: Message, session: str | None) -> None:
        id = cancelled_request(message)
        if session is not None and id is not None:
            self._sessions.cancel(session, id)

    async def _serve(self, exchange: Exchange, message: Message, session: str | None) -> None:
        try:
            request = self._admit(exchange, message)
        except RpcError as exc:
            await _reply(exchange, error_response(message.id, exc), stateless=True)
            return
        relay = Relay(exchange)
        work = asyncio.ensure_future(self._server_for(exchange).answer(request, relay.note))
        with self._sessions.running(None if request.stateless else session, request.id, work):
            if not await relay.run(work):
                return
        cancelled = error_response(request.id, RpcError(CANCELLED, "Request cancelled"))
        answer = cancelled if work.cancelled() else work.result()
        if relay.streaming:
            await relay.finish(b"" if work.cancelled() else answer.body)
        else:
            named = request.method == "initialize" and not answer.code
            headers = [(_SESSION.encode(), self._sessions.new_name().encode())] if named else []
            await exchange.reply(_status(answer.code, stateless=request.stateless), answer.body, headers)

    def _admit(self, exchange: Exchange, message: Message) -> Request:
        """Reads the request, and checks its headers against its body."""
        version = exchange.headers.get(VERSION)

        def stateless(method: str, params: dict[str, Any]) -> bool:
            return speaks_stateless(method, params) or (version is not None and version not in HANDSHAKE)

        # Clients whose revision has structured results name it with every request.
        request = read_request(message, stateless=stateless, structured=version not in (None, *TEXT_ONLY))
        if not request.stateless:
            return request
        if version is not None and version not in (*HANDSHAKE, *STATELESS) and META_VERSION not in request.meta:
            raise unsupported_version(version)
        check_envelope(request)
        check_standard(exchange.headers, request)
        arguments = request.params.get("arguments")
        for spec in self._server_for(exchange).specs() if request.method == "tools/call" else ():
            if spec.name == request.params.get("name"):
                check_mirrored(exchange.headers, spec.schema, arguments if isinstance(arguments, dict) else {})
        return request

    async def _serve_batch(self, exchange: Exchange, messages: Sequence[Message]) -> None:
        if exchange.headers.get(VERSION) not in _BATCH_VERSIONS:
            raise RpcError(INVALID_REQUEST, "Invalid Request: batches are not part of this revision")
        work = asyncio.ensure_future(_answer_all(self._server_for(exchange), messages))
        if await Relay(exchange).run(work):
            answers = [answer.body for answer in work.result()]
            await exchange.reply(200 if answers else 202, b"[" + b",".join(answers) + b"]" if answers else b"")


async def _answer_all(server: ToolServer, messages: Sequence[Message]) -> list[McpResponse]:
    """Answers a batch one by one, so that it cannot exceed the bound on concurrent calls."""
    answers = []
    for message in messages:
        if message.id is None or message.is_response:
            continue
        try:
            request = read_request(message, stateless=lambda method, params: False, structured=False)
            answers.append(await server.answer(request, lambda note: None))
        except RpcError as exc:
            answers.append(error_response(message.id, exc))
    return answers


async def _reply(exchange: Exchange, answer: McpResponse, *, stateless: bool) -> None:
    await exchange.reply(_status(answer.code, stateless=stateless), answer.body)


def _status(code: int, *, stateless: bool) -> int:
    """The HTTP status for the code of an RPC error; 0 is no error."""
    return _ALWAYS.get(code) or (_STATELESS_ONLY.get(code, 200) if stateless else 200)


def _is_json(content_type: str | None) -> bool:
    return (content_type or "").partition(";")[0].strip().lower() == "application/json"


class Relay:
    """Waits for a response while the client is connected. Progress notes turn the reply into an event stream."""

    def __init__(self, exchange: Exchange, *, ping_s: float = _PING_S) -> None:
        self._exchange = exchange
        self._ping_s = ping_s
        self._notes: deque[bytes] = deque()
        self._news = asyncio.Event()
        self.streaming = False

    def note(self, message: bytes) -> None:
        if self._exchange.takes_stream and len(self._notes) < _MAX_NOTES:
            self._notes.append(message)
            self._news.set()

    async def run(self, work: asyncio.Future[Any]) -> bool:
        """Waits until `work` is done. Returns False if the client has gone; `work` is then cancelled."""
        leaving = asyncio.ensure_future(self._exchange.wait_until_gone())
        for future in (work, leaving):
            future.add_done_callback(lambda _: self._news.set())
        try:
            while not leaving.done():
                finished = work.done()
                await self._send_notes()
                if finished:
                    return True
                await self._wait()
            return False
        finally:
            for future in (work, leaving):
                future.cancel()
            await asyncio.wait({work, leaving}, timeout=_END_S)

    async def finish(self, message: bytes) -> None:
        """Ends the stream, with a last event unless the message is empty."""
        await self._exchange.send_piece(_event(message) if message else b"", last=True)

    async def _send_notes(self) -> None:
        self._news.clear()
        while self._notes:
            if not self.streaming:
                self.streaming = True
                await self._exchange.start_stream()
            await self._exchange.send_piece(_event(self._notes.popleft()))

    async def _wait(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._ping_s):
                await self._news.wait()
                return
        if self.streaming:
            await self._exchange.send_piece(b": ping\n\n")


def _event(message: bytes) -> bytes:
    return b"event: message\ndata: " + message + b"\n\n"


class McpSessions:
    """Sessions of the handshake era: names under which one request can cancel another. Only running requests and ended
    sessions are remembered, so an open session needs no memory and survives a restart."""

    def __init__(self) -> None:
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._running: dict[tuple[str, str | int], asyncio.Future[Any]] = {}

    def new_name(self) -> str:
        return secrets.token_hex(16)

    def is_usable(self, name: str) -> bool:
        return name not in self._ended and _NAME.fullmatch(name) is not None

    def end(self, name: str) -> None:
        """Ends a session and cancels its requests."""
        self._ended[name] = None
        if len(self._ended) > _MAX_ENDED:
            self._ended.popitem(last=False)
        for (session, _), work in list(self._running.items()):
            if session == name:
                work.cancel()

    @contextmanager
    def running(self, name: str | None, id: str | int, work: asyncio.Future[Any]) -> Iterator[None]:
        """Inside, `cancel` can cancel the work. A request without a session cannot be cancelled."""
        if name is None:
            yield
            return
        self._running[name, id] = work
        try:
            yield
        finally:
            if self._running.get((name, id)) is work:
                del self._running[name, id]

    def cancel(self, name: str, id: str | int) -> None:
        if (work := self._running.get((name, id))) is not None:
            work.cancel()
