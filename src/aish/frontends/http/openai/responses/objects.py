"""The JSON objects of responses: the response itself, its output items, and the events that stream them.

The part of the response object that does not change while it is made is encoded once (`make_head`); the rest is
appended.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from aish.frontends.http.openai.responses.request import Namespaced, ResponseBody
from aish.frontends.http.server.http_errors import HttpProblem
from aish.types.events import Event, ToolResult
from aish.types.messages import ToolCall, marked_text
from aish.types.tools import ResultStatus
from aish.types.usage import Usage

_encode = msgspec.json.encode
# Codex retries after any code but these; it must not after a refusal.
_CREDENTIALS = frozenset({"authorization", "headers"})
_CODES = {429: "rate_limit_exceeded"}


def make_head(id: str, created_at: int, body: ResponseBody, *, light: bool = False) -> bytes:
    """The object without its end. `light` leaves out fields that may be long, for heartbeats."""
    text = {"format": {"type": "text"}, **(body.text or {})}
    conversation = body.conversation_id
    return _encode({
        "id": id,
        "object": "response",
        "created_at": created_at,
        "background": bool(body.background),
        "conversation": {"id": conversation} if conversation else None,
        "instructions": None if light else body.instructions,
        "max_output_tokens": body.max_output_tokens,
        "max_tool_calls": body.max_tool_calls,
        "metadata": body.metadata or {},
        "model": body.model,
        "parallel_tool_calls": body.parallel_tool_calls is not False,
        "previous_response_id": body.previous_response_id,
        "prompt_cache_key": body.prompt_cache_key,
        "reasoning": {"effort": None, "summary": None, **(body.reasoning or {})},
        "safety_identifier": body.safety_identifier,
        "service_tier": "default",
        "store": body.is_kept,
        "temperature": 1.0 if body.temperature is None else body.temperature,
        "text": {"format": {"type": "text"}} if light else text,
        "tool_choice": "auto" if light or body.tool_choice is None else body.tool_choice,
        "tools": [] if light else [_without_credentials(tool) for tool in body.tools or ()],
        "top_logprobs": body.top_logprobs or 0,
        "top_p": 1.0 if body.top_p is None else body.top_p,
        "truncation": body.truncation or "disabled",
        "user": body.user,
    })[:-1]  # fmt: skip


def _without_credentials(tool: dict[str, Any]) -> dict[str, Any]:
    """Removes the credentials for a server that the client brings: they are stored nowhere."""
    if tool.get("type") != "mcp" or not tool.keys() & _CREDENTIALS:
        return tool
    return {name: value for name, value in tool.items() if name not in _CREDENTIALS}


def with_state(
    head: bytes,
    status: str,
    output: Iterable[bytes] = (),
    *,
    usage: Usage | None = None,
    error: dict[str, Any] | None = None,
    incomplete: dict[str, Any] | None = None,
    completed_at: int | None = None,
) -> bytes:
    tail = {
        "status": status,
        "completed_at": completed_at,
        "error": error,
        "incomplete_details": incomplete,
        "usage": usage_object(usage) if usage is not None else None,
    }
    return head + b"," + _encode(tail)[1:-1] + b',"output":[' + b",".join(output) + b"]}"


def usage_object(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.total_tokens,
    }


def error_object(problem: HttpProblem) -> dict[str, Any]:
    code = _CODES.get(problem.status) or ("server_error" if problem.status >= 500 else "invalid_prompt")
    return {"code": code, "message": problem.message, "type": problem.type, "param": problem.param}


OURS = "aish"  # the server label of tools without a server
_encode = msgspec.json.encode


class ToolListing(msgspec.Struct, frozen=True):
    """The tools of a server as an `mcp_list_tools` item lists them, or why there are none."""

    label: str
    tools: tuple[dict[str, Any], ...] = ()
    error: str | None = None


class EncoderSetup(msgspec.Struct, frozen=True):
    """Everything besides the events that the encoding of a response depends on: with it, the stream can be made again.

    `functions` are the client's, by the name that the model knows. `late` are tools of ours whose calls may have to
    wait for the client's consent. `approved` are calls of an earlier response that run in this one, by the id that
    events use, and `requests` the ids of the items that asked for them.
    """

    id: str
    head: str
    light: str
    functions: dict[str, Namespaced] = {}
    late: frozenset[str] = frozenset()
    approved: dict[str, ToolCall] = {}
    requests: dict[str, str] = {}
    listings: tuple[ToolListing, ...] = ()
    summary: bool = False

    def as_known(self, event: Event) -> Event:
        """The event with the id by which its call was first known."""
        approved = self.approved.get(event.call) if event.call else None
        return event if approved is None else msgspec.structs.replace(event, call=approved.id)

    def item_id(self, prefix: str, which: int | str) -> str:
        """`which` is the index of the item; for calls that have no other id, the call."""
        return f"{prefix}_{self.id.removeprefix('resp_')}_{which}"


class TextForm(msgspec.Struct, frozen=True):
    """How a text item streams: the names of its events and of its one part."""

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


MESSAGE = TextForm("msg", "response.content_part", "response.output_text", "output_text", extra={"logprobs": []})
THOUGHTS = TextForm("rs", "response.content_part", "response.reasoning_text", "reasoning_text")
SUMMARY = TextForm(
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


def listing_item(id: str, listing: ToolListing) -> dict[str, Any]:
    """Leaves out empty fields: some clients do not accept null there."""
    item = {"id": id, "type": "mcp_list_tools", "server_label": listing.label, "tools": list(listing.tools)}
    return item if listing.error is None else {**item, "error": listing.error}


def _error(result: ToolResult) -> dict[str, Any]:
    text = marked_text(result.parts)
    if result.status is ResultStatus.TOOL_ERROR:
        return {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": text}]}
    return {"type": "mcp_protocol_error", "code": -32000, "message": text}


_encode = msgspec.json.encode


class OpenText:
    """A text item that is not complete."""

    def __init__(self, form: TextForm, index: int, id: str) -> None:
        self.form = form
        self.at: dict[str, Any] = {"item_id": id, "output_index": index}
        self.pieces: list[str] = []
        self.logprobs: list[dict[str, Any]] = []
        self.delta_head = delta_head(f"{form.text_events}.delta", {**self.at, form.index: 0, **form.extra})


class OpenCall:
    """A call whose item is not complete. `call` has its arguments once they are. `request` is the id of the item
    that asked for consent, if there was one."""

    def __init__(self, id: str, index: int, call: ToolCall, events: str, *, request: str = "") -> None:
        self.call = call
        self.events = events
        self.request = request
        self.at: dict[str, Any] = {"item_id": id, "output_index": index}
        self.pieces: list[str] = []
        self.delta_head = delta_head(f"{events}_arguments.delta", self.at)


class ItemWriter:
    """Numbers the events without gaps and the items in order. `number` is that of the next event, `index` that of the
    next item."""

    def __init__(self) -> None:
        self.number = 2  # after created and in_progress
        self.index = 0
        self._done: dict[int, bytes] = {}

    def output(self) -> list[bytes]:
        return [self._done[index] for index in sorted(self._done)]

    def whole_item(self, item: dict[str, Any]) -> list[bytes]:
        at = {"output_index": self.index}
        return [self.item_added(item), self.item_done(at, item)]

    def item_added(self, item: dict[str, Any]) -> bytes:
        index, self.index = self.index, self.index + 1
        return self.event("response.output_item.added", {"output_index": index, "item": item})

    def item_done(self, at: dict[str, Any], item: dict[str, Any]) -> bytes:
        index, encoded = at["output_index"], _encode(item)
        self._done[index] = encoded
        return self.event("response.output_item.done", {"output_index": index, "item": msgspec.Raw(encoded)})

    def event(self, kind: str, fields: dict[str, Any]) -> bytes:
        number, self.number = self.number, self.number + 1
        return sse(kind, fields, number)


def sse(kind: str, fields: dict[str, Any], number: int) -> bytes:
    name = kind.encode()
    return b"event: " + name + b"\ndata: " + _encode({"type": kind, **fields, "sequence_number": number}) + b"\n\n"


def delta_head(kind: str, fields: dict[str, Any]) -> bytes:
    return b"event: " + kind.encode() + b"\ndata: " + _encode({"type": kind, **fields})[:-1] + b',"delta":'
