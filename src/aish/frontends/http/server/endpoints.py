"""Lists all endpoints of the server, and answers those for operators: health, metrics, refresh of MCP tools."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import msgspec

from aish import __version__
from aish.errors import AishError
from aish.frontends.asgi import Exchange
from aish.frontends.http.anthropic.handler import Messages
from aish.frontends.http.auth.authentication import Caller, require_admin
from aish.frontends.http.auth.console_session import ConsoleSessions
from aish.frontends.http.console.files import ConsoleFiles
from aish.frontends.http.console.mcp import ConsoleMcp, ConsoleTools
from aish.frontends.http.console.statistics import ConsoleFigures
from aish.frontends.http.metrics.counters import CONTENT_TYPE
from aish.frontends.http.openai.chat.handler import ChatBody, ChatCompletions
from aish.frontends.http.openai.embeddings import Embeddings
from aish.frontends.http.openai.models import ModelRoutes
from aish.frontends.http.openai.responses.handler import response_routes
from aish.frontends.http.server.http_errors import HttpProblem
from aish.frontends.http.server.routes import HttpRoute, OpenApi
from aish.frontends.http.server.service import Service
from aish.frontends.http.sessions.approvals import Given
from aish.frontends.http.sessions.event_feed import FeedRoutes
from aish.frontends.http.sessions.rewinds import RewindRoutes
from aish.frontends.http.sessions.runs import GoalBody, ResumeBody
from aish.frontends.http.sessions.session_traces import Records
from aish.frontends.runtime import McpServerView

_REFRESH_S = 30.0


def make_routes(service: Service) -> list[HttpRoute]:
    chat, models, health = ChatCompletions(service), ModelRoutes(service), Health(service)
    messages, embeddings = Messages(service), Embeddings(service)
    records, operations, approvals, runs = Records(service), Operations(service), service.approvals, service.runs
    routes = [
        HttpRoute("POST", "/v1/chat/completions", chat.create, "Answer a conversation", body=ChatBody),
        *response_routes(service),
        *messages.routes(),
        *embeddings.routes(),
        HttpRoute("GET", "/v1/models", models.reply_with_models, "The models there are"),
        HttpRoute("GET", "/v1/models/{*model}", models.get, "One model"),
        HttpRoute("GET", "/v1/sessions", records.sessions, "The sessions there are, newest first"),
        HttpRoute("GET", "/v1/sessions/{*id}/export", records.export, "A session's events, one on a line"),
        *RewindRoutes(service).routes(),
        HttpRoute("GET", "/v1/sessions/{*id}", records.session, "A session and its turns"),
        HttpRoute("DELETE", "/v1/sessions/{*id}", records.delete, "Forget a session"),
        HttpRoute("GET", "/v1/traces/{turn}", records.trace, "Everything that happened in a turn"),
        *ConsoleSessions(service).routes(),
        *FeedRoutes(service, service.feed).routes(),
        *ConsoleFigures(service).routes(),
        *ConsoleTools(service).routes(),
        *ConsoleMcp(service).routes(),
        HttpRoute("GET", "/v1/approvals", approvals.reply_with_pending, "Calls that wait for consent"),
        HttpRoute("GET", "/v1/approvals/{id}", approvals.get, "One of them"),
        HttpRoute("POST", "/v1/approvals/{id}", approvals.answer, "Give or refuse consent", body=Given, free=True),
        HttpRoute("GET", "/v1/runs", runs.reply_with_runs, "Long work, newest first"),
        HttpRoute("POST", "/v1/runs", runs.start, "Work towards a goal", body=GoalBody),
        HttpRoute("GET", "/v1/runs/{id}", runs.get, "A run and its journal"),
        HttpRoute("POST", "/v1/runs/{id}/resume", runs.resume, "Go on with a run", body=ResumeBody),
        HttpRoute("POST", "/v1/runs/{id}/abandon", runs.abandon, "Give a run up", free=True),
        HttpRoute(
            "POST", "/internal/refresh_mcp_tools", operations.refresh_mcp, "Ask MCP servers for their tools anew"
        ),
        HttpRoute("GET", "/metrics", operations.metrics, "What is counted, for Prometheus"),
        HttpRoute("GET", "/healthz", health.alive, "Whether the server lives", open=True),
        HttpRoute("GET", "/readyz", health.ready, "Whether the server takes work", open=True),
    ]
    described = HttpRoute("GET", "/openapi.json", OpenApi(routes).get, "This description", open=True)
    return [*routes, described, *ConsoleFiles().routes()]


class Operations:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def metrics(self, exchange: Exchange, caller: Caller) -> None:
        if not (caller.admin or caller.metrics):
            raise HttpProblem(403, "this is for keys made with --metrics, or --admin", code="forbidden")
        metrics = self._service.metrics
        self._service.update_gauges()
        states = Counter(server.state for server in self._service.runtime.mcp_servers.values())
        for state in ("connecting", "ready", "failed", "closed"):
            metrics.mcp_servers.labels(state).set(states[state])
        page = metrics.page()
        # Without this request, since other workers will read it later.
        metrics.active_requests.set(self._service.active_requests - 1)
        await exchange.reply(200, page, [(b"content-type", CONTENT_TYPE)])

    async def refresh_mcp(self, exchange: Exchange, caller: Caller) -> None:
        """Asks all servers at the same time. A server that fails does not keep the others from being refreshed."""
        require_admin(caller)
        servers = self._service.runtime.mcp_servers
        names = list(servers)
        shown = await asyncio.gather(*(_refresh(servers[name]) for name in names))
        answer = {
            "ok": all(one["ok"] for one in shown),
            "registered": len(self._service.engine.tools.specs()),
            "servers": dict(zip(names, shown, strict=True)),
        }
        await exchange.reply(200, msgspec.json.encode(answer))


async def _refresh(server: McpServerView) -> dict[str, Any]:
    try:
        async with asyncio.timeout(_REFRESH_S):
            count = await server.refresh()
    except TimeoutError:
        return {"ok": False, "state": server.state, "error": f"no answer within {_REFRESH_S:g} s"}
    except AishError as exc:
        return {"ok": False, "state": server.state, "error": exc.message}
    return {"ok": True, "state": server.state, "tools": count}


class Health:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def alive(self, exchange: Exchange, caller: Caller) -> None:
        await exchange.reply(200, msgspec.json.encode({"status": "ok", "version": __version__}))

    async def ready(self, exchange: Exchange, caller: Caller) -> None:
        service = self._service
        status = "draining" if service.draining else "starting" if service.is_starting else "ready"
        await exchange.reply(200 if status == "ready" else 503, msgspec.json.encode({"status": status}))
