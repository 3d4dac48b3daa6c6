"""The MCP servers of one engine: those that are configured, and those that a person connects while it runs.

What speaks to them is imported with the first of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from aish.config.schema.serve import ServeConfig
from aish.config.schema.tools import McpConfig, McpServerConfig
from aish.errors import UsageError
from aish.tools.registry import Registry
from aish.types.dynamic_mcp import DynamicMcpServer, DynamicMcpView

if TYPE_CHECKING:
    from aish.net.http.client import HttpClient
    from aish.tools.mcp.dynamic import DynamicMcpServers, DynamicToolsHandle
    from aish.tools.mcp.server import McpServer, ToolExposure
    from aish.tools.mcp.servers import McpServers
    from aish.tools.mcp.types import ServerSpec

# How many of us, one started by the other, there are above: a server that runs aish may be aish's own.
_DEPTH = "MCP_DEPTH_OF_AISH"
_MAX_DEPTH = 3
_DEPTH_DIGITS = 9  # more are deep enough; int() refuses thousands of them


class McpLinks:
    """`tools` is the registry for their tools. Tools of dynamic servers are visible only to their own requests."""

    def __init__(
        self,
        config: McpConfig,
        serve: ServeConfig,
        tools: Registry,
        http: Callable[[], HttpClient],
        env: Mapping[str, str],
    ) -> None:
        self._depth = _depth(env.get(_DEPTH, ""))
        self._config = config
        self._serve = serve
        self._tools = tools
        self._http = http
        self._opened: McpServers | None = None
        self._dynamic: DynamicMcpServers | None = None
        self._turns: dict[str, asyncio.Lock] = {}  # of those who exchange a server for another of its name

    @property
    def servers(self) -> Mapping[str, McpServer]:
        return self._opened.servers if self._opened else {}

    def begin(self, names: Sequence[str] | None) -> None:
        """Connect the configured ones in the background: those named, or all that are enabled."""
        for name, server in self._config.servers.items():
            if server.enabled if names is None else name in names:
                self._owner().connect(*self._server(name, server))

    async def connect(self, name: str, target: str) -> str:
        """By URL or by command line; "" makes a name."""
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
            spec = ServerSpec(name=name, command=tuple(shlex.split(target)), env=self._deeper())
        async with self._turn(name):
            owner = self._owner()
            if name in owner.servers and owner.servers[name].state is ServerState.FAILED:  # it was mistyped, then
                await owner.disconnect(name)
            owner.connect(spec)
        await self.wait_settled(spec.start_timeout_s, [name])
        return name

    async def disconnect(self, name: str) -> None:
        if self._opened is None:
            raise UsageError(f"no MCP server named {name}")
        async with self._turn(name):
            await self._opened.disconnect(name)

    async def reconnect(self, name: str) -> None:
        owner = self._owner()
        async with self._turn(name):
            if name in owner.servers:
                server = await owner.reconnect(name)
            elif name in self._config.servers:
                server = owner.connect(*self._server(name, self._config.servers[name]))
            else:
                raise UsageError(
                    f"no MCP server named {name}", hint="name it under [mcp.servers], or give its URL or command"
                )
        await self.wait_settled(2 * server.spec.start_timeout_s, [name])

    async def wait_settled(self, timeout_s: float, names: Sequence[str] = ()) -> Sequence[str]:
        """Waits until each can be used or is known not to be; those still connecting."""
        return await self._opened.wait_settled(timeout_s, names) if self._opened else ()

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

    def _turn(self, name: str) -> asyncio.Lock:
        return self._turns.setdefault(name, asyncio.Lock())

    def _owner(self) -> McpServers:
        if self._opened is None:
            from aish.tools.mcp.servers import McpServers

            self._opened = McpServers(self._tools, self._http())
        return self._opened

    def _server(self, name: str, settings: McpServerConfig) -> tuple[ServerSpec, ToolExposure]:
        from aish.tools.mcp.server import ToolExposure
        from aish.tools.mcp.types import ServerSpec

        env = {variable: value.reveal() for variable, value in settings.env.items()}
        spec = ServerSpec(
            name=name,
            command=(settings.command, *settings.args) if settings.command else (),
            env={**env, **self._deeper()} if settings.command else env,
            cwd=Path(settings.cwd) if settings.cwd else None,
            url=settings.url,
            token=settings.auth_token.reveal() if settings.auth_token else "",
            protocol=settings.protocol,
            start_timeout_s=settings.start_timeout_s,
            call_timeout_s=settings.timeout_s,
            max_in_flight=settings.max_in_flight,
        )
        return spec, ToolExposure(settings.allow, settings.deny, settings.trust_hints)

    def _deeper(self) -> dict[str, str]:
        if self._depth >= _MAX_DEPTH:
            raise UsageError(
                f"aish runs as an MCP server of an aish that does, {self._depth} deep: it starts no more of them",
                hint="take aish out of its own [mcp.servers]",
            )
        return {_DEPTH: str(self._depth + 1)}


def _depth(told: str) -> int:
    """Anything but a number was not told by one of us."""
    return min(int(told[:_DEPTH_DIGITS]), _MAX_DEPTH) if told.isdecimal() else 0
