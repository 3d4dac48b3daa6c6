"""The ASGI application: who may come in, where they are going, and what they are told when it does not work.

Life: `lifespan` opens the engine and closes it again; everything else is one call a request.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Mapping, MutableMapping
from contextlib import AsyncExitStack, suppress
from typing import Any

import msgspec

from aish.errors import AishError, ConnectionLost, drop_traceback
from aish.frontends.asgi import OWNER, TOOLS, Exchange, HttpRefusal, Receive, Scope, Send
from aish.frontends.asgi import App as Asgi
from aish.frontends.http.anthropic.handler import Messages
from aish.frontends.http.auth.caller import Caller
from aish.frontends.http.console.figures import ConsoleFigures
from aish.frontends.http.console.files import ConsoleFiles
from aish.frontends.http.console.mcp import ConsoleMcp
from aish.frontends.http.console.tools import ConsoleTools
from aish.frontends.http.openai.chat.handler import ChatCompletions
from aish.frontends.http.openai.chat.request import ChatBody
from aish.frontends.http.openai.embeddings import Embeddings
from aish.frontends.http.openai.models import Models
from aish.frontends.http.openai.responses.handler import responses_routes
from aish.frontends.http.server.disconnect_monitor import ClientGone
from aish.frontends.http.server.health import Health
from aish.frontends.http.server.http_errors import Problem, Shape, openai_shape, problem_of
from aish.frontends.http.server.logs import note_request
from aish.frontends.http.server.openapi import OpenApi
from aish.frontends.http.server.operations import Operations
from aish.frontends.http.server.reload import Reloading
from aish.frontends.http.server.routes import Found, Route, Routes
from aish.frontends.http.server.service import Service
from aish.frontends.http.sessions.approvals import Given
from aish.frontends.http.sessions.feed import FeedRoutes
from aish.frontends.http.sessions.idempotency import HEADER as IDEMPOTENCY_KEY
from aish.frontends.http.sessions.idempotency import Idempotent
from aish.frontends.http.sessions.records import Records
from aish.frontends.http.sessions.runs import GoalBody, ResumeBody
from aish.types.ids import new_id

log = logging.getLogger(__name__)

_ONCE = IDEMPOTENCY_KEY.encode()
_LEFT = 499  # counted for a client that went before it was answered, as others do
_UNKNOWN_SHAPE: Shape = openai_shape  # of what goes wrong before it is known which API is meant

# What a page of an allowed site may ask and send: SDKs have headers of their own. Who is allowed was asked before.
_PREFLIGHT = ((b"access-control-allow-methods", b"GET, POST, DELETE"), (b"access-control-max-age", b"600"))
_USUAL_HEADERS = "authorization, content-type, x-api-key, idempotency-key, last-event-id"
# What it may read of a reply's head.
_EXPOSED = b"x-request-id, x-turn-id, x-runtime-trace, retry-after, x-should-retry, idempotent-replayed, mcp-session-id"


class App:
    """`mounts` are other frontends, by path. `reloads`: on SIGHUP, while it lives."""

    def __init__(self, service: Service, mounts: Mapping[str, Asgi], *, reloads: bool = False) -> None:
        self._service = service
        self._reloads = reloads
        self._mounts = {f"{prefix}{path}": (path, mount) for path, mount in mounts.items() for prefix in ("", "/api")}
        self._routes = Routes(make_routes(service))
        self._idempotent = Idempotent(service)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._live(scope["type"], receive, send)
            return
        exchange = Exchange(scope, receive, send)
        exchange.id = request_id = new_id("req")
        exchange.extra.append((b"x-request-id", request_id.encode()))
        note_request(request_id)
        service, began_s = self._service, time.monotonic()
        place, shape = "unknown", _UNKNOWN_SHAPE
        generation = service.enter()
        try:
            self._check(exchange)
            if exchange.method == "OPTIONS" and exchange.headers.get("origin"):  # without a key: browsers send none
                asked = exchange.headers.get("access-control-request-headers") or _USUAL_HEADERS
                allowed = (b"access-control-allow-headers", asked.encode("latin-1"))
                await exchange.reply(204, headers=[*_PREFLIGHT, allowed])
            elif exchange.path in self._mounts:
                place, mount = self._mounts[exchange.path]
                await self._pass_on(exchange, mount, scope, receive, send)
            else:
                found = self._routes.find(exchange.method, exchange.path)
                route = found.route
                place, shape = route.path, route.shape
                spends = exchange.method == "POST" and not route.free
                caller = Caller() if route.open else await service.console.admit(exchange, spends=spends)
                if spends and service.starting:  # or a tool that is ours in a moment would be taken for the client's
                    await service.started()
                # Not of what is open: the reply to a key holds a cookie, and is nobody else's to be given again.
                repeatable = exchange.method == "POST" and not route.open
                if repeatable and _ONCE in exchange.headers.raw and (key := exchange.headers.get(IDEMPOTENCY_KEY)):
                    await self._answer_once(exchange, scope, caller, key, found)
                else:
                    await found.handler(exchange, caller)
        except Exception as exc:
            await _tell(exchange, shape, exc)
        finally:
            service.leave(generation)
            service.metrics.count_request(exchange.method, place, exchange.status or _LEFT, exchange.failed_status)
            if log.isEnabledFor(logging.INFO):
                _note(exchange, place, time.monotonic() - began_s)

    def drain(self) -> None:
        """No new work, and streams that have no end of their own end now."""
        self._service.draining = True

    @property
    def send_timeout_s(self) -> float:
        return self._service.config.send_timeout_s

    async def _pass_on(self, exchange: Exchange, mount: Asgi, scope: Scope, receive: Receive, send: Send) -> None:
        """To another frontend. By which name we were called, and from which page, has been asked here: it knows none of
        those in the configuration."""
        caller = await self._service.keys.admit(exchange)
        headers = [pair for pair in scope["headers"] if pair[0] not in (b"host", b"origin")]

        async def sent(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                exchange.started, exchange.status = True, message["status"]
                message = {**message, "headers": [*message.get("headers", ()), *exchange.extra]}
            await send(message)

        known = {"headers": [(b"host", b"localhost"), *headers], TOOLS: caller.tools, OWNER: caller.owner}
        await mount({**scope, **known}, receive, sent)

    async def _answer_once(self, exchange: Exchange, scope: Scope, caller: Caller, key: str, found: Found) -> None:
        async def answer(recorded: Exchange) -> None:
            recorded.extra, recorded.id = exchange.extra, exchange.id
            try:
                await found.handler(recorded, caller)
            except Exception as exc:
                await _tell(recorded, found.route.shape, exc)

        await self._idempotent.answer(exchange, scope, caller, key, answer)

    def _check(self, exchange: Exchange) -> None:
        headers, config = exchange.headers, self._service.config
        origin = headers.get("origin") if b"origin" in headers.raw else None
        if why := self._service.guard.objection(headers.get("host") or "", origin):
            raise Problem(403, why, code="forbidden_origin")
        if origin is not None:
            exchange.extra += [
                (b"access-control-allow-origin", origin.encode("latin-1")),
                (b"access-control-expose-headers", _EXPOSED),
                (b"vary", b"origin"),
            ]
        if self._service.under_way > config.max_requests:
            raise Problem(503, "too many requests at once", headers=[(b"retry-after", b"1")], code="overloaded")

    async def _live(self, type: str, receive: Receive, send: Send) -> None:
        if type != "lifespan":
            raise NotImplementedError(f"no {type} here")
        async with AsyncExitStack() as stack:
            await receive()
            # Every generator of ours is closed by whoever began it: the loop need not keep a list of them.
            sys.set_asyncgen_hooks(firstiter=None)
            try:
                await stack.enter_async_context(self._service.opened())
            except AishError as exc:
                why = f"{exc.message} ({exc.hint})" if exc.hint else exc.message
                await send({"type": "lifespan.startup.failed", "message": why})
                return
            if self._reloads:
                await stack.enter_async_context(Reloading(self._service))
            await send({"type": "lifespan.startup.complete"})
            with suppress(asyncio.CancelledError):  # by a server in a hurry; what was opened is closed all the same
                await receive()
        await send({"type": "lifespan.shutdown.complete"})


def _note(exchange: Exchange, place: str, seconds: float) -> None:
    """The pattern of the route, not the path: names of sessions are nobody's business."""
    status = exchange.failed_status or exchange.status
    fields = {"method": exchange.method, "route": place, "status": status, "duration_ms": round(seconds * 1000, 1)}
    log.info("request", extra={"fields": fields})


