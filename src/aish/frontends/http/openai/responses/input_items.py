"""Reads input items, with or without `type`, into messages and approval decisions.

Neighbouring items of the assistant (reasoning, a message, calls) are one step of the model and become one message. A
call that we ran carries its own result, so a call after it belongs to another step. Unknown kinds of items are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from aish.frontends.http.openai.attachments import read_file_part, read_image
from aish.frontends.http.openai.responses.request import flat_name
from aish.frontends.http.server.http_errors import bad_field
from aish.types.messages import (
    AssistantMessage,
    Message,
    Part,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
    text_of,
)

# The id of a call that we run, or that waits for approval, contains its response and the call. Other ids do not.
_MCP_ID = re.compile(r"mcpr?_(?:[0-9a-z]{20}_)?(.+)", re.DOTALL)
_PREFIXES = {"message": "msg", "function_call": "fc", "function_call_output": "fco", "reasoning": "rs"}
_TEXTS = ("input_text", "output_text", "text", "refusal", "summary_text", "reasoning_text")


class ApprovalDecision(msgspec.Struct, frozen=True):
    """`request` is the id of the item that asked for it."""

    request: str
    approve: bool
    reason: str = ""


class ReadItems(msgspec.Struct):
    """`approvals` are by id of the call."""

    messages: list[Message]
    approvals: dict[str, ApprovalDecision]
    listed: list[str]


class _Draft:
    """A step of the assistant while it is put together."""

    def __init__(self) -> None:
        self.text = ""
        self.reasoning = ""
        self.calls: list[ToolCall] = []
        self.results: list[ToolMessage] = []
        self.is_over = False  # it has a result of ours, so the next call belongs to another step

    def messages(self) -> list[Message]:
        if not (self.text or self.calls):
            return []
        return [AssistantMessage(self.text, tuple(self.calls), self.reasoning), *self.results]


def as_items(given: str | Sequence[dict[str, Any]] | None) -> list[dict[str, Any]]:
    """A plain text is one message of the user. All items returned have a type."""
    if given is None:
        return []
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": given}]}]
    return [_with_type(index, item) for index, item in enumerate(given)]


def as_listed(item: dict[str, Any], suffix: str) -> dict[str, Any]:
    """The item as it is listed later: with an id; messages with parts and a status."""
    if not isinstance(item.get("id"), str):
        item = {**item, "id": f"{_PREFIXES.get(item['type'], 'item')}_{suffix}"}
    if item["type"] != "message":
        return item
    content = item.get("content")
    if isinstance(content, str):
        kind = "output_text" if item.get("role") == "assistant" else "input_text"
        content = [{"type": kind, "text": content} | ({"annotations": []} if kind == "output_text" else {})]
    return {"status": "completed", **item, "content": content or []}


def read_items(items: Sequence[dict[str, Any]]) -> ReadItems:
    reader = _Reader()
    for index, item in enumerate(items):
        reader.take(f"input[{index}]", item)
    return reader.finish()


class _Reader:
    def __init__(self) -> None:
        self._read = ReadItems([], {}, [])
        self._draft = _Draft()
        self._names: dict[str, str] = {}
        self._requested: set[str] = set()  # calls that waited for approval and have not run yet

    def finish(self) -> ReadItems:
        self._flush()
        return self._read

    def take(self, field: str, item: dict[str, Any]) -> None:
        match item["type"]:
            case "message":
                self._message(field, item)
            case "function_call" | "custom_tool_call":
                self._function_call(field, item)
            case "function_call_output" | "custom_tool_call_output":
                self._flush()
                id = _text(field, item, "call_id")
                self._read.messages.append(ToolMessage(id, self._names.get(id, ""), _output(field, item)))
            case "mcp_call":
                self._mcp_call(field, item)
            case "reasoning":
                self._begin()
                self._draft.reasoning += _thoughts(item)
            case "mcp_approval_request":
                self._call(_call_id(_text(field, item, "id")), _mcp_name(field, item), item)
            case "mcp_approval_response":
                self._approval(field, item)
            case "mcp_list_tools":
                self._read.listed.append(_text(field, item, "server_label"))
            case _:
                pass

    def _message(self, field: str, item: dict[str, Any]) -> None:
        role, content = item.get("role"), item.get("content")
        parts = _parts(f"{field}.content", content)
        match role:
            case "assistant":
                self._begin()
                self._draft.text = text_of(parts)
                return
            case "user":
                message: Message = UserMessage(parts)
            case "system" | "developer":
                message = SystemMessage(text_of(parts))
            case _:
                raise bad_field(f"{field}.role", "must be user, system, developer or assistant")
        self._flush()
        self._read.messages.append(message)

    def _function_call(self, field: str, item: dict[str, Any]) -> None:
        space, name = item.get("namespace"), _text(field, item, "name")
        if isinstance(item.get("input"), str):
            item = {"arguments": msgspec.json.encode({"input": item["input"]}).decode(), **item}
        self._call(_text(field, item, "call_id"), flat_name(space, name) if isinstance(space, str) else name, item)

    def _mcp_call(self, field: str, item: dict[str, Any]) -> None:
        id = _call_id(_text(field, item, "id"))
        self._call(id, _mcp_name(field, item), item)
        output, error = item.get("output"), item.get("error")
        if not isinstance(output, str):
            output = error if isinstance(error, str) else msgspec.json.encode(error).decode() if error else ""
        if item.get("status") != "in_progress":
            here = any(call.id == id for call in self._draft.calls)
            results: list[Any] = self._draft.results if here else self._read.messages
            results.append(ToolMessage(id, self._names[id], (TextPart(output),)))
            self._draft.is_over |= here

    def _call(self, id: str, name: str, item: dict[str, Any]) -> None:
        """A call that waited for approval comes twice: as the request for it, and as the call that ran."""
        if item["type"] == "mcp_call" and id in self._requested:
            self._requested.discard(id)
            return
        if self._draft.is_over:
            self._flush()
        if item["type"] == "mcp_approval_request":
            self._requested.add(id)
        arguments = item.get("arguments")
        self._names[id] = name
        self._draft.calls.append(ToolCall(id, name, arguments if isinstance(arguments, str) else ""))

    def _approval(self, field: str, item: dict[str, Any]) -> None:
        id, approve, reason = _text(field, item, "approval_request_id"), item.get("approve"), item.get("reason")
        if not isinstance(approve, bool):
            raise bad_field(f"{field}.approve", "must be true or false")
        self._read.approvals[_call_id(id)] = ApprovalDecision(id, approve, reason if isinstance(reason, str) else "")

    def _begin(self) -> None:
        """Reasoning or text after a call, or after other text, begins a new step."""
        if self._draft.text or self._draft.calls:
            self._flush()

    def _flush(self) -> None:
        self._read.messages += self._draft.messages()
        self._draft = _Draft()


def _with_type(index: int, item: dict[str, Any]) -> dict[str, Any]:
    kind = item.get("type")
    if not isinstance(kind, str | None):
        raise bad_field(f"input[{index}].type", "must be text")
    return item if kind else {**item, "type": _implied_type(index, item)}


def _implied_type(index: int, item: dict[str, Any]) -> str:
    if "role" in item:
        return "message"
    if "output" in item and "call_id" in item:
        return "function_call_output"
    if "call_id" in item and "name" in item:
        return "function_call"
    if isinstance(item.get("id"), str):
        return "item_reference"
    raise bad_field(f"input[{index}].type", "an item says its type")


def _text(field: str, item: dict[str, Any], name: str) -> str:
    value = item.get(name)
    if not isinstance(value, str) or not value:
        raise bad_field(f"{field}.{name}", "must be text")
    return value


def _call_id(id: str) -> str:
    found = _MCP_ID.fullmatch(id)
    return found[1] if found else id


def _mcp_name(field: str, item: dict[str, Any]) -> str:
    return flat_name(_text(field, item, "server_label"), _text(field, item, "name"))


def _output(field: str, item: dict[str, Any]) -> tuple[Part, ...]:
    if item.get("output") is None:
        raise bad_field(f"{field}.output", "must be text or a list of parts")
    return _parts(f"{field}.output", item["output"])


def _thoughts(item: dict[str, Any]) -> str:
    """The readable part of a reasoning item. We cannot read what is encrypted."""
    for given in (item.get("content"), item.get("summary")):
        parts = [part for part in given if isinstance(part, dict)] if isinstance(given, list) else []
        texts = [part["text"] for part in parts if isinstance(part.get("text"), str)]
        if texts:
            return "\n".join(texts)
    return ""


def _parts(field: str, content: Any) -> tuple[Part, ...]:
    if isinstance(content, str):
        return (TextPart(content),)
    if content is None:
        return (TextPart(""),)
    if not isinstance(content, list):
        raise bad_field(field, "must be text or a list of parts")
    return tuple(_part(f"{field}[{index}]", part) for index, part in enumerate(content))


def _part(field: str, part: Any) -> Part:
    if not isinstance(part, dict) or not isinstance(kind := part.get("type"), str):
        raise bad_field(field, "a part says its type")
    if kind in _TEXTS:
        text = part.get("text", part.get("refusal"))
        if not isinstance(text, str):
            raise bad_field(f"{field}.text", "must be text")
        return TextPart(text)
    if kind in ("input_image", "image_url"):
        url = part.get("image_url")
        url = url.get("url") if isinstance(url, dict) else url
        if not isinstance(url, str):
            raise bad_field(f"{field}.image_url", "must be a url: files are not stored here")
        return read_image(f"{field}.image_url", url)
    if kind == "input_file":
        return read_file_part(field, part)
    raise bad_field(f"{field}.type", f"parts of type {kind[:40]} are not taken")
