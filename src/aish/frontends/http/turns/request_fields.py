"""From the fields that all APIs have in some form to the engine's one request: whose tools, which session, what limits.

A function whose name is a tool of ours is run by us; any other function is the client's. `{"type": "mcp"}` entries name
servers of ours by label, or bring one along (`guests`). What we do not know is passed over.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec
from msgspec.structs import astuple

from aish.errors import UsageError
from aish.frontends.asgi import Exchange
from aish.frontends.http.auth.caller import Caller
from aish.frontends.http.server.http_errors import Problem, bad_field, uncovered_model
from aish.frontends.http.server.service import Service
from aish.frontends.planning_request import planning_of
from aish.frontends.runtime import BroughtTools
from aish.types.globs import Globs, globs_of
from aish.types.limits import Limits
from aish.types.messages import AssistantMessage, Message, SystemMessage, ToolMessage
from aish.types.plans import Planning
from aish.types.requests import Knobs, Sampling, ToolChoice, TurnRequest
from aish.types.tools import Effect, ToolSpec, wire_name

CLIENT = "client"
MAX_NAME_CHARS = 128  # of a client's function; OpenAI takes 64, some clients send more
_SESSION_HEADERS = (b"x-session-id", b"session-id", b"session_id")
_MAX_SESSION_CHARS = 128
# Version, trace, span and flags, as W3C Trace Context has them; all zeros are nobody's.
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_MAX_GLOBS = 2000  # that a client may write in one request: what has a wild card is compiled
_MAX_GLOB_CHARS = 2 * MAX_NAME_CHARS + 2  # the label of a server and a tool of its
_AUTO = ToolChoice()
RETRY_HEADERS = (*_SESSION_HEADERS, b"x-client-request-id", b"thread-id")


class Extensions(Knobs, frozen=True):
    """Fields that every API takes in its body beyond its own: ours, and the knobs of local backends."""

    repetition_penalty: float | None = None
    session_id: str | None = None
    use_server_history: bool | None = None
    max_steps: int | None = None
    max_tool_calls: int | None = None
    trace: bool | None = None
    planner: Any = None
    tool_mode: Literal["auto", "native", "constrained", "prompted"] | None = None


# The first fields of a body, where nothing is said of them. All requests are compared with that, by two calls of C:
# to look at each field would be the dearest thing in reading one that has none.
_NO_KNOBS = (None,) * (len(Knobs.__struct_fields__) + 1)


def find_knobs(given: Extensions) -> Knobs | None:
    """None where none is turned. The two names of one knob are one here; who sends both means the first."""
    values = astuple(given)[: len(_NO_KNOBS)]
    if values == _NO_KNOBS:
        return None
    *said, repetition_penalty = values
    knobs = Knobs(*said)
    if knobs.repeat_penalty is None:
        knobs = msgspec.structs.replace(knobs, repeat_penalty=repetition_penalty)
    return knobs


class Function(msgspec.Struct, frozen=True):
    """A function as a client declares it; `field` is where."""

    field: str
    name: str
    description: str = ""
    schema: dict[str, Any] = {}
    strict: bool | None = None


class McpTool(msgspec.Struct, frozen=True):
    """`{"type": "mcp"}`: tools of a server of ours, or of one that the client names by `url`, with its credentials.
    `ask` are the globs of those that need approval, `agreed` of those the client has said need none."""

    label: str
    allowed: tuple[str, ...] = ("*",)
    ask: tuple[str, ...] = ()
    url: str = ""
    field: str = "tools"
    agreed: tuple[str, ...] = ()
    token: str = ""
    headers: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"McpTool({self.label!r})"


class Tools(msgspec.Struct, frozen=True):
    """`ours` are exact names, `clients` the asker's and `client_names` theirs, `ask` globs of ours that the asker wants
    to approve itself. `guests` are servers it has brought, held for as long as this is; `agreed` are tools of theirs
    that need no asking."""

    ours: tuple[str, ...] = ()
    clients: tuple[ToolSpec, ...] = ()
    client_names: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    guests: BroughtTools | None = None
    agreed: frozenset[str] = frozenset()

    @property
    def guest_name(self) -> str:
        return self.guests.name if self.guests is not None else ""


NO_TOOLS = Tools()


class ToolsByServer:
    """Their names, by the label of their server."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names: dict[str, list[tuple[str, str]]] = {}
        for name in names:
            label, _, own = name.partition("__")
            self._names.setdefault(label, []).append((name, own))

    def tools(self, label: str, globs: Iterable[str]) -> list[str]:
        """Those of that server that the globs mean, by our names for them or its own."""
        if (names := self._names.get(label)) is None:
            return []
        meant = Globs(globs)
        return [name for name, own in names if own in meant or name in meant]


