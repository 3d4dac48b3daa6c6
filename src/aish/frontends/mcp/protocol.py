"""The server side of MCP without a transport: answers requests, in both eras of the protocol.

Declares only `tools`: those of the registry that the gate allows without a user to ask. Every call goes through
`Engine.call_tool`. Cancelling `answer` stops the tool. Internal errors are reported as "Internal error" only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from typing import Any, Protocol, assert_never

import msgspec

from aish import __version__
from aish.engine.tools.structured_results import find_promise
from aish.frontends.mcp.requests import DISCOVER, META_SERVER, STATELESS, Request, check_version, negotiate
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
from aish.types.messages import ImagePart, Part, TextPart
from aish.types.tools import Effect, ResultStatus, ToolSpec

MAX_CALLS = 32  # concurrent calls, each of which may be a process; further calls wait, and the transport limits those
_SHOWN_CHARS = 100  # of a name that the client sent

Report = Callable[[bytes], None]
SERVER_INFO = {"name": "aish", "version": __version__}
# Nearly every server fits into one page, and a page stays far below the message limits of clients.
PAGE_TOOLS = 100
# How long a client may cache a list: tools come and go with the MCP servers they are from.
_LIST_TTL_MS = 5_000

Result = dict[str, Any]


class ToolHost(Protocol):
    """The part of an engine that this frontend uses."""

    async def refresh_tools(self) -> None: ...

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


class McpResponse(msgspec.Struct, frozen=True):
    """A JSON-RPC response, and its error code; 0 if it is a result."""

    body: bytes
    code: int = 0


async def _no_wait() -> None:
    return None


class ToolServer:
    """`list_changed`: the transport notifies clients when the list of tools changes. `wait_for_tools` is awaited before
    a list, for MCP servers that still connect."""

    def __init__(
        self,
        host: ToolHost,
        *,
        tools: Sequence[str] = ("*",),
        list_changed: bool = False,
        wait_for_tools: Callable[[], Awaitable[None]] = _no_wait,
        max_calls: int = MAX_CALLS,
        page_tools: int = PAGE_TOOLS,
    ) -> None:
        self._host = host
        self._owner = ""
        self._tools = tuple(tools)
        self._list_changed = list_changed
        self._wait_for_tools = wait_for_tools
        self._call_slots = asyncio.Semaphore(max_calls)
        self._page_tools = page_tools

    def for_owner(self, owner: str) -> ToolServer:
        """The same server for a tenant. Both share the bound on concurrent calls."""
        server = copy(self)
        server._owner = owner
        return server

    async def refresh(self) -> Sequence[ToolSpec]:
        """Takes up tools that have changed on the disk. Returns the list as it is then."""
        await self._host.refresh_tools()
        return self.specs()

    def specs(self) -> Sequence[ToolSpec]:
        return self._host.visible_tools(self._tools, interactive=False, owner=self._owner)

    async def answer(self, request: Request, report: Report) -> McpResponse:
        """Never raises. `report` gets notifications about the request while it runs."""
        try:
            result = await self._make_result(request, report)
            return McpResponse(encode_result(request.id, complete(result) if request.stateless else result))
        except RpcError as exc:
            return error_response(request.id, exc)
        except Exception:  # the client gets no details of internal errors
            return error_response(request.id, RpcError(INTERNAL_ERROR, "Internal error"))

    async def _make_result(self, request: Request, report: Report) -> Result:
        if request.stateless:
            check_version(request)
        match request.method:
            case "initialize":
                return self._initialize(request.params)
            case "ping":
                return {}
            case "tools/list":
                await self._wait_for_tools()
                cursor = request.params.get("cursor")
                page = tool_page(await self.refresh(), cursor, self._page_tools, structured=request.structured)
                return cacheable(page) if request.stateless else page
            case "tools/call":
                return await self._call(request, report)
            case method if method == DISCOVER and request.stateless:
                return cacheable({"supportedVersions": list(STATELESS), "capabilities": {"tools": {}}})
            case method:
                raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method[:_SHOWN_CHARS]}")

    def _initialize(self, params: dict[str, Any]) -> Result:
        return {
            "protocolVersion": negotiate(params.get("protocolVersion")),
            "capabilities": {"tools": {"listChanged": True} if self._list_changed else {}},
            "serverInfo": SERVER_INFO,
        }

    async def _call(self, request: Request, report: Report) -> Result:
        name, arguments = _parse_call(request.params)
        async with self._call_slots:
            on_status = _progress_reporter(request.progress_token, report)
            result = await self._host.call_tool(
                name, arguments, tools=self._tools, on_status=on_status, owner=self._owner
            )
        # A tool that has run (it has an effect) may itself report NOT_ALLOWED; that is a result.
        if result.effect is None and result.status in (ResultStatus.UNKNOWN_TOOL, ResultStatus.NOT_ALLOWED):
            raise RpcError(INVALID_PARAMS, f"Unknown tool: {name[:_SHOWN_CHARS]}")
        return call_result(result, structured=request.structured)


def _parse_call(params: dict[str, Any]) -> tuple[str, str]:
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


def _progress_reporter(token: str | int | None, report: Report) -> Callable[[str], None]:
    """Reports a tool's status lines as progress, if the client asked for it. The total is unknown."""
    count = 0

    def report_status(text: str) -> None:
        nonlocal count
        if token is None:
            return
        count += 1
        params = {"progressToken": token, "progress": count, "message": text}
        report(encode_notification("notifications/progress", params))

    return report_status