async def _tell(exchange: Exchange, shape: Shape, error: Exception) -> None:
    """What went wrong, in this shape. Nothing more can be told once a reply has begun: the stream then ends without its
    proper end."""
    is_there = not isinstance(error, ClientGone | ConnectionLost)
    problem = _problem_in(error) if is_there else None
    drop_traceback(error)
    if problem is not None and not exchange.started:
        await exchange.reply(problem.status, msgspec.json.encode(shape(problem)), problem.headers)


def _problem_in(error: Exception) -> Problem:
    if isinstance(error, Problem):
        return error
    if isinstance(error, AishError):
        return problem_of(error)
    if isinstance(error, HttpRefusal):
        return Problem(error.status, str(error), headers=error.headers)
    log.error("a request failed by a defect of aish", exc_info=error)
    return Problem(500, "aish failed to answer this request", code="internal_error")


def make_routes(service: Service) -> list[Route]:
    chat, models, health = ChatCompletions(service), Models(service), Health(service)
    messages, embeddings = Messages(service), Embeddings(service)
    records, operations, approvals, runs = Records(service), Operations(service), service.approvals, service.runs
    routes = [
        Route("POST", "/v1/chat/completions", chat.create, "Answer a conversation", body=ChatBody),
        *responses_routes(service),
        *messages.routes(),
        *embeddings.routes(),
        Route("GET", "/v1/models", models.list, "The models there are"),
        Route("GET", "/v1/models/{*model}", models.get, "One model"),
        Route("GET", "/v1/sessions", records.sessions, "The sessions there are, newest first"),
        Route("GET", "/v1/sessions/{*id}/export", records.export, "A session's events, one on a line"),
        Route("GET", "/v1/sessions/{*id}", records.session, "A session and its turns"),
        Route("DELETE", "/v1/sessions/{*id}", records.delete, "Forget a session"),
        Route("GET", "/v1/traces/{turn}", records.trace, "Everything that happened in a turn"),
        *service.console.routes(),
        *FeedRoutes(service).routes(),
        *ConsoleFigures(service).routes(),
        *ConsoleTools(service).routes(),
        *ConsoleMcp(service).routes(),
        Route("GET", "/v1/approvals", approvals.list, "Calls that wait for consent"),
        Route("GET", "/v1/approvals/{id}", approvals.get, "One of them"),
        Route("POST", "/v1/approvals/{id}", approvals.answer, "Give or refuse consent", body=Given, free=True),
        Route("GET", "/v1/runs", runs.list, "Long work, newest first"),
        Route("POST", "/v1/runs", runs.start, "Work towards a goal", body=GoalBody),
        Route("GET", "/v1/runs/{id}", runs.get, "A run and its journal"),
        Route("POST", "/v1/runs/{id}/resume", runs.resume, "Go on with a run", body=ResumeBody),
        Route("POST", "/v1/runs/{id}/abandon", runs.abandon, "Give a run up", free=True),
        Route("POST", "/internal/refresh_mcp_tools", operations.refresh_mcp, "Ask MCP servers for their tools anew"),
        Route("GET", "/metrics", operations.metrics, "What is counted, for Prometheus"),
        Route("GET", "/healthz", health.alive, "Whether the server lives", open=True),
        Route("GET", "/readyz", health.ready, "Whether the server takes work", open=True),
    ]
    described = Route("GET", "/openapi.json", OpenApi(routes).get, "This description", open=True)
    return [*routes, described, *ConsoleFiles().routes()]
