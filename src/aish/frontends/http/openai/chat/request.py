"""Chat completions, the request: from its JSON to the canonical one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from aish.frontends.http.openai.documents import read_file
from aish.frontends.http.server.bodies import decode_body
from aish.frontends.http.server.http_errors import bad_field
from aish.frontends.http.turns.dynamic_mcp import read_credentials
from aish.frontends.http.turns.request_fields import (
    MAX_NAME_CHARS,
    Extensions,
    Function,
    McpTool,
    check_globs,
    find_knobs,
)
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
from aish.types.requests import Sampling

MAX_TOP_LOGPROBS = 20


class _CallFunction(msgspec.Struct, frozen=True):
    name: str
    arguments: str = ""


class _Call(msgspec.Struct, frozen=True):
    id: str
    function: _CallFunction | None = None


class ChatMessage(msgspec.Struct, frozen=True):
    role: str
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None
    name: str | None = None
    reasoning_content: str | None = None


class StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool | None = None


class ChatBody(Extensions, frozen=True, kw_only=True):
    messages: list[ChatMessage]
    model: str = ""
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    n: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    reasoning_effort: str | None = None
    response_format: dict[str, Any] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None


_decoder = msgspec.json.Decoder(ChatBody)


def decode_chat(body: bytes) -> ChatBody:
    chat = decode_body(body, _decoder)
    if not chat.messages:
        raise bad_field("messages", "must not be empty")
    if chat.n not in (None, 1):
        raise bad_field("n", "only one choice is given")
    return chat


def read_messages(messages: Sequence[ChatMessage]) -> list[Message]:
    """Canonical, in order. Names of called tools are put where results belong to them."""
    names: dict[str, str] = {}
    read: list[Message] = []
    for place, message in enumerate(messages):
        if message.role == "user" and isinstance(message.content, str):
            read.append(UserMessage((TextPart(message.content),)))
            continue
        field = f"messages[{place}]"
        match message.role:
            case "system" | "developer":
                read.append(SystemMessage(_text(f"{field}.content", message.content)))
            case "user":
                read.append(UserMessage(_parts(f"{field}.content", message.content)))
            case "assistant":
                calls = _calls(field, message)
                names.update((call.id, call.name) for call in calls)
                text = _text(f"{field}.content", message.content)
                read.append(AssistantMessage(text, calls, message.reasoning_content or ""))
            case "tool" | "function":
                id = message.tool_call_id or message.name or ""
                if not id:
                    raise bad_field(f"{field}.tool_call_id", "a tool message says which call it answers")
                read.append(ToolMessage(id, names.get(id, ""), _parts(f"{field}.content", message.content)))
            case other:
                raise bad_field(f"{field}.role", f"there is no role {other[:40]!r}")
    return read


def read_sampling(chat: ChatBody) -> Sampling:
    schema, json_object = (None, False) if chat.response_format is None else _format(chat.response_format)
    return Sampling(
        temperature=chat.temperature,
        top_p=chat.top_p,
        max_tokens=_most_tokens(chat),
        stop=(chat.stop,) if isinstance(chat.stop, str) else tuple(chat.stop or ()),
        seed=chat.seed,
        json_schema=schema,
        json_object=json_object,
        reasoning_effort=chat.reasoning_effort or "",
        frequency_penalty=chat.frequency_penalty,
        presence_penalty=chat.presence_penalty,
        logit_bias=chat.logit_bias,
        logprobs=None if chat.logprobs is None and chat.top_logprobs is None else _logprobs(chat),
        knobs=find_knobs(chat),
    )


def read_tools(tools: Sequence[dict[str, Any]]) -> tuple[list[Function], list[McpTool]]:
    """Those of a kind we know; others are passed over."""
    functions: list[Function] = []
    servers: list[McpTool] = []
    for place, tool in enumerate(tools):
        field = f"tools[{place}]"
        if tool.get("type") == "mcp":
            servers.append(read_mcp(field, tool))
        elif tool.get("type", "function") == "function":
            given = tool.get("function", tool if "name" in tool else None)
            if not isinstance(given, dict):
                raise bad_field(f"{field}.function", "must be an object")
            functions.append(read_function(f"{field}.function", given))
    return functions, servers


def read_function(field: str, given: dict[str, Any]) -> Function:
    name, description = given.get("name"), given.get("description")
    schema, strict = given.get("parameters"), given.get("strict")
    if not isinstance(name, str):
        raise bad_field(f"{field}.name", "must be text")
    if not isinstance(description, str | None):
        raise bad_field(f"{field}.description", "must be text")
    if not isinstance(schema, dict | None):
        raise bad_field(f"{field}.parameters", "must be a JSON schema")
    return Function(field, name, description or "", schema or {}, strict if isinstance(strict, bool) else None)


def read_mcp(field: str, given: dict[str, Any]) -> McpTool:
    label, url = given.get("server_label"), given.get("server_url")
    if not isinstance(label, str) or not 0 < len(label) <= MAX_NAME_CHARS:
        raise bad_field(f"{field}.server_label", f"must name a server, in {MAX_NAME_CHARS} characters at most")
    if not isinstance(url, str | None):
        raise bad_field(f"{field}.server_url", "must be text")
    allowed = _names(f"{field}.allowed_tools", given.get("allowed_tools"))
    approval, approved = given.get("require_approval"), f"{field}.require_approval"
    token, headers = read_credentials(field, given) if url else ("", {})
    return McpTool(
        label,
        allowed,
        _to_ask(approved, approval),
        url or "",
        field,
        agreed=_agreed(approved, approval),
        token=token,
        headers=headers,
    )


def _names(field: str, given: Any) -> tuple[str, ...]:
    """A list of names, or the filter object that holds one; nothing means all."""
    if isinstance(given, dict):
        given = given.get("tool_names")
    if given is None:
        return ("*",)
    if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
        raise bad_field(field, "must be a list of names")
    check_globs(field, given)
    return tuple(given)


def _to_ask(field: str, given: Any) -> tuple[str, ...]:
    """Globs of the tools to ask about: "always", "never" or a filter. Unsaid, the server's own gate decides."""
    if given in (None, "never"):
        return ()
    if given == "always":
        return ("*",)
    if isinstance(given, dict):
        always = given.get("always")
        return _names(field, always) if always is not None else ()
    raise bad_field(field, "must be always, never or a filter")


