"""MCP servers that API requests bring along by URL: connected at the first request, reused, closed when idle.

Only URLs that match the configured patterns are connected to, at public addresses unless a pattern names the host
itself, and without a proxy, which would resolve names on its own. A connection belongs to one owner, URL and set of
credentials, and has an HTTP client of its own, so nothing of one owner is sent for another. Credentials are kept only
here, as long as the connection.

States: connecting → ready → idle → closed. A failed one is closed at once, so that the next request tries again.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from weakref import WeakSet

import msgspec

from aish.errors import DynamicMcpFailed, DynamicMcpRefused
from aish.net.http.client import HttpClient
from aish.ports import CallContext, Toolset
from aish.safety.allowed_urls import find_allowed, find_url_fault, is_public
from aish.safety.redaction.redactor import Redactor
from aish.tools.mcp.connect import open_session
from aish.tools.mcp.server import McpServer, OpenSession, ServerState, ToolExposure
from aish.tools.mcp.types import ServerSpec
from aish.types.messages import Part, TextPart
from aish.types.tools import Arguments, DynamicMcpServer, DynamicMcpView, ToolOutput, ToolSpec

CONNECT_S = 10.0  # the client waits meanwhile
IDLE_S = 300.0  # typical pauses of a conversation; an idle session costs the remote server resources
MAX_SERVERS = 64
MAX_PER_OWNER = 8
_MAX_TOOLS = 512
_IN_FLIGHT = 16


class Lease:
    """Protects a connection from being closed to make room, as long as the lease exists."""


class DynamicToolsHandle:
    """The dynamic servers of one request. Their tools are found under `name` as long as this object exists."""

    def __init__(self, name: str, tools: Toolset, leases: Sequence[Lease]) -> None:
        self._name = name
        self._kept_alive = (tools, *leases)

    @property
    def name(self) -> str:
        return self._name


class DynamicMcpServers:
    """`patterns` are the allowed URLs; an empty list allows none."""

    def __init__(
        self,
        patterns: Sequence[str],
        *,
        idle_s: float = IDLE_S,
        connect_s: float = CONNECT_S,
        max_per_owner: int = MAX_PER_OWNER,
    ) -> None:
        self._patterns = tuple(patterns)
        self._idle_s = idle_s
        self._connect_s = connect_s
        self._max_per_owner = max_per_owner
        self._connections: dict[bytes, _Connection] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._sweeper: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._connections)

    def views(self) -> Sequence[DynamicMcpView]:
        return [connection.view() for connection in self._connections.values()]

    async def connect(self, requests: Sequence[DynamicMcpServer]) -> Mapping[str, tuple[Toolset, Lease]]:
        """Returns toolsets by label.

        Raises DynamicMcpRefused for a server that is not allowed, DynamicMcpFailed for one that cannot be connected.
        """
        specs = [self._check_allowed(request) for request in requests]
        found: dict[str, tuple[Toolset, Lease]] = {}
        for request, (spec, is_named) in zip(requests, specs, strict=True):
            connection = self._find(request) or self._open_connection(request, spec, is_named=is_named)
            found[request.label] = (connection, connection.lease())
        await self._wait_ready([self._connections[_key(request)] for request in requests])
        return found

    async def aclose(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
        for key in list(self._connections):
            self._close(key)
        if self._closing:
            await asyncio.wait(self._closing)

    def _check_allowed(self, request: DynamicMcpServer) -> tuple[ServerSpec, bool]:
        if fault := find_url_fault(request.url):
            raise DynamicMcpRefused(request.label, fault, "faulty")
        allowed = find_allowed(request.url, self._patterns)
        if allowed is None:
            why = "is not among the MCP servers that this server connects to for a request"
            raise DynamicMcpRefused(request.label, why, "unlisted")
        spec = ServerSpec(
            name=request.label,
            url=request.url,
            token=request.token,
            headers=request.headers,
            only=self._patterns,
            start_timeout_s=self._connect_s,
            list_timeout_s=self._connect_s,
            max_in_flight=_IN_FLIGHT,
            max_tools=_MAX_TOOLS,
        )
        return spec, allowed.names_host

    def _find(self, request: DynamicMcpServer) -> _Connection | None:
        connection = self._connections.get(_key(request))
        if connection is not None and connection.server.state not in (ServerState.CONNECTING, ServerState.READY):
            self._close(_key(request))
            return None
        return connection

    def _open_connection(self, request: DynamicMcpServer, spec: ServerSpec, *, is_named: bool) -> _Connection:
        self._make_room(request)
        connection = _Connection(request.owner, spec, None if is_named else is_public)
        self._connections[_key(request)] = connection
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().call_later(self._idle_s, self._sweep)
        return connection

    async def _wait_ready(self, connections: Sequence[_Connection]) -> None:
        """Waits for connections. One that fails or takes too long is closed."""
        waits = [asyncio.ensure_future(connection.server.wait_until_started()) for connection in connections]
        try:
            await asyncio.wait(waits, timeout=2 * self._connect_s)
        finally:
            for wait in waits:
                wait.cancel()
        failed = [connection for connection in connections if connection.server.state is not ServerState.READY]
        for key in [key for key, connection in self._connections.items() if connection in failed]:
            self._close(key)
        if failed:
            server = failed[0].server
            why = server.failure.message if server.failure else f"MCP server {server.spec.name}: no answer in time"
            raise DynamicMcpFailed(server.spec.name, why)

    def _make_room(self, request: DynamicMcpServer) -> None:
        own_keys = [key for key, connection in self._connections.items() if connection.owner == request.owner]
        for keys, limit in ((own_keys, self._max_per_owner), (list(self._connections), MAX_SERVERS)):
            if len(keys) < limit:
                continue
            free = [key for key in keys if not self._connections[key].is_in_use]
            if not free:
                raise DynamicMcpRefused(
                    request.label, f"would be one too many: {limit} can be in use at once", "too_many"
                )
            self._close(min(free, key=lambda key: self._connections[key].used_s))
            return

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        for key, connection in list(self._connections.items()):
            if not connection.is_in_use and connection.used_s + self._idle_s <= loop.time():
                self._close(key)
        self._sweeper = loop.call_later(self._idle_s / 4, self._sweep) if self._connections else None

    def _close(self, key: bytes) -> None:
        task = asyncio.get_running_loop().create_task(self._connections.pop(key).aclose())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def _session_opener(http: HttpClient) -> OpenSession:
    return lambda spec, on_event: open_session(spec, http=http, on_event=on_event)


class _Connection:
    """One connection: a Toolset whose results do not show the credentials used to reach it."""

    def __init__(self, owner: str, spec: ServerSpec, reaches: Callable[[str], bool] | None) -> None:
        self.owner = owner
        self._http = HttpClient(may_reach=reaches)
        self.server = McpServer(spec, ToolExposure(), _session_opener(self._http))
        self._leases: WeakSet[Lease] = WeakSet()
        self._calls = 0
        self.used_s = asyncio.get_running_loop().time()

    @property
    def is_in_use(self) -> bool:
        return self._calls > 0 or len(self._leases) > 0

    def lease(self) -> Lease:
        self.used_s = asyncio.get_running_loop().time()
        lease = Lease()
        self._leases.add(lease)
        return lease

    def view(self) -> DynamicMcpView:
        spec = self.server.spec
        origin = "/".join(spec.url.split("/")[:3]).partition("?")[0]
        return DynamicMcpView(spec.name, self.owner, origin, self.server.state, tuple(self.specs()))

    def specs(self) -> Sequence[ToolSpec]:
        return self.server.specs()

    async def call(self, name: str, arguments: Arguments, context: CallContext) -> ToolOutput:
        self._calls += 1
        try:
            output = await self.server.call(name, arguments, context)
        finally:
            self._calls -= 1
            self.used_s = asyncio.get_running_loop().time()
        # Only models call it, and they get the parts.
        return ToolOutput(tuple(map(self._redact, output.parts)), output.is_error)

    async def aclose(self) -> None:
        await self.server.aclose()
        await self._http.aclose()

    @cached_property
    def _redactor(self) -> Redactor:
        return Redactor(self.server.spec.secrets())

    def _redact(self, part: Part) -> Part:
        if not isinstance(part, TextPart) or not self.server.spec.secrets():
            return part
        return msgspec.structs.replace(part, text=self._redactor.text(part.text))


def _key(request: DynamicMcpServer) -> bytes:
    """Identifies server, credentials and owner. A hash, so that they cannot be recovered."""
    identity = [request.label, request.url, request.owner, request.token, sorted(request.headers.items())]
    return hashlib.sha256(msgspec.json.encode(identity)).digest()
