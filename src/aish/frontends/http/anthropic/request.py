"""Reads a request of the messages API into the canonical form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from aish.frontends.http.openai.attachments import read_document, read_search_result
from aish.frontends.http.server.http_errors import HttpProblem, bad_field, decode_body
from aish.frontends.http.turns.request_fields import Extensions, read_knobs
from aish.frontends.http.turns.tool_fields import ClientFunction, McpEntry, read_credentials
from aish.types.messages import (
    AssistantMessage,
    ImagePart,
    Message,
    Part,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from aish.types.requests import Sampling, ToolChoice

Block = dict[str, Any]
_TOOL_CHANGES = ("tool_addition", "tool_removal")  # tell the model nothing
_TOOL_SEARCH = "tool_search_tool"  # the prefix of the types of Anthropic's own search tools


class _Turn(msgspec.Struct, frozen=True):
    role: str
    content: str | list[Block]


class MessagesBody(Extensions, frozen=True, kw_only=True):
    messages: list[_Turn]
    model: str
    max_tokens: int | None = None  # count_tokens goes without
    system: str | list[Block] | None = None
    stream: bool | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop_sequences: list[str] | None = None
    tools: list[Block] | None = None
    mcp_servers: list[Block] | None = None
    tool_choice: Block | None = None
    output_config: Block | None = None
    thread: Any = None


_decoder = msgspec.json.Decoder(MessagesBody)


def decode_messages_body(body: bytes) -> MessagesBody:
    given = decode_body(body, _decoder)
    if given.thread is not None:
        raise _no_threads()
    if not given.messages:
        raise bad_field("messages", "must not be empty")
    if given.max_tokens is not None and given.max_tokens < 1:
        raise bad_field("max_tokens", "must be at least 1")
    return given


def read_conversation(given: MessagesBody) -> list[Message]:
    read: list[Message] = []
    if given.system is not None and (text := _text("system", given.system)):
        read.append(SystemMessage(text))
    names: dict[str, str] = {}
    for index, turn in enumerate(given.messages):
        field = f"messages[{index}]"
        blocks = [{"type": "text", "text": turn.content}] if isinstance(turn.content, str) else turn.content
        match turn.role:
            case "user":
                read += _from_user(f"{field}.content", blocks, names)
            case "assistant":
                read += _from_assistant(f"{field}.content", blocks, names)
            case "system":
                if text := _text(f"{field}.content", turn.content):
                    read.append(SystemMessage(text))
            case other:
                raise bad_field(f"{field}.role", f"there is no role {other[:40]!r}")
    return read


def read_sampling(given: MessagesBody) -> Sampling:
    schema, effort = _output(given.output_config or {})
    return Sampling(
        temperature=given.temperature,
        top_p=given.top_p,
        max_tokens=given.max_tokens,
        stop=tuple(given.stop_sequences or ()),
        json_schema=schema,
        reasoning_effort=effort,
        knobs=read_knobs(given),
    )


def _no_threads() -> HttpProblem:
    """Uses the words after which Anthropic's clients send the whole conversation themselves."""
    details = {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
    return HttpProblem(
        400, "thread: conversations are not kept here, send all messages", param="thread", details=details
    )


def _output(given: Block) -> tuple[dict[str, Any] | None, str]:
    """The schema for the answer and the reasoning effort. Other backends know no effort above high."""
    effort = given.get("effort")
    if not isinstance(effort, str | None):
        raise bad_field("output_config.effort", "must be text")
    effort = "high" if effort in ("xhigh", "max") else effort or ""
    match given.get("format"):
        case None:
            return None, effort
        case {"type": "json_schema", "schema": dict(schema)}:
            return schema, effort
        case _:
            raise bad_field("output_config.format", "must be json_schema with its schema")


def read_tools(given: MessagesBody) -> tuple[list[ClientFunction], list[McpEntry]]:
    """Functions have a schema. `mcp_toolset` names a server of ours, or one of `mcp_servers`. Anthropic's own tools are
    ignored. A function with `defer_loading` is there once the conversation refers to it; at once if the request has a
    search tool of Anthropic's, which we cannot run."""
    tools = given.tools or []
    late = not any(str(tool.get("type")).startswith(_TOOL_SEARCH) for tool in tools)
    known = _referred_to(given.messages) if late and any(tool.get("defer_loading") for tool in tools) else set()
    brought = dict(_server(f"mcp_servers[{index}]", server) for index, server in enumerate(given.mcp_servers or []))
    functions: list[ClientFunction] = []
    servers: list[McpEntry] = []
    for index, tool in enumerate(tools):
        field, kind = f"tools[{index}]", tool.get("type", "custom")
        if kind == "mcp_toolset":
            label = tool.get("mcp_server_name")
            if not isinstance(label, str) or not label:
                raise bad_field(f"{field}.mcp_server_name", "must name a server")
            servers.append(brought.get(label) or McpEntry(label, field=field))
        elif kind == "custom":
            function = _function(field, tool)
            if not late or tool.get("defer_loading") is not True or function.name in known:
                functions.append(function)
    return functions, servers


def _referred_to(turns: Sequence[_Turn]) -> set[str]:
    """The names of tools that results, or changes of the tools, refer to."""
    blocks = [block for turn in turns if isinstance(turn.content, list) for block in turn.content]
    inner = [block["content"] for block in blocks if isinstance(block.get("content"), list)]
    found: set[str] = set()
    for block in (*(block.get("tool") for block in blocks), *(block for content in inner for block in content)):
        match block:
            case {"type": "tool_reference", "tool_name": str(name)} | {"type": "tool_reference", "name": str(name)}:
                found.add(name)
    return found


def _server(field: str, given: Block) -> tuple[str, McpEntry]:
    """This API has no approvals for tools of servers that a request brings."""
    label, url, token = given.get("name"), given.get("url"), given.get("authorization_token")
    if not isinstance(label, str) or not isinstance(url, str):
        raise bad_field(field, "must have a name and a url")
    token, _ = read_credentials(field, {"authorization": token})
    return label, McpEntry(label, url=url, field=field, agreed=("*",), token=token)


def read_choice(given: Block | None) -> tuple[ToolChoice, bool | None]:
    if given is None:
        return ToolChoice(), None
    parallel = False if given.get("disable_parallel_tool_use") is True else None
    match given:
        case {"type": "auto"}:
            return ToolChoice(), parallel
        case {"type": "any"}:
            return ToolChoice("required"), parallel
        case {"type": "none"}:
            return ToolChoice("none"), parallel
        case {"type": "tool", "name": str(name)}:
            return ToolChoice("required", name), parallel
        case _:
            raise bad_field("tool_choice", "must be auto, any, none or a tool with its name")


def _function(field: str, tool: Block) -> ClientFunction:
    name, description, schema = tool.get("name"), tool.get("description"), tool.get("input_schema")
    if not isinstance(name, str):
        raise bad_field(f"{field}.name", "must be text")
    if not isinstance(description, str | None):
        raise bad_field(f"{field}.description", "must be text")
    if not isinstance(schema, dict | None):
        raise bad_field(f"{field}.input_schema", "must be a JSON schema")
    return ClientFunction(field, name, description or "", schema or {})


def _from_user(field: str, blocks: Sequence[Block], names: dict[str, str]) -> list[Message]:
    """Puts tool results before the rest of the message."""
    results: list[Message] = []
    parts: list[Part] = []
    for index, block in enumerate(blocks):
        here = f"{field}[{index}]"
        if block.get("type") == "tool_result":
            call = _word(f"{here}.tool_use_id", block.get("tool_use_id"))
            content = block.get("content")
            inner = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
            shown = tuple(_part(f"{here}.content[{n}]", part) for n, part in enumerate(inner))
            results.append(ToolMessage(call, names.get(call, ""), shown))
        elif block.get("type") not in _TOOL_CHANGES:
            parts.append(_part(here, block))
    return [*results, UserMessage(tuple(parts))] if parts else results


def _from_assistant(field: str, blocks: Sequence[Block], names: dict[str, str]) -> list[Message]:
    text: list[str] = []
    reasoning: list[str] = []
    calls: list[ToolCall] = []
    results: list[Message] = []
    for index, block in enumerate(blocks):
        here = f"{field}[{index}]"
        match block:
            case {"type": "text", "text": str(piece)}:
                text.append(piece)
            case {"type": "thinking", "thinking": str(piece)}:
                reasoning.append(piece)
            case {"type": "tool_use" | "mcp_tool_use"}:
                call = _call(here, block)
                names[call.id] = call.name
                calls.append(call)
            case {"type": "mcp_tool_result"}:
                results += _from_user(field, [{**block, "type": "tool_result"}], names)
            case {"type": str()}:
                continue  # redacted thinking, and unknown blocks
            case _:
                raise bad_field(here, "a block says its type")
    return [AssistantMessage("".join(text), tuple(calls), "".join(reasoning)), *results]


def _call(field: str, block: Block) -> ToolCall:
    id, name = _word(f"{field}.id", block.get("id")), _word(f"{field}.name", block.get("name"))
    if block["type"] == "mcp_tool_use" and isinstance(server := block.get("server_name"), str):
        name = f"{server}__{name}"
    return ToolCall(id, name, msgspec.json.encode(block.get("input") or {}).decode())


def _word(field: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise bad_field(field, "must be text")
    return value


def _text(field: str, content: str | list[Block]) -> str:
    if isinstance(content, str):
        return content
    piece = [(index, block) for index, block in enumerate(content) if block.get("type") not in _TOOL_CHANGES]
    parts = [_part(f"{field}[{index}]", block) for index, block in piece]
    return "\n\n".join(part.text for part in parts if isinstance(part, TextPart))


def _part(field: str, block: Block) -> Part:
    match block:
        case {"type": "text", "text": str(text)}:
            return TextPart(text)
        case {"type": "image", "source": {"type": "base64", "media_type": str(kind), "data": str(data)}}:
            return ImagePart(kind, data=data)
        case {"type": "image", "source": {"type": "url", "url": str(url)}} if url.startswith(("http://", "https://")):
            return ImagePart("image/*", url=url)
        case {"type": "image"}:
            raise bad_field(f"{field}.source", "must be base64 with its media_type, or an http(s) url")
        case {"type": "document"}:
            return read_document(field, block)
        case {"type": "tool_reference"}:
            return TextPart(f"[tool: {_word(f'{field}.tool_name', block.get('tool_name') or block.get('name'))}]")
        case {"type": "search_result"}:
            return read_search_result(field, block)
        case {"type": str(kind)}:
            raise bad_field(f"{field}.type", f"blocks of type {kind[:40]} are not taken here")
        case _:
            raise bad_field(field, "a block says its type")
