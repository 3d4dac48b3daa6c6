"""The ASGI application: admits requests, finds their handlers, and answers what goes wrong.

`lifespan` opens the engine and closes it again; everything else is one call per request.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, MutableMapping
from typing import Any

import msgspec

from aish.errors import AishError, ConnectionLost, drop_traceback
from aish.frontends.asgi import OWNER, TOOLS, Exchange, HttpRefusal, Receive, Scope, Send
from aish.frontends.asgi import App as Asgi
from aish.frontends.http.auth.authentication import Caller
from aish.frontends.http.auth.storage_quota import StorageQuota
from aish.frontends.http.server.endpoints import make_routes
from aish.frontends.http.server.http_errors import HttpProblem, Shape, openai_shape, problem_of
from aish.frontends.http.server.lifespan import ReloadOnSignal, run_lifespan
from aish.frontends.http.server.logs import log_request_id
from aish.frontends.http.server.reply_stream import ClientDisconnected
from aish.frontends.http.server.routes import FoundRoute, RouteTable
from aish.frontends.http.server.service import Service
from aish.frontends.http.sessions.idempotency import HEADER as IDEMPOTENCY_KEY
from aish.frontends.http.sessions.idempotency import IdempotentReplies
from aish.process.memory import MemoryTrimmer
from aish.types.ids import new_id

log = logging.getLogger(__name__)

_IDEMPOTENCY_KEY = IDEMPOTENCY_KEY.encode()
_CLIENT_CLOSED_REQUEST = 499  # counted for a client that went away before it was answered, as nginx does
_UNKNOWN_SHAPE: Shape = openai_shape  # of errors before the API is known

# What a page of an allowed site may ask and send (SDKs have headers of their own). `_check` has checked the site.
_PREFLIGHT = ((b"access-control-allow-methods", b"GET, POST, DELETE"), (b"access-control-max-age", b"600"))
_USUAL_HEADERS = "authorization, content-type, x-api-key, idempotency-key, last-event-id"
# The headers of a reply that it may read.
_EXPOSED_HEADERS = (
    b"x-request-id, x-turn-id, x-runtime-trace, retry-after, x-should-retry, idempotent-replayed, mcp-session-id"
)


class App:
    """`mounts` are other frontends, by path. `reloads`: reads the configuration anew on SIGHUP."""

    def __init__(self, service: Service, mounts: Mapping[str, Asgi], *, reloads: bool = False) -> None:
        self._service = service
        self._reloads = reloads
        self._mounts = {f"{prefix}{path}": (path, mount) for path, mount in mounts.items() for prefix in ("", "/api")}
        self._routes = RouteTable(make_routes(service))
        self._quota = StorageQuota(service)
        self._memory = MemoryTrimmer(service.release_memory)
        self._idempotent = IdempotentReplies(service)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._run_lifespan(scope["type"], receive, send)
            return
        exchange = Exchange(scope, receive, send)
        exchange.id = request_id = new_id("req")
        exchange.extra.append((b"x-request-id", request_id.encode()))
        log_request_id(request_id)
        service, began_s = self._service, time.monotonic()
        path, shape = "unknown", _UNKNOWN_SHAPE
        generation = service.begin_request()
        try:
            self._check(exchange)
            if exchange.method == "OPTIONS" and exchange.headers.get("origin"):  # browsers send no key with these
                await _answer_preflight(exchange)
            elif exchange.path in self._mounts:
                path, mount = self._mounts[exchange.path]
                await self._forward(exchange, mount, scope, receive, send)
            else:
                found = self._routes.find(exchange.method, exchange.path)
                route = found.route
                path, shape = route.path, route.shape
                spends = exchange.method == "POST" and not route.free
                caller = Caller() if route.open else await service.keys.authenticate(exchange, spends=spends)
                if spends and caller.digest:  # a key in the store
                    await self._quota.check(caller, exchange, service.config.max_stored_bytes)
                if spends and service.is_starting:  # a tool that is not listed yet would be taken for the client's
                    await service.wait_until_started()
                # Not on open routes: the reply to a sign-in holds a cookie, which is for one client only.
                repeatable = exchange.method == "POST" and not route.open
                if (
                    repeatable
                    and _IDEMPOTENCY_KEY in exchange.headers.raw
                    and (key := exchange.headers.get(IDEMPOTENCY_KEY))
                ):
                    await self._answer_once(exchange, scope, caller, key, found)
                else:
                    await found.handler(exchange, caller)
        except Exception as exc:
            await _reply_error(exchange, shape, exc)
        finally:
            service.end_request(generation)
            if exchange.has_large_body:
                self._memory.trim_soon()
            status = exchange.status or _CLIENT_CLOSED_REQUEST
            service.metrics.count_request(exchange.method, path, status, exchange.failed_status)
            if log.isEnabledFor(logging.INFO):
                _log_request(exchange, path, time.monotonic() - began_s)

    def drain(self) -> None:
        """Takes no new work; streams that have no end of their own end now."""
        self._service.draining = True

    @property
    def send_timeout_s(self) -> float:
        return self._service.config.send_timeout_s

    async def _forward(self, exchange: Exchange, mount: Asgi, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request to another frontend. Host and Origin have been checked here; it does not know the configured
        ones, so it gets a local Host and no Origin."""
        caller = await self._service.keys.authenticate_by_key(exchange)
        headers = [pair for pair in scope["headers"] if pair[0] not in (b"host", b"origin")]

        async def send_with_extra(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                exchange.started, exchange.status = True, message["status"]
                message = {**message, "headers": [*message.get("headers", ()), *exchange.extra]}
            await send(message)

        known = {"headers": [(b"host", b"localhost"), *headers], TOOLS: caller.tools, OWNER: caller.owner}
        await mount({**scope, **known}, receive, send_with_extra)

    async def _answer_once(self, exchange: Exchange, scope: Scope, caller: Caller, key: str, found: FoundRoute) -> None:
        async def answer(recorded: Exchange) -> None:
            recorded.extra, recorded.id = exchange.extra, exchange.id
            try:
                await found.handler(recorded, caller)
            except Exception as exc:
                await _reply_error(recorded, found.route.shape, exc)

        await self._idempotent.answer(exchange, scope, caller, key, answer)

    def _check(self, exchange: Exchange) -> None:
        headers, config = exchange.headers, self._service.config
        origin = headers.get("origin") if b"origin" in headers.raw else None
        if why := self._service.guard.find_objection(headers.get("host") or "", origin):
            raise HttpProblem(403, why, code="forbidden_origin")
        if origin is not None:
            exchange.extra += [
                (b"access-control-allow-origin", origin.encode("latin-1")),
                (b"access-control-expose-headers", _EXPOSED_HEADERS),
                (b"vary", b"origin"),
            ]
        if self._service.active_requests > config.max_requests:
            raise HttpProblem(503, "too many requests at once", headers=[(b"retry-after", b"1")], code="overloaded")

    async def _run_lifespan(self, type: str, receive: Receive, send: Send) -> None:
        if type != "lifespan":
            raise NotImplementedError(f"no {type} here")
        parts = [self._service.open(), *([ReloadOnSignal(self._service)] if self._reloads else ())]
        await run_lifespan(parts, receive, send)


async def _answer_preflight(exchange: Exchange) -> None:
    requested = exchange.headers.get("access-control-request-headers") or _USUAL_HEADERS
    allowed = (b"access-control-allow-headers", requested.encode("latin-1"))
    await exchange.reply(204, headers=[*_PREFLIGHT, allowed])


def _log_request(exchange: Exchange, path: str, seconds: float) -> None:
    """Logs the pattern of the route and not the path: names of sessions are private."""
    status = exchange.failed_status or exchange.status
    fields = {"method": exchange.method, "route": path, "status": status, "duration_ms": round(seconds * 1000, 1)}
    log.info("request", extra={"fields": fields})


async def _reply_error(exchange: Exchange, shape: Shape, error: Exception) -> None:
    """Answers with the error in this shape. Once a reply has begun, the stream just ends without its proper end."""
    is_connected = not isinstance(error, ClientDisconnected | ConnectionLost)
    problem = _problem_from(error) if is_connected else None
    drop_traceback(error)
    if problem is not None and not exchange.started:
        await exchange.reply(problem.status, msgspec.json.encode(shape(problem)), problem.headers)


def _problem_from(error: Exception) -> HttpProblem:
    if isinstance(error, HttpProblem):
        return error
    if isinstance(error, AishError):
        return problem_of(error)
    if isinstance(error, HttpRefusal):
        return HttpProblem(error.status, str(error), headers=error.headers)
    log.error("a request failed by a defect of aish", exc_info=error)
    return HttpProblem(500, "aish failed to answer this request", code="internal_error")
