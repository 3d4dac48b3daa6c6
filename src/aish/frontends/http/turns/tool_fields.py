"""Reads the tools of a request, and decides which are ours and which are the client's.

A function that has the name of one of our tools is run by us; any other function is the client's. `{"type": "mcp"}`
entries name servers of ours by label, or bring one along (`dynamic_mcp`). Unknown kinds of tools are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from aish.frontends.http.auth.authentication import Caller
from aish.frontends.http.server.http_errors import HttpProblem, bad_field
from aish.frontends.http.server.service import Service
from aish.frontends.runtime import DynamicMcpTools
from aish.types.globs import Globs, globs_of
from aish.types.models import AGENT_MODEL
from aish.types.requests import ToolChoice
from aish.types.tools import Effect, ToolSpec, wire_name

CLIENT = "client"


MAX_NAME_CHARS = 128  # of a client's function; OpenAI allows 64, some clients send more


_MAX_GLOBS = 2000  # in one request: those with a wildcard are compiled


_MAX_GLOB_CHARS = 2 * MAX_NAME_CHARS + 2  # the label of a server and the name of its tool


_AUTO = ToolChoice()


class ClientFunction(msgspec.Struct, frozen=True):
    """A function as a client declares it. `field` is its index in the body, for errors."""

    field: str
    name: str
    description: str = ""
    schema: dict[str, Any] = {}
    strict: bool | None = None


class McpEntry(msgspec.Struct, frozen=True):
    """`{"type": "mcp"}`: tools of a server of ours, or of one that the client names by `url`, with its credentials.
    `ask` are the globs of tools that need approval, `agreed` those that the client wants to run without."""

    label: str
    allowed: tuple[str, ...] = ("*",)
    ask: tuple[str, ...] = ()
    url: str = ""
    field: str = "tools"
    agreed: tuple[str, ...] = ()
    token: str = ""
    headers: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"McpEntry({self.label!r})"


class RequestTools(msgspec.Struct, frozen=True):
    """`ours` are exact names; `clients` are the client's tools and `client_names` their names. `ask` are globs of our
    tools that the client wants to approve itself. `dynamic` are servers that it has brought, connected for as long as
    this object lives; `agreed` are tools of theirs that need no consent."""

    ours: tuple[str, ...] = ()
    clients: tuple[ToolSpec, ...] = ()
    client_names: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    dynamic: DynamicMcpTools | None = None
    agreed: frozenset[str] = frozenset()

    @property
    def dynamic_name(self) -> str:
        return self.dynamic.name if self.dynamic is not None else ""


NO_TOOLS = RequestTools()


class ToolsByServer:
    """The names of tools, by the label of their server."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names: dict[str, list[tuple[str, str]]] = {}
        for name in names:
            label, _, own = name.partition("__")
            self._names.setdefault(label, []).append((name, own))

    def tools(self, label: str, globs: Iterable[str]) -> list[str]:
        """The tools of this server that match the globs, by our name for them or by their own."""
        if (names := self._names.get(label)) is None:
            return []
        meant = Globs(globs)
        return [name for name, own in names if own in meant or name in meant]


async def choose_tools(
    service: Service,
    caller: Caller,
    functions: Sequence[ClientFunction],
    mcp: Sequence[McpEntry] = (),
    dynamic: DynamicMcpTools | None = None,
) -> RequestTools:
    if not functions and not mcp and not service.config.tools:
        return NO_TOOLS
    await service.engine.refresh_tools()
    source = service.engine.tools if dynamic is None else service.engine.tools_for(dynamic.name)
    known, injected = {spec.name for spec in source.specs()}, globs_of(service.config.tools)
    ours = {name for name in known if name in injected}
    if mcp:
        check_count("tools", sum(len(e.allowed) + len(e.ask) + len(e.agreed) for e in mcp), _MAX_GLOBS)
        by_server = ToolsByServer(known)
        for entry in mcp:
            ours.update(by_server.tools(entry.label, entry.allowed))
    clients: dict[str, ToolSpec] = {}
    for function in functions:
        name = function.name if function.name in known else wire_name(function.name)
        if name in known:
            ours.add(name)
        elif function.name in clients:
            raise bad_field(function.field, f"there are two functions named {function.name}")
        else:
            clients[function.name] = _client_tool(function)
    ask = tuple(f"{entry.label}__{glob}" for entry in mcp for glob in entry.ask)
    tools = RequestTools(caller.filter_tools(sorted(ours)), tuple(clients.values()), tuple(clients), ask, dynamic)
    return tools if dynamic is None else _with_agreed(service, mcp, tools)


