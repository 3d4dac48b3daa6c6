"""The server's side of MCP without a transport: requests in, answers out, in both eras.

Declares only `tools`: what the registry has, as far as the gate lets nobody-there-to-ask see it. Every call goes
through `Engine.call_tool`. Cancelling `answer` stops the tool. What goes wrong inside never shows as more than
"Internal error".
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from typing import Any, Protocol

import msgspec

from aish.frontends.mcp.requests import Request
from aish.frontends.mcp.results import PAGE_TOOLS, SERVER_INFO, Result, cacheable, call_result, complete, tool_page
from aish.frontends.mcp.revisions import DISCOVER, STATELESS, check_version, negotiate
from aish.net.jsonrpc_message import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    RpcError,
    encode_error,
    encode_notification,
    encode_result,
)
from aish.types.events import ToolResult
from aish.types.tools import ResultStatus, ToolSpec

MAX_CALLS = 32  # at once: each of them may be a process. Those that follow wait; how many may is the transport's to say
_SHOWN_CHARS = 100  # of a name the client made up

Report = Callable[[bytes], None]


class ToolHost(Protocol):
    """What the frontend needs of an engine."""

    def visible_tools(
        self, globs: Sequence[str] = ("*",), *, interactive: bool, owner: str = ""
    ) -> Sequence[ToolSpec]: ...

    async def call_tool(
        self,
        name: str,
        arguments: str,
        *,
        tools: Sequence[str] = ("*",),
        on_status: Callable[[str], None],
        owner: str = "",
    ) -> ToolResult: ...


class Answer(msgspec.Struct, frozen=True):
    """A JSON-RPC message, and the code of the error in it; 0 if it is a result."""

    body: bytes
    code: int = 0


async def _at_once() -> None:
    return None


class ToolServer:
    """`list_changed`: the transport tells clients when the list is another one. `settled` is awaited before the first
    list, for tools that are still on their way."""

    def __init__(
        self,
        host: ToolHost,
        *,
        tools: Sequence[str] = ("*",),
        list_changed: bool = False,
        settled: Callable[[], Awaitable[None]] = _at_once,
        max_calls: int = MAX_CALLS,
        page_tools: int = PAGE_TOOLS,
    ) -> None:
        self._host = host
        self._owner = ""  # as in an EffectRequest
        self._tools = tuple(tools)
        self._list_changed = list_changed
        self._settled = settled
        self._calling = asyncio.Semaphore(max_calls)
        self._page_tools = page_tools

    def for_owner(self, owner: str) -> ToolServer:
        """The same server for the calls of a tenant; both share the bound on calls at once."""
        server = copy(self)
        server._owner = owner
        return server

    def specs(self) -> Sequence[ToolSpec]:
        return self._host.visible_tools(self._tools, interactive=False, owner=self._owner)

    async def answer(self, request: Request, report: Report) -> Answer:
        """Never fails. `report` is given notifications about this request while it runs."""
        try:
            result = await self._result(request, report)
            return Answer(encode_result(request.id, complete(result) if request.stateless else result))
        except RpcError as exc:
            return failure(request.id, exc)
        except Exception:  # top of the frontend: what went wrong is ours and not for the client's eyes
            return failure(request.id, RpcError(INTERNAL_ERROR, "Internal error"))

    async def _result(self, request: Request, report: Report) -> Result:
        if request.stateless:
            check_version(request)
        match request.method:
            case "initialize":
                return self._initialized(request.params)
            case "ping":
                return {}
            case "tools/list":
                await self._settled()
                cursor = request.params.get("cursor")
                page = tool_page(self.specs(), cursor, self._page_tools, structured=request.structured)
                return cacheable(page) if request.stateless else page
            case "tools/call":
                return await self._call(request, report)
            case method if method == DISCOVER and request.stateless:
                return cacheable({"supportedVersions": list(STATELESS), "capabilities": {"tools": {}}})
            case method:
                raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method[:_SHOWN_CHARS]}")

    def _initialized(self, params: dict[str, Any]) -> Result:
        return {
            "protocolVersion": negotiate(params.get("protocolVersion")),
            "capabilities": {"tools": {"listChanged": True} if self._list_changed else {}},
            "serverInfo": SERVER_INFO,
        }

    async def _call(self, request: Request, report: Report) -> Result:
        name, arguments = _call_params(request.params)
        async with self._calling:
            on_status = _progress(request.progress_token, report)
            result = await self._host.call_tool(
                name, arguments, tools=self._tools, on_status=on_status, owner=self._owner
            )
        # A tool that ran may itself have said that something is not allowed: that is its result.
        if result.effect is None and result.status in (ResultStatus.UNKNOWN_TOOL, ResultStatus.NOT_ALLOWED):
            raise RpcError(INVALID_PARAMS, f"Unknown tool: {name[:_SHOWN_CHARS]}")
        return call_result(result, structured=request.structured)


def _call_params(params: dict[str, Any]) -> tuple[str, str]:
    name, arguments = params.get("name"), params.get("arguments")
    if not isinstance(name, str):
        raise RpcError(INVALID_PARAMS, "params.name must be a string")
    if arguments is None:
        return name, "{}"
    if not isinstance(arguments, dict):
        raise RpcError(INVALID_PARAMS, "params.arguments must be an object")
    try:
        return name, msgspec.json.encode(arguments).decode()
    except RecursionError:
        raise RpcError(INVALID_PARAMS, "params.arguments are nested too deeply") from None


def _progress(token: str | int | None, report: Report) -> Callable[[str], None]:
    """A tool's status lines as progress, where the client asked for it. How far it is from the end nobody knows."""
    said = 0

    def tell(text: str) -> None:
        nonlocal said
        if token is None:
            return
        said += 1
        params = {"progressToken": token, "progress": said, "message": text}
        report(encode_notification("notifications/progress", params))

    return tell


def failure(id: str | int | None, error: RpcError) -> Answer:
    return Answer(encode_error(id, error), error.code)