def choose_tools(
    service: Service,
    caller: Caller,
    functions: Sequence[Function],
    mcp: Sequence[McpTool] = (),
    guests: BroughtTools | None = None,
) -> Tools:
    if not functions and not mcp and not service.config.tools:
        return NO_TOOLS
    source = service.engine.tools if guests is None else service.engine.tools_for(guests.name)
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
    tools = Tools(caller.allowed(sorted(ours)), tuple(clients.values()), tuple(clients), ask, guests)
    return tools if guests is None else _with_agreed(service, mcp, tools)


def _with_agreed(service: Service, mcp: Sequence[McpTool], tools: Tools) -> Tools:
    own = {spec.source for spec in service.engine.tools.specs()}
    by_server, asked = ToolsByServer(tools.ours), Globs(tools.ask)
    agreed = [by_server.tools(entry.label, entry.agreed) for entry in mcp if entry.label not in own]
    return msgspec.structs.replace(tools, agreed=frozenset(n for names in agreed for n in names if n not in asked))


def _runnable(service: Service, caller: Caller, tools: Tools) -> tuple[str, ...]:
    """Those that can come to run, where a client has agreed to some of them. That gives the turn somebody to ask; where
    there is nobody else, whatever needs another's consent is not shown."""
    if service.ask(caller) is not None:
        return tools.ours
    offered = service.engine.offered(tools.ours, interactive=False, guests=tools.guest_name, owner=caller.owner)
    free = {spec.name for spec in offered}
    return tuple(name for name in tools.ours if name in free or name in tools.agreed)


def check_globs(field: str, globs: Sequence[str]) -> None:
    check_count(field, len(globs), _MAX_GLOBS)
    if any(len(glob) > _MAX_GLOB_CHARS for glob in globs):
        raise bad_field(field, f"a name has {_MAX_GLOB_CHARS} characters at most")


def check_count(field: str, count: int, most: int) -> None:
    if count > most:
        raise bad_field(field, f"{count} are too many, {most} at most")


def tool_choice(field: str, given: Any) -> ToolChoice:
    """A word, or the name of the one function to call in the shape of any of the APIs."""
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
    """Chat completions nest what responses have at hand."""
    tools = given.get("tools") if isinstance(given, dict) else None
    if not isinstance(tools, list):
        raise bad_field(f"{field}.tools", "must list the tools that may be called")
    choice = tool_choice(f"{field}.mode", given.get("mode", "auto"))
    among = tuple(_allowed(field, tool) for tool in tools)
    check_globs(f"{field}.tools", among)
    if among:
        return msgspec.structs.replace(choice, among=among)
    if choice.mode == "required":
        raise bad_field(f"{field}.tools", "must list a tool where a call is required")
    return ToolChoice("none")


def _allowed(field: str, tool: Any) -> str:
    if isinstance(tool, dict):
        function = tool.get("function")
        name = function.get("name") if isinstance(function, dict) else tool.get("name")
        label = tool.get("server_label")
        if isinstance(label, str) and label:
            return f"{label}__{name}" if isinstance(name, str) and name else f"{label}__*"
        if isinstance(kind := tool.get("type"), str):
            return name if isinstance(name, str) and name else kind  # of a kind that is passed over: matches nothing
    raise bad_field(f"{field}.tools", "each must have a type, and a name or the label of a server")


def limits_of(service: Service, extensions: Extensions) -> Limits:
    """A request may ask for less than the configuration gives, never for more."""
    limits = service.limits
    steps, calls = extensions.max_steps, extensions.max_tool_calls
    if steps is None and calls is None:
        return limits
    if steps is not None and steps < 1:
        raise bad_field("max_steps", "must be at least 1")
    if calls is not None and calls < 0:
        raise bad_field("max_tool_calls", "must not be negative")
    return msgspec.structs.replace(
        limits,
        max_steps=limits.max_steps if steps is None else min(steps, limits.max_steps),
        max_tool_calls=limits.max_tool_calls if calls is None else min(calls, limits.max_tool_calls),
    )


def planning_from(service: Service, caller: Caller, extensions: Extensions) -> Planning | None:
    configured = service.runtime.config.planner
    try:
        planning = planning_of(configured, extensions.planner)
    except UsageError as exc:
        raise Problem(400, exc.message, param="planner", code="invalid_value") from exc
    if planning is not None and planning.model != configured.model:
        service.check_model(caller, planning.model)
    elif planning is not None and planning.model and not caller.may_use_model(planning.model):
        raise uncovered_model(planning.model)
    return planning