def error_response(id: object, error: RpcError) -> McpResponse:
    """`id` is that of the request, whatever the client sent as one."""
    return McpResponse(encode_error(id if isinstance(id, str | int) else None, error), error.code)


def complete(result: Result) -> Result:
    """The result in the form of the stateless era."""
    return {"resultType": "complete", **result, "_meta": {META_SERVER: SERVER_INFO}}


def cacheable(result: Result) -> Result:
    return {**result, "ttlMs": _LIST_TTL_MS, "cacheScope": "private"}


def tool_page(specs: Sequence[ToolSpec], cursor: object, page_tools: int, *, structured: bool) -> Result:
    """One page of the list. The cursor is the name of the last tool, so a list that grows in between stays
    consistent."""
    start = 0 if cursor is None else _index_after(specs, cursor)
    page = specs[start : start + page_tools]
    result: Result = {"tools": [_describe_tool(spec, structured=structured) for spec in page]}
    return {**result, "nextCursor": page[-1].name} if start + page_tools < len(specs) else result


def _index_after(specs: Sequence[ToolSpec], cursor: object) -> int:
    for index, spec in enumerate(specs):
        if spec.name == cursor:
            return index + 1
    raise RpcError(INVALID_PARAMS, "Invalid cursor: begin the list again without one")


def _describe_tool(spec: ToolSpec, *, structured: bool) -> Result:
    schema = spec.schema if spec.schema.get("type") == "object" else {**spec.schema, "type": "object"}
    hints = {
        "readOnlyHint": spec.effect is Effect.READ,
        "destructiveHint": spec.effect is Effect.EXEC,
        "openWorldHint": spec.effect is Effect.NETWORK,
    }
    description: Result = {
        "name": spec.name,
        "description": spec.description,
        "inputSchema": schema,
        "annotations": hints,
    }
    if structured and (promise := find_promise(spec)) is not None:
        description["outputSchema"] = promise
    return description


def call_result(result: ToolResult, *, structured: bool) -> Result:
    content = [_content(part) for part in result.parts]
    if not structured or result.structured is msgspec.UNSET:
        return {"content": content, "isError": result.status is not ResultStatus.OK}
    if result.structured.value is None:
        # Only an error may lack the structured content that the tool promises.
        note = f"[aish] the tool has run, but without the structured result it promises: {result.structured.lacking}."
        return {"content": [{"type": "text", "text": note}, *content], "isError": True}
    return {"content": content, "structuredContent": result.structured.value, "isError": False}


def _content(part: Part) -> Result:
    match part:
        case TextPart(text=text):
            return {"type": "text", "text": text}
        case ImagePart(url="", data=data, media_type=media_type):
            return {"type": "image", "data": data, "mimeType": media_type}
        case ImagePart(url=url):
            return {"type": "text", "text": f"[image] {url}"}
        case _:
            assert_never(part)
