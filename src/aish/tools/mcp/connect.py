"""Connects to an MCP server.

    async with open_session(spec, http=client, on_event=show) as session: ...

Entering starts or reaches the server, agrees on a revision and lists its tools; leaving ends it and its processes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from aish.errors import UsageError
from aish.tools.mcp.errors import FaultKind, FaultTranslator, McpError
from aish.tools.mcp.handshake import STATELESS
from aish.tools.mcp.session import McpClientSession
from aish.tools.mcp.text import Sanitiser
from aish.tools.mcp.transport.incoming_messages import IncomingMessages
from aish.tools.mcp.transport.port import Transport
from aish.tools.mcp.types import OnEvent, ServerSpec

if TYPE_CHECKING:
    from aish.net.http.client import HttpClient

# How a stateless server may answer `initialize` over HTTP.
_REFUSALS = frozenset({400, 404, 405, 406})


@asynccontextmanager
async def open_session(
    spec: ServerSpec, *, http: HttpClient | None = None, on_event: OnEvent | None = None
) -> AsyncIterator[McpClientSession]:
    """Connects, lists the tools, and closes all on exit. `http` is needed for specs with a url, and stays open."""
    if bool(spec.command) == bool(spec.url):
        raise UsageError(f"the MCP server {spec.name} needs either a command or a url")
    async with AsyncExitStack() as stack:
        session = await _connect(stack, spec, http, on_event)
        await session.refresh_tools()
        await session.refresh_skills()
        yield session


def open_own_server(
    spec: ServerSpec, incoming: IncomingMessages, sanitiser: Sanitiser
) -> AbstractAsyncContextManager[McpClientSession]:
    """Starts a server that is a part of aish. Its tools are not listed."""
    return _open(spec, incoming, sanitiser, None, stateless=False)


async def _connect(
    stack: AsyncExitStack, spec: ServerSpec, http: HttpClient | None, on_event: OnEvent | None
) -> McpClientSession:
    """Falls back to the stateless era if the server refuses the handshake."""
    sanitiser = Sanitiser(spec.secrets())
    incoming = IncomingMessages(spec.name, sanitiser, on_event)
    try:
        first = _open(spec, incoming, sanitiser, http, stateless=spec.protocol == STATELESS)
        return await stack.enter_async_context(first)
    except McpError as refused:
        if spec.protocol != "auto" or not _may_be_stateless(refused):
            raise
        try:
            return await stack.enter_async_context(_open(spec, incoming, sanitiser, http, stateless=True))
        except McpError:
            raise refused from None  # it is more useful than the error of the second attempt


def _may_be_stateless(refused: McpError) -> bool:
    """Whether a server that refused the handshake may be a stateless one. It is asked in a new process."""
    if refused.phase != "initialize":
        return False
    return refused.kind in (FaultKind.RPC, FaultKind.EXIT) or (
        refused.kind is FaultKind.HTTP and refused.code in _REFUSALS
    )


@asynccontextmanager
async def _open(
    spec: ServerSpec, incoming: IncomingMessages, sanitiser: Sanitiser, http: HttpClient | None, *, stateless: bool
) -> AsyncIterator[McpClientSession]:
    async with AsyncExitStack() as stack:
        with FaultTranslator(spec.name, sanitiser, lambda: "").translating("spawn"):
            transport = await stack.enter_async_context(_open_transport(spec, incoming, sanitiser, http))
        faults = FaultTranslator(spec.name, sanitiser, transport.stderr_tail)
        session = McpClientSession(spec, transport, incoming, faults, stateless=stateless)
        await session.start()
        yield session


def _open_transport(
    spec: ServerSpec, incoming: IncomingMessages, sanitiser: Sanitiser, http: HttpClient | None
) -> AbstractAsyncContextManager[Transport]:
    if spec.command:
        from aish.tools.mcp.transport.stdio import StdioTransport  # most users need only one of the two

        return StdioTransport.open(spec, incoming, sanitiser)
    from aish.tools.mcp.transport.http import HttpTransport

    if http is None:
        raise UsageError(f"the MCP server {spec.name} has a url, and no HTTP client to reach it")
    return HttpTransport.open(spec, incoming, http)
