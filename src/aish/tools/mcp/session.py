"""A connected MCP server: its tools, resources and prompts, and calls of them.

Made by `connect.open_session`. Everything has a deadline of its own, and every failure is an McpError that names
server, phase and kind; being a ToolError too, one raised by a call carries the status to record. Calls may run at the
same time, up to `spec.max_in_flight`.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

from aish.net.jsonrpc_message import METHOD_NOT_FOUND
from aish.tools.mcp.content import (
    CallResult,
    PromptResult,
    ResourceResult,
    prompt_messages,
    resource_output,
    tool_output,
)
from aish.tools.mcp.errors import FaultKind, McpError
from aish.tools.mcp.link import Link
from aish.tools.mcp.listing import Item, Listing, Page, read_prompt, read_resource, read_tool
from aish.tools.mcp.transport.base import Transport
from aish.tools.mcp.transport.headers import mirrored
from aish.tools.mcp.types import Listed, McpPrompt, McpResource, McpTool, OnStatus, ServerFacts, ServerSpec
from aish.types.messages import Message
from aish.types.tools import Arguments, ToolOutput

_MAX_LISTED = 10_000  # resources and prompts: a person searches them, no model reads them all

Read = Callable[[dict[str, Any]], tuple[str, Item, str]]


class Session:
    """Valid inside the context that gave it."""

    def __init__(self, spec: ServerSpec, link: Link, transport: Transport) -> None:
        self.tools: tuple[McpTool, ...] = ()
        self._spec = spec
        self._link = link
        self._transport = transport
        self._by_name: dict[str, McpTool] = {}
        self._tokens = itertools.count(1)

    def __repr__(self) -> str:
        return f"<Session {self._spec.name!r} {self.facts.protocol_version} tools={len(self.tools)}>"

    @property
    def server(self) -> str:
        return self._spec.name

    @property
    def facts(self) -> ServerFacts:
        return self._link.facts

    def stderr_tail(self) -> str:
        return self._transport.stderr_tail()

    async def wait_closed(self) -> McpError:
        """Returns why, once the server has gone by itself. An HTTP server never does: each request tells."""
        return self._link.faults.translate("call", await self._transport.wait_closed())

    async def refresh_tools(self) -> tuple[McpTool, ...]:
        """Read the list again. `tools` changes only when all of it was read."""
        read: Read[McpTool] = lambda fields: read_tool(fields, stateless=self._link.stateless)  # noqa: E731
        self._by_name = await self._list("tools", read, self._spec.max_tools)
        self.tools = tuple(self._by_name.values())
        return self.tools

    async def call_tool(
        self, name: str, arguments: Arguments, *, timeout_s: float | None = None, on_status: OnStatus | None = None
    ) -> ToolOutput:
        """`on_status` gets a line now and then, if the server reports its progress."""
        params: dict[str, Any] = {"name": name, "arguments": arguments}
        tool = self._by_name.get(name)
        headers = mirrored(tool.header_params, arguments) if tool is not None and tool.header_params else ()
        token = ""
        if on_status is not None:
            token = f"aish-{next(self._tokens)}"
            params["_meta"] = {"progressToken": token}
            self._link.inbox.follow(token, on_status)
        try:
            result = await self._link.ask(
                "call",
                "tools/call",
                params,
                CallResult,
                timeout_s=self._patience(timeout_s),
                what=name,
                headers=headers,
            )
        finally:
            self._link.inbox.unfollow(token)
        return tool_output(result)

    async def list_resources(self) -> tuple[McpResource, ...]:
        return tuple((await self._list("resources", read_resource, _MAX_LISTED)).values())

    async def read_resource(self, uri: str, *, timeout_s: float | None = None) -> ToolOutput:
        patience_s = self._patience(timeout_s)
        result = await self._link.ask(
            "call", "resources/read", {"uri": uri}, ResourceResult, timeout_s=patience_s, what=uri
        )
        return resource_output(result)

    async def list_prompts(self) -> tuple[McpPrompt, ...]:
        return tuple((await self._list("prompts", read_prompt, _MAX_LISTED)).values())

    async def get_prompt(
        self, name: str, arguments: dict[str, str] | None = None, *, timeout_s: float | None = None
    ) -> tuple[Message, ...]:
        params = {"name": name, "arguments": arguments or {}}
        patience_s = self._patience(timeout_s)
        result = await self._link.ask("call", "prompts/get", params, PromptResult, timeout_s=patience_s, what=name)
        return prompt_messages(result)

    def _patience(self, timeout_s: float | None) -> float:
        return self._spec.call_timeout_s if timeout_s is None else timeout_s

    async def _list(self, what: Listed, read: Read[Item], max_items: int) -> dict[str, Item]:
        """All pages. Nothing where the server says that it has none."""
        found: dict[str, Item] = {}
        if self.facts.capabilities and not self.facts.offers(what):
            return found
        listing = Listing(what, max_items, self._link.inbox.warn)
        deadline_s = _now_s() + self._spec.list_timeout_s
        cursor: str | None = ""
        while cursor is not None:
            page = await self._page(what, cursor, deadline_s)
            if page is None:
                break
            listing.take(page, found, read)
            cursor = listing.next_cursor(page)
        listing.finish()
        return found

    async def _page(self, what: Listed, cursor: str, deadline_s: float) -> Page | None:
        params = {"cursor": cursor} if cursor else {}
        left_s = max(0.001, deadline_s - _now_s())
        try:
            return await self._link.ask("list", f"{what}/list", params, Page, timeout_s=left_s)
        except McpError as exc:
            if exc.kind is FaultKind.RPC and exc.code == METHOD_NOT_FOUND and not cursor:
                return None
            raise


def _now_s() -> float:
    return asyncio.get_running_loop().time()
