"""The MCP servers of one engine: configured ones, those that the user connects while it runs, and those of API
requests.

The MCP client is imported when the first server is connected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from aish.config.schema.config import ServeConfig
from aish.config.schema.tools import McpConfig, McpServerConfig
from aish.errors import UsageError
from aish.tools.registry import Registry
from aish.types.tools import DynamicMcpServer, DynamicMcpView

if TYPE_CHECKING:
    from aish.net.http.client import HttpClient
    from aish.tools.mcp.dynamic import DynamicMcpServers, DynamicToolsHandle
    from aish.tools.mcp.server import McpServer, ToolExposure
    from aish.tools.mcp.servers import McpServers
    from aish.tools.mcp.types import ServerSpec

# Counts how many aish processes have started each other as MCP servers: aish may be configured as its own server.
_DEPTH_VARIABLE = "MCP_DEPTH_OF_AISH"
_MAX_DEPTH = 3
_MAX_DEPTH_DIGITS = 9  # int() refuses very long numbers


class McpConnections:
    """`tools` is the registry for their tools. Tools of dynamic servers are visible only to their own requests."""

    def __init__(
        self,
        config: McpConfig,
        serve: ServeConfig,
        tools: Registry,
        http: Callable[[], HttpClient],
        env: Mapping[str, str],
    ) -> None:
        self._depth = _parse_depth(env.get(_DEPTH_VARIABLE, ""))
        self._config = config
        self._serve = serve
        self._tools = tools
        self._http = http
        self._opened: McpServers | None = None
        self._dynamic: DynamicMcpServers | None = None
        self._locks: dict[str, asyncio.Lock] = {}  # by the name of a server that is being replaced

    @property
    def servers(self) -> Mapping[str, McpServer]:
        return self._opened.servers if self._opened else {}

    def start(self, names: Sequence[str] | None) -> None:
        """Connects configured servers in the background: those named, or all that are enabled."""
        for name, server in self._config.servers.items():
            if server.enabled if names is None else name in names:
                self._get_servers().connect(*self._make_spec(name, server))

    async def connect(self, name: str, target: str) -> str:
        """Connects a server by URL or command line. "" makes a name."""
        import shlex

        from aish.tools.mcp.server import ServerState
        from aish.tools.mcp.types import ServerSpec

        if not target:
            raise UsageError("connect to what?", hint="a URL, or a command line")
        name = name or self._tools.next_alias()
        is_url = target.startswith(("http://", "https://"))
        if is_url:
            spec = ServerSpec(name=name, url=target)
        else:
            spec = ServerSpec(name=name, command=tuple(shlex.split(target)), env=self._next_depth())
        async with self._lock(name):
            servers = self._get_servers()
            if name in servers.servers and servers.servers[name].state is ServerState.FAILED:  # such as a mistyped one
                await servers.disconnect(name)
            servers.connect(spec)
        await self.wait_until_started(spec.start_timeout_s, [name])
        return name

    async def disconnect(self, name: str) -> None:
        if self._opened is None:
            raise UsageError(f"no MCP server named {name}")
        async with self._lock(name):
            await self._opened.disconnect(name)

    async def reconnect(self, name: str) -> None:
        servers = self._get_servers()
        async with self._lock(name):
            if name in servers.servers:
                server = await servers.reconnect(name)
            elif name in self._config.servers:
                server = servers.connect(*self._make_spec(name, self._config.servers[name]))
            else:
                raise UsageError(
                    f"no MCP server named {name}", hint="name it under [mcp.servers], or give its URL or command"
                )
        await self.wait_until_started(2 * server.spec.start_timeout_s, [name])

    async def wait_until_started(self, timeout_s: float, names: Sequence[str] = ()) -> Sequence[str]:
        """Waits until each server is ready or has failed. Returns those that still connect."""
        return await self._opened.wait_until_started(timeout_s, names) if self._opened else ()

    @property
    def dynamic_servers(self) -> Sequence[DynamicMcpView]:
        return self._dynamic.views() if self._dynamic else ()

    async def connect_dynamic(self, wanted: Sequence[DynamicMcpServer]) -> DynamicToolsHandle:
        from aish.tools.mcp.dynamic import DynamicMcpServers, DynamicToolsHandle

        if self._dynamic is None:
            self._dynamic = DynamicMcpServers(self._serve.mcp_urls)
        found = await self._dynamic.connect(wanted)
        name, view = self._tools.add_view({label: source for label, (source, _) in found.items()})
        return DynamicToolsHandle(name, view, [lease for _, lease in found.values()])

    async def aclose(self) -> None:
        """Closes dynamic servers; the others are closed with the registry."""
        if self._dynamic is not None:
            await self._dynamic.aclose()

    def _lock(self, name: str) -> asyncio.Lock:
        return self._locks.setdefault(name, asyncio.Lock())

    def _get_servers(self) -> McpServers:
        if self._opened is None:
            from aish.tools.mcp.servers import McpServers

            self._opened = McpServers(self._tools, self._http())
        return self._opened

    def _make_spec(self, name: str, settings: McpServerConfig) -> tuple[ServerSpec, ToolExposure]:
        from aish.tools.mcp.server import ToolExposure
        from aish.tools.mcp.types import ServerSpec

        env = {variable: value.reveal() for variable, value in settings.env.items()}
        spec = ServerSpec(
            name=name,
            command=(settings.command, *settings.args) if settings.command else (),
            env={**env, **self._next_depth()} if settings.command else env,
            cwd=Path(settings.cwd) if settings.cwd else None,
            url=settings.url,
            token=settings.auth_token.reveal() if settings.auth_token else "",
            protocol=settings.protocol,
            start_timeout_s=settings.start_timeout_s,
            call_timeout_s=settings.timeout_s,
            max_in_flight=settings.max_in_flight,
        )
        return spec, ToolExposure(settings.allow, settings.deny, settings.trust_hints)

    def _next_depth(self) -> dict[str, str]:
        """The variable that tells a server how deep it is nested. Raises UsageError at the limit."""
        if self._depth >= _MAX_DEPTH:
            raise UsageError(
                f"aish runs as an MCP server of another aish, {self._depth} levels deep, and starts no further ones",
                hint="take aish out of its own [mcp.servers]",
            )
        return {_DEPTH_VARIABLE: str(self._depth + 1)}


def _parse_depth(text: str) -> int:
    """The depth in the variable; 0 for anything that is no number."""
    return min(int(text[:_MAX_DEPTH_DIGITS]), _MAX_DEPTH) if text.isdecimal() else 0
