"""Tools and MCP servers, for the console: `/v1/tools` and `/v1/mcp`, with connect, disconnect and refresh.

Only configured servers can be connected: no request names a command or an address. Servers that requests have brought
are shown to the keys that brought them and to administrators; they end by themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from aish.errors import AishError
from aish.frontends.asgi import Exchange
from aish.frontends.http.auth.authentication import Caller, require_admin
from aish.frontends.http.server.http_errors import HttpProblem
from aish.frontends.http.server.routes import HttpRoute
from aish.frontends.http.server.service import Service
from aish.frontends.runtime import McpServerView
from aish.types.tools import DynamicMcpView, ToolSpec


class ConsoleTools:
    def __init__(self, service: Service) -> None:
        self._service = service

    def routes(self) -> list[HttpRoute]:
        return [HttpRoute("GET", "/v1/tools", self.reply_with_tools, "The tools that may be offered to a model")]

    async def reply_with_tools(self, exchange: Exchange, caller: Caller) -> None:
        asked = self._service.consent_for(caller) is not None
        await self._service.engine.refresh_tools()
        offered = self._service.engine.visible_tools(caller.tools, interactive=asked, owner=caller.owner)
        await exchange.reply(
            200, msgspec.json.encode({"object": "list", "data": [tool_object(spec) for spec in offered]})
        )


def tool_object(spec: ToolSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "description": spec.description,
        "effect": spec.effect.value,
        "server": spec.source,
        "schema": spec.schema,
    }


_REFRESH_S = 30.0
# Starting one may download it first.
_CONNECT_S = 90.0
_LOG_LINES = 50
_LOG_CHARS = 500


class ConsoleMcp:
    def __init__(self, service: Service) -> None:
        self._service = service

    def routes(self) -> list[HttpRoute]:
        return [
            HttpRoute("GET", "/v1/mcp", self.reply_with_servers, "The MCP servers and how they are"),
            HttpRoute("POST", "/v1/mcp/{alias}/refresh", self.refresh, "Ask one for its tools anew"),
            HttpRoute("POST", "/v1/mcp/{alias}/connect", self.connect, "Connect one of the configuration, anew"),
            HttpRoute("POST", "/v1/mcp/{alias}/disconnect", self.disconnect, "Disconnect one"),
        ]

    async def reply_with_servers(self, exchange: Exchange, caller: Caller) -> None:
        runtime = self._service.runtime
        names = dict.fromkeys((*runtime.mcp_servers, *runtime.config.mcp.servers))
        dynamic = [server for server in runtime.dynamic_mcp_servers if caller.admin or server.owner == caller.key]
        data = [*(self._server_object(name, caller) for name in names), *map(_dynamic_object, dynamic)]
        await exchange.reply(200, msgspec.json.encode({"object": "list", "data": data}))

    async def refresh(self, exchange: Exchange, caller: Caller, alias: str) -> None:
        require_admin(caller)
        server = self._service.runtime.mcp_servers.get(alias)
        if server is None:
            raise self._unknown(alias)
        await _within(server.refresh(), _REFRESH_S, alias)
        await exchange.reply(200, msgspec.json.encode(self._server_object(alias, caller)))

    async def connect(self, exchange: Exchange, caller: Caller, alias: str) -> None:
        require_admin(caller)
        runtime = self._service.runtime
        if alias not in runtime.mcp_servers and alias not in runtime.config.mcp.servers:
            raise self._unknown(alias)
        await _within(runtime.reconnect_mcp(alias), _CONNECT_S, alias)
        await exchange.reply(200, msgspec.json.encode(self._server_object(alias, caller)))

    async def disconnect(self, exchange: Exchange, caller: Caller, alias: str) -> None:
        require_admin(caller)
        if alias not in self._service.runtime.mcp_servers:
            raise self._unknown(alias)
        await self._service.runtime.disconnect_mcp(alias)
        await exchange.reply(200, msgspec.json.encode(self._server_object(alias, caller)))

    def _unknown(self, alias: str) -> HttpProblem:
        known = ", ".join(self._service.runtime.mcp_servers) or "none"
        return HttpProblem(404, f"there is no MCP server {alias[:80]}; there are: {known}", code="server_not_found")

    def _server_object(self, alias: str, caller: Caller) -> dict[str, Any]:
        """The log of a server is for administrators, since it may contain anything."""
        server = self._service.runtime.mcp_servers.get(alias)
        configured = self._service.runtime.config.mcp.servers.get(alias)
        if server is None:
            transport = "http" if configured is not None and configured.url else "stdio"
            return {"alias": alias, "state": "closed", "error": "", "tools": [], "transport": transport, "log_tail": []}
        tools = [spec for spec in self._service.engine.tools.specs() if spec.source == alias]
        allowed = set(caller.filter_tools([spec.name for spec in tools]))
        return {
            "alias": alias,
            "state": server.state,
            "error": self._service.engine.redact(server.failure.message) if server.failure else "",
            "tools": [tool_object(spec) for spec in tools if spec.name in allowed],
            "transport": server.transport,
            "log_tail": self._log_of(server) if caller.admin else [],
        }

    def _log_of(self, server: McpServerView) -> Sequence[str]:
        return [self._service.engine.redact(line[:_LOG_CHARS]) for line in server.log[-_LOG_LINES:]]


def _dynamic_object(server: DynamicMcpView) -> dict[str, Any]:
    return {
        "alias": server.label,
        "state": server.state,
        "error": "",
        "tools": [tool_object(spec) for spec in server.tools],
        "transport": "http",
        "log_tail": [],
        "brought": {"by": server.owner, "origin": server.origin},
    }


async def _within(work: Any, seconds: float, alias: str) -> None:
    try:
        async with asyncio.timeout(seconds):
            await work
    except TimeoutError:
        raise HttpProblem(504, f"{alias} gave no answer within {seconds:g} s", code="server_timeout") from None
    except AishError as exc:
        text = f"{exc.message} ({exc.hint})" if exc.hint else exc.message
        raise HttpProblem(502, f"{alias}: {text}", code="server_failed") from exc
