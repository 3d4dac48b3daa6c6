"""The way in: connects to an MCP server and hands out the session.

    async with open_session(spec, http=client, on_event=show) as session: ...

Entering starts or reaches the server, agrees on a revision and lists its tools; leaving ends it, and all it started.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from aish.errors import UsageError
from aish.tools.mcp.errors import FaultKind, Faults, McpError
from aish.tools.mcp.link import STATELESS, Link
from aish.tools.mcp.session import Session
from aish.tools.mcp.text import Sanitiser
from aish.tools.mcp.transport.base import Inbox, Transport
from aish.tools.mcp.types import OnEvent, ServerSpec

if TYPE_CHECKING:
    from aish.net.http.client import HttpClient

# How a server of the stateless era may answer `initialize` over HTTP.
_REFUSALS = frozenset({400, 404, 405, 406})


@asynccontextmanager
async def open_session(
    spec: ServerSpec, *, http: HttpClient | None = None, on_event: OnEvent | None = None
) -> AsyncIterator[Session]:
    """Connect, list the tools, and end it all on leaving. `http` is needed where the spec has a url, and stays open."""
    if bool(spec.command) == bool(spec.url):
        raise UsageError(f"the MCP server {spec.name} needs either a command or a url")
    async with AsyncExitStack() as stack:
        session = await _enter(stack, spec, http, on_event)
        await session.refresh_tools()
        yield session


async def _enter(stack: AsyncExitStack, spec: ServerSpec, http: HttpClient | None, on_event: OnEvent | None) -> Session:
    opening = _Opening(spec, http, on_event)
    try:
        return await stack.enter_async_context(opening.connected(stateless=spec.protocol == STATELESS))
    except McpError as refused:
        if spec.protocol != "auto" or not _may_be_stateless(refused):
            raise
        try:
            return await stack.enter_async_context(opening.connected(stateless=True))
        except McpError:
            raise refused from None  # it says more of what is wrong than that the guess was wrong too


def _may_be_stateless(refused: McpError) -> bool:
    """Whether a server that refused the handshake may yet speak the other era. A new process is asked then."""
    if refused.phase != "initialize":
        return False
    return refused.kind in (FaultKind.RPC, FaultKind.EXIT) or (
        refused.kind is FaultKind.HTTP and refused.code in _REFUSALS
    )


class _Opening:
    """The things one connection is made of."""

    def __init__(self, spec: ServerSpec, http: HttpClient | None, on_event: OnEvent | None) -> None:
        self._spec = spec
        self._http = http
        self._discretion = Sanitiser(spec.secrets())
        self._inbox = Inbox(spec.name, self._discretion, on_event)

    @asynccontextmanager
    async def connected(self, *, stateless: bool) -> AsyncIterator[Session]:
        silent = Faults(self._spec.name, self._discretion, lambda: "")
        async with AsyncExitStack() as stack:
            with silent.translated("spawn"):
                transport = await stack.enter_async_context(self._transport())
            faults = Faults(self._spec.name, self._discretion, transport.stderr_tail)
            link = Link(self._spec, transport, self._inbox, faults, stateless=stateless)
            await link.greet()
            yield Session(self._spec, link, transport)

    def _transport(self) -> AbstractAsyncContextManager[Transport]:
        if self._spec.command:
            from aish.tools.mcp.transport.stdio import StdioTransport  # either is enough for most

            return StdioTransport.open(self._spec, self._inbox, self._discretion)
        from aish.tools.mcp.transport.http import HttpTransport

        if self._http is None:
            raise UsageError(f"the MCP server {self._spec.name} has a url, and no HTTP client to reach it")
        return HttpTransport.open(self._spec, self._inbox, self._http)
