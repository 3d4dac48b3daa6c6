"""Reads the request for a response: its fields, its tools and its sampling, in canonical form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from aish.frontends.http.server.http_errors import bad_field, decode_body
from aish.frontends.http.turns.request_fields import Extensions, check_top_logprobs, read_knobs, read_response_format
from aish.frontends.http.turns.tool_fields import (
    MAX_NAME_CHARS,
    ClientFunction,
    McpEntry,
    read_function,
    read_mcp,
    tool_choice,
)
from aish.types.requests import Sampling, ToolChoice

# OpenAI's own limits of `metadata`.
MAX_METADATA, MAX_METADATA_KEY, MAX_METADATA_VALUE = 16, 64, 512


class ResponseBody(Extensions, frozen=True, kw_only=True):
    model: str = ""
    input: str | list[dict[str, Any]] | None = None
    instructions: str | None = None
    stream: bool | None = None
    store: bool | None = None
    background: bool | None = None
    previous_response_id: str | None = None
    conversation: str | dict[str, Any] | None = None
    metadata: dict[str, str] | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_output_tokens: int | None = None
    text: dict[str, Any] | None = None
    reasoning: dict[str, Any] | None = None
    include: list[str] | None = None
    truncation: str | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    top_logprobs: int | None = None
    service_tier: str | None = None
    prompt_cache_key: str | None = None
    safety_identifier: str | None = None
    user: str | None = None
    prompt: Any = None

    @property
    def wants_logprobs(self) -> bool:
        return bool(self.top_logprobs) or _LOGPROBS in (self.include or ())

    @property
    def is_kept(self) -> bool:
        return self.store is not False

    @property
    def conversation_id(self) -> str:
        """The conversation that it belongs to, "" for none."""
        given = self.conversation
        id = given.get("id") if isinstance(given, dict) else given
        if given is not None and (not isinstance(id, str) or not id):
            raise bad_field("conversation", "must be the id of a conversation")
        return id if isinstance(id, str) else ""


class Namespaced(msgspec.Struct, frozen=True):
    """A client's function by the client's name and namespace. The model knows it by one flat name."""

    name: str
    namespace: str = ""


class DeclaredTools(msgspec.Struct, frozen=True):
    """The tools of a request as they were read. `silent` are labels of servers whose tools the client does not want to
    approve."""

    functions: list[ClientFunction]
    mcp: list[McpEntry]
    spaces: dict[str, Namespaced]
    silent: frozenset[str]


_decoder = msgspec.json.Decoder(ResponseBody)
_LOGPROBS = "message.output_text.logprobs"


def decode_response_body(data: bytes) -> ResponseBody:
    body = decode_body(data, _decoder)
    if body.prompt is not None:
        raise bad_field("prompt", "prompt templates are not stored here")
    if body.input is None and not body.previous_response_id and body.conversation is None:
        raise bad_field("input", "must be text or a list of items")
    if body.previous_response_id and body.conversation is not None:
        raise bad_field("previous_response_id", "goes without conversation, and conversation without it")
    if body.background and not body.is_kept:
        raise bad_field("background", "needs store")
    if body.truncation not in (None, "auto", "disabled"):
        raise bad_field("truncation", "must be auto or disabled")
    check_metadata(body.metadata)
    return body


def check_metadata(metadata: Mapping[str, str] | None) -> None:
    given = metadata or {}
    if len(given) > MAX_METADATA:
        raise bad_field("metadata", f"{MAX_METADATA} pairs at most")
    for key, value in given.items():
        if len(key) > MAX_METADATA_KEY or len(value) > MAX_METADATA_VALUE:
            raise bad_field("metadata", f"keys have {MAX_METADATA_KEY} characters at most, values {MAX_METADATA_VALUE}")


def read_sampling(body: ResponseBody) -> Sampling:
    schema, json_object = read_response_format("text.format", (body.text or {}).get("format"))
    if body.max_output_tokens is not None and body.max_output_tokens < 1:
        raise bad_field("max_output_tokens", "must be at least 1")
    effort = (body.reasoning or {}).get("effort")
    if not isinstance(effort, str | None):
        raise bad_field("reasoning.effort", "must be text")
    return Sampling(
        temperature=body.temperature,
        top_p=body.top_p,
        max_tokens=body.max_output_tokens,
        json_schema=schema,
        json_object=json_object,
        reasoning_effort=effort or "",
        logprobs=check_top_logprobs(body.top_logprobs) if body.wants_logprobs else None,
        knobs=read_knobs(body),
    )


def read_declared(tools: Sequence[dict[str, Any]]) -> DeclaredTools:
    """Reads functions, also those in namespaces, and MCP servers. Tools of other types are ignored."""
    functions: list[ClientFunction] = []
    servers: list[McpEntry] = []
    spaces: dict[str, Namespaced] = {}
    silent: set[str] = set()
    for index, tool in enumerate(tools):
        field = f"tools[{index}]"
        kind = tool.get("type", "function")
        if kind == "mcp":
            servers.append(read_mcp(field, tool))
            if tool.get("require_approval") == "never":
                silent.add(servers[-1].label)
        elif kind == "function":
            given = tool.get("function")
            functions.append(read_function(field, given if isinstance(given, dict) else tool))
        elif kind == "namespace":
            for function, known in _namespace(field, tool):
                functions.append(function)
                spaces[function.name] = known
    return DeclaredTools(functions, servers, spaces, frozenset(silent))


def flat_name(namespace: str, name: str) -> str:
    """The one name for the model: `crm` and `find` are `crm__find`."""
    return f"{namespace.removesuffix('__')}__{name}" if namespace else name


def read_choice(given: Any, tools: Sequence[dict[str, Any]]) -> ToolChoice:
    """The choice of an ignored tool is ignored, too."""
    if not isinstance(given, dict):
        return tool_choice("tool_choice", given)
    kind, name = given.get("type"), given.get("name")
    if kind == "mcp":
        label = given.get("server_label")
        if not isinstance(label, str):
            raise bad_field("tool_choice.server_label", "must name a server")
        return ToolChoice("required", f"{label}__{name}" if isinstance(name, str) else "")
    if kind == "function" and isinstance(space := given.get("namespace"), str) and isinstance(name, str):
        return ToolChoice("required", flat_name(space, name))
    if kind in ("function", "allowed_tools", "auto", "none", "required", "any"):
        return tool_choice("tool_choice", given)
    if isinstance(kind, str) and kind:
        return ToolChoice()
    raise bad_field("tool_choice", "must be auto, none, required or a tool to call")


def _namespace(field: str, tool: dict[str, Any]) -> Iterator[tuple[ClientFunction, Namespaced]]:
    space, inner = tool.get("name"), tool.get("tools")
    if not isinstance(space, str) or not 0 < len(space) <= MAX_NAME_CHARS:
        raise bad_field(f"{field}.name", f"must be a name of 1 to {MAX_NAME_CHARS} characters")
    if not isinstance(inner, list):
        raise bad_field(f"{field}.tools", "must be a list of functions")
    for index, given in enumerate(inner):
        at = f"{field}.tools[{index}]"
        if not isinstance(given, dict):
            raise bad_field(at, "must be an object")
        if given.get("type", "function") == "function":
            function = read_function(at, given)
            flat = msgspec.structs.replace(function, name=flat_name(space, function.name))
            yield flat, Namespaced(function.name, space)