def _with_agreed(service: Service, mcp: Sequence[McpEntry], tools: RequestTools) -> RequestTools:
    own = {spec.source for spec in service.engine.tools.specs()}
    by_server, asked = ToolsByServer(tools.ours), Globs(tools.ask)
    agreed = [by_server.tools(entry.label, entry.agreed) for entry in mcp if entry.label not in own]
    return msgspec.structs.replace(tools, agreed=frozenset(n for names in agreed for n in names if n not in asked))


def runnable_tools(service: Service, caller: Caller, tools: RequestTools) -> tuple[str, ...]:
    """The tools that can come to run, where the client has agreed to some. The gate's questions then have an answer for
    these tools only, so where no user can be asked, tools that need other consent are not shown."""
    if service.consent_for(caller) is not None:
        return tools.ours
    offered = service.engine.visible_tools(
        tools.ours, interactive=False, dynamic_mcp=tools.dynamic_name, owner=caller.owner
    )
    free = {spec.name for spec in offered}
    return tuple(name for name in tools.ours if name in free or name in tools.agreed)


def add_agent_tools(service: Service, caller: Caller, model: str, ours: tuple[str, ...]) -> tuple[str, ...]:
    """The tools of the request. Where an agent answers, also all that the key covers: the agent chooses among them."""
    if not model.startswith(AGENT_MODEL) or service.runtime.agents.find_model(model) is None:
        return ours
    known = (spec.name for spec in service.engine.tools.specs())
    return (*ours, *caller.filter_tools([name for name in known if name not in ours]))


def check_globs(field: str, globs: Sequence[str]) -> None:
    check_count(field, len(globs), _MAX_GLOBS)
    if any(len(glob) > _MAX_GLOB_CHARS for glob in globs):
        raise bad_field(field, f"a name has {_MAX_GLOB_CHARS} characters at most")


def check_count(field: str, count: int, most: int) -> None:
    if count > most:
        raise bad_field(field, f"{count} are too many, {most} at most")


def tool_choice(field: str, given: Any) -> ToolChoice:
    """Reads a word, or the name of the one function to call, in the shape of any of the APIs."""
    if given is None:
        return _AUTO
    if isinstance(given, str):
        words: dict[str, ToolChoice] = {
            "auto": ToolChoice(),
            "none": ToolChoice("none"),
            "required": ToolChoice("required"),
            "any": ToolChoice("required"),
        }
        if given not in words:
            raise bad_field(field, "must be auto, none, required or a function to call")
        return words[given]
    if isinstance(given, dict):
        kind, function = given.get("type"), given.get("function")
        name = function.get("name") if isinstance(function, dict) else given.get("name")
        if isinstance(name, str) and name:
            return ToolChoice("required", name)
        if isinstance(kind, str) and kind in ("auto", "none", "required", "any"):
            return tool_choice(field, kind)
        if kind == "allowed_tools":
            return _among(field, given.get("allowed_tools", given))
    raise bad_field(field, "must be auto, none, required or a function to call")


def _among(field: str, given: Any) -> ToolChoice:
    """Chat completions nest the list; responses have it at the top."""
    tools = given.get("tools") if isinstance(given, dict) else None
    if not isinstance(tools, list):
        raise bad_field(f"{field}.tools", "must list the tools that may be called")
    choice = tool_choice(f"{field}.mode", given.get("mode", "auto"))
    among = tuple(_read_allowed(field, tool) for tool in tools)
    check_globs(f"{field}.tools", among)
    if among:
        return msgspec.structs.replace(choice, among=among)
    if choice.mode == "required":
        raise bad_field(f"{field}.tools", "must list a tool where a call is required")
    return ToolChoice("none")


def _read_allowed(field: str, tool: Any) -> str:
    if isinstance(tool, dict):
        function = tool.get("function")
        name = function.get("name") if isinstance(function, dict) else tool.get("name")
        label = tool.get("server_label")
        if isinstance(label, str) and label:
            return f"{label}__{name}" if isinstance(name, str) and name else f"{label}__*"
        if isinstance(kind := tool.get("type"), str):
            return name if isinstance(name, str) and name else kind  # an ignored kind of tool: matches nothing
    raise bad_field(f"{field}.tools", "each must have a type, and a name or the label of a server")


def check_servers(service: Service, mcp: Sequence[McpEntry], dynamic: DynamicMcpTools | None = None) -> None:
    """For APIs that have no other way to say that a server is unknown."""
    source = service.engine.tools if dynamic is None else service.engine.tools_for(dynamic.name)
    known = [spec.name for spec in source.specs()] if mcp else ()
    for entry in mcp:
        if any(name.startswith(f"{entry.label}__") for name in known):
            continue
        if entry.url and service.config.mcp_urls:
            raise bad_field(f"{entry.field}.server_url", f"{entry.label[:80]} has no tools")
        if entry.url:
            raise HttpProblem(
                403,
                f"{entry.field}.server_url: this server connects only to MCP servers it is configured with",
                param=f"{entry.field}.server_url",
                code="dynamic_mcp_off",
            )
        raise bad_field(f"{entry.field}.server_label", f"there is no MCP server {entry.label[:80]} with tools here")


