"""Encodes results for the wire: a page of the list of tools, and the result of a call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

import msgspec

from aish import __version__
from aish.engine.tools.structured_results import find_promise
from aish.frontends.mcp.revisions import META_SERVER
from aish.net.jsonrpc_message import INVALID_PARAMS, RpcError
from aish.types.events import ToolResult
from aish.types.messages import ImagePart, Part, TextPart
from aish.types.tools import Effect, ResultStatus, ToolSpec

SERVER_INFO = {"name": "aish", "version": __version__}
# Nearly every server fits into one page, and a page stays far below the message limits of clients.
PAGE_TOOLS = 100
# How long a client may cache a list: tools come and go with the MCP servers they are from.
_LIST_TTL_MS = 5_000

Result = dict[str, Any]


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
