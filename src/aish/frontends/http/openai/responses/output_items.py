"""Responses, the shapes of output items and of the events they stream in. No state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from aish.frontends.http.openai.responses.request import Namespaced
from aish.types.events import Event, ToolResult
from aish.types.messages import ToolCall, marked_text
from aish.types.tools import ResultStatus

OURS = "aish"  # the label of a call whose name says no server
_encode = msgspec.json.encode


class Listing(msgspec.Struct, frozen=True):
    """The tools of a server of ours, as `mcp_list_tools` tells them; or why there are none."""

    label: str
    tools: tuple[dict[str, Any], ...] = ()
    error: str | None = None


class Setup(msgspec.Struct, frozen=True):
    """All that the encoding of one response depends on, besides its events: with these it can be done again.

    `functions` are the client's, by the name the model knows; `late` are tools of ours whose calls may have to wait for
    the client's consent; `approved` are calls of an earlier response that run in this one, by the id that events know
    them under, and `requests` the ids of the items that asked for it.
    """

    id: str
    head: str
    light: str
    functions: dict[str, Namespaced] = {}
    late: frozenset[str] = frozenset()
    approved: dict[str, ToolCall] = {}
    requests: dict[str, str] = {}
    listings: tuple[Listing, ...] = ()
    summary: bool = False

    def as_known(self, event: Event) -> Event:
        """With its call under the id it was first known by."""
        approved = self.approved.get(event.call) if event.call else None
        return event if approved is None else msgspec.structs.replace(event, call=approved.id)

    def item_id(self, prefix: str, which: int | str) -> str:
        """`which` is the place of the item; of those whose call is known by nothing else, the call."""
        return f"{prefix}_{self.id.removeprefix('resp_')}_{which}"


class Form(msgspec.Struct, frozen=True):
    """How an item made of text streams: the names of its events and of its one part."""

    prefix: str
    part_events: str
    text_events: str
    part_type: str
    index: str = "content_index"
    extra: dict[str, Any] = {}

    def part(self, text: str, logprobs: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
        if self.part_type == "output_text":
            return {"type": self.part_type, "annotations": [], "logprobs": logprobs, "text": text}
        return {"type": self.part_type, "text": text}

    def item(self, id: str, status: str, text: str | None, logprobs: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
        parts = [] if text is None else [self.part(text, logprobs)]
        if self.prefix == "msg":
            return {"id": id, "type": "message", "status": status, "role": "assistant", "content": parts}
        item: dict[str, Any] = {"id": id, "type": "reasoning", "status": status, "encrypted_content": None}
        is_summary = self.index == "summary_index"
        return {**item, "summary": parts if is_summary else [], "content": [] if is_summary else parts}


MESSAGE = Form("msg", "response.content_part", "response.output_text", "output_text", extra={"logprobs": []})
THOUGHTS = Form("rs", "response.content_part", "response.reasoning_text", "reasoning_text")
SUMMARY = Form(
    "rs", "response.reasoning_summary_part", "response.reasoning_summary_text", "summary_text", "summary_index"
)


def split_name(name: str) -> tuple[str, str]:
    """`desk__note` is the tool `note` of the server `desk`."""
    label, parted, tool = name.partition("__")
    return (label, tool) if parted else (OURS, name)


def function_item(id: str, call: ToolCall, known: Namespaced, status: str) -> dict[str, Any]:
    item = {"id": id, "type": "function_call", "status": status, "call_id": call.id, "name": known.name}
    if known.namespace:
        item["namespace"] = known.namespace
    return {**item, "arguments": call.arguments}


def mcp_item(
    id: str, call: ToolCall, status: str, result: ToolResult | None = None, *, request: str = ""
) -> dict[str, Any]:
    label, name = split_name(call.name)
    failed = result is not None and result.status is not ResultStatus.OK
    return {
        "id": id,
        "type": "mcp_call",
        "status": status,
        "server_label": label,
        "name": name,
        "arguments": call.arguments,
        "approval_request_id": request or None,
        "output": marked_text(result.parts) if result is not None and not failed else None,
        "error": _error(result) if result is not None and failed else None,
    }


def approval_item(id: str, call: ToolCall) -> dict[str, Any]:
    label, name = split_name(call.name)
    item = {"id": id, "type": "mcp_approval_request", "server_label": label, "name": name}
    return {**item, "arguments": call.arguments or "{}"}


def listing_item(id: str, listing: Listing) -> dict[str, Any]:
    """Without the fields that have nothing to say: some clients do not take null there."""
    item = {"id": id, "type": "mcp_list_tools", "server_label": listing.label, "tools": list(listing.tools)}
    return item if listing.error is None else {**item, "error": listing.error}


def _error(result: ToolResult) -> dict[str, Any]:
    text = marked_text(result.parts)
    if result.status is ResultStatus.TOOL_ERROR:
        return {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": text}]}
    return {"type": "mcp_protocol_error", "code": -32000, "message": text}