def session_of(service: Service, exchange: Exchange, caller: Caller, extensions: Extensions) -> str:
    """Where the session is kept that the request names, "" for none."""
    named = extensions.session_id or ""
    if not named and service.config.client_sessions:
        named = exchange.headers.first(_SESSION_HEADERS)
    if not named:
        return ""
    if len(named) > _MAX_SESSION_CHARS or not named.isprintable():
        raise bad_field("session_id", f"must be printable and at most {_MAX_SESSION_CHARS} characters")
    if service.engine.redacted(named) != named:  # it would stand in every event and could not be taken out
        raise bad_field("session_id", "looks like a key; name the session otherwise")
    return caller.session(named)


def retry_key_of(caller: Caller, who: str, body: bytes) -> str:
    """Names this very request of this very client, which has said who it is: opencode, codex and others ask again on
    their own when an answer breaks off."""
    return hashlib.sha256(b"\0".join((caller.key.encode(), who.encode("latin-1", "replace"), body))).hexdigest()


def traceparent_of(exchange: Exchange) -> str:
    """The client's own trace, "" if it names none that makes sense."""
    given = exchange.headers.get("traceparent") or ""
    return given if _TRACEPARENT.fullmatch(given) else ""


def begin_request(
    service: Service,
    exchange: Exchange,
    caller: Caller,
    extensions: Extensions,
    messages: Sequence[Message],
    tools: Tools,
    body: bytes,
    *,
    model: str,
    tool_choice: ToolChoice,
    parallel_calls: bool | None,
    sampling: Sampling,
    stream: bool,
) -> TurnRequest:
    """What is the same for every API whose clients send the conversation: whose history it is, tools and limits. What
    each has its own form of is given by name."""
    session = session_of(service, exchange, caller, extensions)
    from_store = bool(extensions.use_server_history)
    if from_store and not session:
        raise bad_field("use_server_history", "needs a session_id")
    if not from_store:
        check_said("messages", messages)
    context, new = ((), tuple(messages)) if from_store else split_new(messages)
    who = exchange.headers.first(RETRY_HEADERS)
    return TurnRequest(
        input=new,
        session=session,
        kept=bool(session),
        may_be_new=True,
        context=None if from_store else context,
        tools=_runnable(service, caller, tools) if tools.agreed else tools.ours,
        guests="" if tools.guests is None else tools.guests.name,
        client_tools=tools.clients,
        tool_mode=extensions.tool_mode,
        ask_about=tools.ask,
        may_fall_back=caller.may_use_model(service.fallback),
        retry_key=retry_key_of(caller, who, body) if who else "",
        planner=None if extensions.planner is None else planning_from(service, caller, extensions),
        limits=limits_of(service, extensions),
        traceparent=traceparent_of(exchange) if b"traceparent" in exchange.headers.raw else "",
        model=model,
        tool_choice=tool_choice,
        parallel_calls=parallel_calls,
        sampling=sampling,
        stream=stream,
        owner=caller.owner,
    )


def check_said(field: str, messages: Sequence[Message]) -> None:
    """Results without their calls are passed over: some clients forget what is old from the middle of it."""
    first = messages[0] if messages else None
    if first is None or (type(first) is ToolMessage and all(type(each) is ToolMessage for each in messages)):
        raise bad_field(field, "holds nothing to answer: results come with the calls they belong to")


def split_new(messages: Sequence[Message]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """The conversation so far, and what is new in it: all that follows the assistant's last word."""
    for place in range(len(messages), 0, -1):
        if type(messages[place - 1]) is AssistantMessage:
            return tuple(messages[:place]), tuple(messages[place:])
    for place, message in enumerate(messages):
        if type(message) is not SystemMessage:
            return tuple(messages[:place]), tuple(messages[place:])
    return (), tuple(messages)


def check_servers(service: Service, mcp: Sequence[McpTool], guests: BroughtTools | None = None) -> None:
    """For APIs that have no other way to say that a server is not there."""
    source = service.engine.tools if guests is None else service.engine.tools_for(guests.name)
    known = [spec.name for spec in source.specs()] if mcp else ()
    for entry in mcp:
        if any(name.startswith(f"{entry.label}__") for name in known):
            continue
        if entry.url and service.config.mcp_urls:
            raise bad_field(f"{entry.field}.server_url", f"{entry.label[:80]} has no tools")
        if entry.url:
            raise Problem(
                403,
                f"{entry.field}.server_url: this server connects only to MCP servers it is configured with",
                param=f"{entry.field}.server_url",
                code="dynamic_mcp_off",
            )
        raise bad_field(f"{entry.field}.server_label", f"there is no MCP server {entry.label[:80]} with tools here")


def _client_tool(function: Function) -> ToolSpec:
    if not function.name or len(function.name) > MAX_NAME_CHARS:
        raise bad_field(function.field, f"a function needs a name of 1 to {MAX_NAME_CHARS} characters")
    schema = function.schema or {"type": "object", "properties": {}}
    return ToolSpec(function.name, function.description, schema, Effect.READ, CLIENT, strict=function.strict)
