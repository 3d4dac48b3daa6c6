"""All MCP servers of an engine, connected in the background, each under its own alias in the registry.

Servers can be connected and disconnected at any time, also during calls. They fail independently.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial

from aish.errors import UsageError
from aish.net.http.client import HttpClient
from aish.tools.mcp.connect import open_session
from aish.tools.mcp.server import McpServer, ServerState, ToolExposure
from aish.tools.mcp.session import McpClientSession
from aish.tools.mcp.types import ServerSpec, SessionEvent
from aish.tools.registry import Registry


class McpServers:
    def __init__(self, registry: Registry, http: HttpClient) -> None:
        self._registry = registry
        self._http = http
        self._servers: dict[str, McpServer] = {}

    @property
    def servers(self) -> Mapping[str, McpServer]:
        return self._servers

    def connect(self, spec: ServerSpec, exposure: ToolExposure | None = None) -> McpServer:
        """Returns at once. The server is connected in the background; its tools appear when it is ready."""
        server = McpServer(spec, exposure or ToolExposure(), partial(_open, self._http))
        try:
            self._registry.add(spec.name, server)
        except UsageError:
            server.abandon()
            raise
        self._servers[spec.name] = server
        return server

    async def disconnect(self, name: str) -> None:
        """Removes its tools at once; its process ends within its own time limits."""
        server = self.get(name)
        del self._servers[name]
        self._registry.remove(name)
        await server.aclose()

    async def reconnect(self, name: str) -> McpServer:
        """Starts it again, also after it has finally failed."""
        server = self.get(name)
        await self.disconnect(name)
        return self.connect(server.spec, server.exposure)

    def get(self, name: str) -> McpServer:
        if name not in self._servers:
            known = ", ".join(self._servers) or "none"
            raise UsageError(f"no MCP server named {name}", hint=f"there are: {known}")
        return self._servers[name]

    async def refresh(self, names: Iterable[str] = ()) -> Mapping[str, int | Exception]:
        """Lists the tools of all ready servers, or of the named ones, again. Returns the number of tools or the
        error of each."""
        chosen = list(names) or [name for name, server in self._servers.items() if server.state is ServerState.READY]
        found = await asyncio.gather(*(self.get(name).refresh() for name in chosen), return_exceptions=True)
        return {name: _plain(result) for name, result in zip(chosen, found, strict=True)}

    async def wait_until_started(self, timeout_s: float, names: Sequence[str] = ()) -> Sequence[str]:
        """Waits until all (or the named) servers are usable or have failed, with a time limit. Returns those still
        connecting."""
        chosen = [server for name, server in self._servers.items() if not names or name in names]
        waits = [asyncio.ensure_future(server.wait_until_started()) for server in chosen]
        if waits:
            _, pending = await asyncio.wait(waits, timeout=timeout_s)
            for wait in pending:
                wait.cancel()
        return [name for name, server in self._servers.items() if server.state is ServerState.CONNECTING]

    async def aclose(self) -> None:
        await asyncio.gather(*(server.aclose() for server in self._servers.values()), return_exceptions=True)
        self._servers.clear()


def _open(
    http: HttpClient, spec: ServerSpec, on_event: Callable[[SessionEvent], None]
) -> AbstractAsyncContextManager[McpClientSession]:
    return open_session(spec, http=http, on_event=on_event)


def _plain(result: int | BaseException) -> int | Exception:
    if isinstance(result, int | Exception):
        return result
    raise result