def _client_tool(function: ClientFunction) -> ToolSpec:
    if not function.name or len(function.name) > MAX_NAME_CHARS:
        raise bad_field(function.field, f"a function needs a name of 1 to {MAX_NAME_CHARS} characters")
    schema = function.schema or {"type": "object", "properties": {}}
    return ToolSpec(function.name, function.description, schema, Effect.READ, CLIENT, strict=function.strict)


def read_function(field: str, given: dict[str, Any]) -> ClientFunction:
    name, description = given.get("name"), given.get("description")
    schema, strict = given.get("parameters"), given.get("strict")
    if not isinstance(name, str):
        raise bad_field(f"{field}.name", "must be text")
    if not isinstance(description, str | None):
        raise bad_field(f"{field}.description", "must be text")
    if not isinstance(schema, dict | None):
        raise bad_field(f"{field}.parameters", "must be a JSON schema")
    return ClientFunction(field, name, description or "", schema or {}, strict if isinstance(strict, bool) else None)


def read_mcp(field: str, given: dict[str, Any]) -> McpEntry:
    label, url = given.get("server_label"), given.get("server_url")
    if not isinstance(label, str) or not 0 < len(label) <= MAX_NAME_CHARS:
        raise bad_field(f"{field}.server_label", f"must name a server, in {MAX_NAME_CHARS} characters at most")
    if not isinstance(url, str | None):
        raise bad_field(f"{field}.server_url", "must be text")
    allowed = _names(f"{field}.allowed_tools", given.get("allowed_tools"))
    approval, approved = given.get("require_approval"), f"{field}.require_approval"
    token, headers = read_credentials(field, given) if url else ("", {})
    return McpEntry(
        label,
        allowed,
        _to_ask(approved, approval),
        url or "",
        field,
        agreed=_read_agreed(approved, approval),
        token=token,
        headers=headers,
    )


def _names(field: str, given: Any) -> tuple[str, ...]:
    """Reads a list of names, or the filter object that has one; no list means all."""
    if isinstance(given, dict):
        given = given.get("tool_names")
    if given is None:
        return ("*",)
    if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
        raise bad_field(field, "must be a list of names")
    check_globs(field, given)
    return tuple(given)


def _to_ask(field: str, given: Any) -> tuple[str, ...]:
    """Globs of the tools that need approval: "always", "never" or a filter. If nothing is said, the server's own gate
    decides."""
    if given in (None, "never"):
        return ()
    if given == "always":
        return ("*",)
    if isinstance(given, dict):
        always = given.get("always")
        return _names(field, always) if always is not None else ()
    raise bad_field(field, "must be always, never or a filter")


def _read_agreed(field: str, given: Any) -> tuple[str, ...]:
    """Globs of the tools that the client wants to run without being asked."""
    never = given.get("never") if isinstance(given, dict) else None
    if given == "never":
        return ("*",)
    return _names(field, never) if never is not None else ()


_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")


_MAX_HEADERS = 32


_MAX_VALUE_CHARS = 8192


# Headers that the connection sets itself.
_OURS = frozenset({
    "host", "connection", "content-length", "content-type", "transfer-encoding", "te", "trailer", "upgrade", "expect",
    "accept", "mcp-session-id", "mcp-protocol-version", "last-event-id", "proxy-authorization", "proxy-connection",
})  # fmt: skip


def read_credentials(field: str, given: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """Reads the bearer token and the headers for the connection to a server."""
    token, headers = given.get("authorization"), given.get("headers") or {}
    if not isinstance(token, str | None) or not _is_value(token or ""):
        raise bad_field(f"{field}.authorization", "must be a token")
    if not isinstance(headers, dict) or len(headers) > _MAX_HEADERS:
        raise bad_field(f"{field}.headers", f"must be an object of at most {_MAX_HEADERS} headers")
    for name, value in headers.items():
        if not _HEADER.fullmatch(name) or not isinstance(value, str) or not _is_value(value):
            raise bad_field(f"{field}.headers", "must be an object of names and printable text")
        if name.lower() in _OURS:
            raise bad_field(f"{field}.headers", f"{name} is not for a request to say")
        if token and name.lower() == "authorization":
            raise bad_field(f"{field}.headers", "goes without Authorization where there is an authorization")
    return (token or "").removeprefix("Bearer "), headers


def _is_value(text: str) -> bool:
    return len(text) <= _MAX_VALUE_CHARS and text.isascii() and (text.isprintable() or not text)