def _agreed(field: str, given: Any) -> tuple[str, ...]:
    """Globs of the tools that the client does not want to be asked about."""
    never = given.get("never") if isinstance(given, dict) else None
    if given == "never":
        return ("*",)
    return _names(field, never) if never is not None else ()


def _calls(field: str, message: ChatMessage) -> tuple[ToolCall, ...]:
    calls = [call for call in message.tool_calls or () if call.function is not None]
    return tuple(ToolCall(c.id, c.function.name, c.function.arguments) for c in calls if c.function)


def _text(field: str, content: str | list[dict[str, Any]] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    parts = _parts(field, content)
    return "".join(part.text for part in parts if isinstance(part, TextPart))


def _parts(field: str, content: str | list[dict[str, Any]] | None) -> tuple[Part, ...]:
    if content is None or isinstance(content, str):
        return (TextPart(content or ""),)
    return tuple(_part(f"{field}[{place}]", part) for place, part in enumerate(content))


def _part(field: str, part: dict[str, Any]) -> Part:
    match part:
        case {"type": "text" | "input_text" | "output_text" | "refusal"}:
            text = part.get("text", part.get("refusal"))
            if not isinstance(text, str):
                raise bad_field(f"{field}.text", "must be text")
            return TextPart(text)
        case {"type": "image_url", "image_url": str(url)} | {"type": "image_url", "image_url": {"url": str(url)}}:
            return read_image(f"{field}.image_url", url)
        case {"type": "file", "file": dict(given)}:
            return read_file(f"{field}.file", given)
        case {"type": kind}:
            raise bad_field(f"{field}.type", f"parts of type {str(kind)[:40]} are not taken")
        case _:
            raise bad_field(field, "a part says its type")


def read_image(field: str, url: str) -> ImagePart:
    if not url.startswith("data:"):
        if not url.startswith(("http://", "https://")):
            raise bad_field(field, "must be a data: or http(s) url")
        return ImagePart(url=url, media_type="image/*")
    head, comma, data = url[5:].partition(",")
    media_type, _, encoding = head.partition(";")
    if not comma or encoding != "base64":
        raise bad_field(field, "a data url holds base64")
    return ImagePart(media_type or "image/png", data=data)


def _format(given: dict[str, Any]) -> tuple[dict[str, Any] | None, bool]:
    match given:
        case {"type": "text"}:
            return None, False
        case {"type": "json_object"}:
            return None, True
        case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
            return schema, False
        case {"type": "json_schema", "schema": dict(schema)}:
            return schema, False
        case _:
            raise bad_field("response_format", "must be text, json_object or json_schema with its schema")


def _logprobs(chat: ChatBody) -> int | None:
    if not chat.logprobs and chat.top_logprobs:
        raise bad_field("top_logprobs", "needs logprobs to be true")
    return check_top_logprobs(chat.top_logprobs) if chat.logprobs else None


def check_top_logprobs(count: int | None) -> int:
    if not 0 <= (count or 0) <= MAX_TOP_LOGPROBS:
        raise bad_field("top_logprobs", f"must be from 0 to {MAX_TOP_LOGPROBS}")
    return count or 0


def _most_tokens(chat: ChatBody) -> int | None:
    for field, value in (("max_completion_tokens", chat.max_completion_tokens), ("max_tokens", chat.max_tokens)):
        if value is not None and value < 1:
            raise bad_field(field, "must be at least 1")
    return chat.max_completion_tokens or chat.max_tokens
