"""For operators: health, metrics, and a refresh of the tools of MCP servers."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import msgspec

from aish import __version__
from aish.errors import AishError
from aish.frontends.asgi import Exchange
from aish.frontends.http.auth.authentication import Caller, require_admin
from aish.frontends.http.metrics.counters import CONTENT_TYPE
from aish.frontends.http.server.http_errors import HttpProblem
from aish.frontends.http.server.service import Service
from aish.frontends.runtime import McpServerView

_REFRESH_S = 30.0


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
