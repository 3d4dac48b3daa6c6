"""Tools, what they return, how a call ended, and the MCP servers that a request brings by URL.

A `ToolCall` is part of a message, a `ToolResult` is an event. Reprs never show credentials.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from aish.types.messages import Part

JsonSchema = dict[str, Any]
Arguments = dict[str, Any]
JsonObject = dict[str, Any]


class Effect(StrEnum):
    """The most that a tool can do. The gate decides by it."""

    READ = "read"
    WRITE = "write"
    EXEC = "exec"
    NETWORK = "network"


class EffectByArgument(msgspec.Struct, frozen=True):
    """What calls with certain values of an argument can do beyond the effect of their tool."""

    argument: str
    effects: dict[str, Effect]


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as the engine knows it. `name` is the wire name, `source__tool`.

    `paths` are the arguments that name files, at any depth; none means that this is unknown. `beyond`: it may touch
    other files than these. `output_schema` describes its structured results. `hints` are what a foreign server says of
    the tool; None for a tool that comes from no server. `undoable`: it changes only files of the workspace, and `:undo`
    takes that back; no server can say so of its tools. `runs_turns`: its calls run turns, whose own limits bound them,
    and the gate decides each effect of such a turn. `by_argument` says what these turns can do.
    """

    name: str
    description: str
    schema: JsonSchema
    effect: Effect
    source: str
    timeout_s: float = 60.0
    concurrency: int = 0  # calls at once; 0 means no limit
    strict: bool | None = None  # the client's own value, passed on to the backend
    paths: tuple[str, ...] = ()
    beyond: bool = False
    output_schema: JsonSchema | None = None
    hints: JsonObject | None = None
    undoable: bool = False
    runs_turns: bool = False
    by_argument: EffectByArgument | None = None

    def with_effect_of(self, arguments: Arguments) -> ToolSpec:
        """The tool as this call uses it: with the effect that the call can have."""
        if self.by_argument is None:
            return self
        value = arguments.get(self.by_argument.argument)
        effect = self.by_argument.effects.get(value) if isinstance(value, str) else None
        return self if effect is None else msgspec.structs.replace(self, effect=effect)

    def for_gate(self) -> ToolSpec:
        """The tool as the gate sees it: to run a turn is no effect."""
        return msgspec.structs.replace(self, effect=Effect.READ) if self.runs_turns else self


class ToolOutput(msgspec.Struct, frozen=True):
    """The output of a tool. `is_error` is the tool's own judgement and advisory: the text reaches the model either way.
    `structured` is the output for programs; models get the parts. `child_turn` is the turn that the call has run."""

    parts: tuple[Part, ...]
    is_error: bool = False
    structured: JsonObject | None = None
    child_turn: str = ""


class StructuredResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """A structured result for programs: complete, without secrets, valid for its schema. Or the reason why there is
    none."""

    value: JsonObject | None = None
    lacking: str = ""


class ResultStatus(StrEnum):
    """How a call ended. Everything but OK and TOOL_ERROR is written by aish, with the prefix `[aish]`."""

    OK = "ok"
    TOOL_ERROR = "tool_error"
    UNKNOWN_TOOL = "unknown_tool"
    NOT_ALLOWED = "not_allowed"
    BAD_ARGUMENTS = "bad_arguments"
    SCHEMA = "schema"
    REFUSED = "refused"
    TIMEOUT = "timeout"
    TRANSPORT = "transport"
    RPC_ERROR = "rpc_error"
    SERVER_GONE = "server_gone"
    CANCELLED = "cancelled"
    LIMIT = "limit"
    REPEATED = "repeated"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


class RepairKind(StrEnum):
    """What was wrong with a call as the model wrote it."""

    # how its text was written
    QUOTES = "quotes"
    LITERAL = "literal"  # True, None, a tuple
    COMMA = "comma"
    NEWLINE = "newline"
    COMMENT = "comment"
    BARE_WORD = "bare_word"
    SEPARATOR = "separator"
    BRACKET = "bracket"
    SURROUNDINGS = "surroundings"  # prose, a fence, invisible characters
    ENCODING = "encoding"  # JSON within a JSON string
    WRAPPER = "wrapper"
    # what it said
    TYPE = "type"
    LIST = "list"
    NULL = "null"
    ENUM = "enum"
    ARGUMENT_NAME = "argument_name"
    TOOL_NAME = "tool_name"
    # Made by earlier versions only. Old records must stay readable.
    UNASKED = "unasked"
    NAMED = "named"
    PERCENT = "percent"
    DATE = "date"
    SPELLING = "spelling"
    CLOCK = "clock"
    DIGITS = "digits"
    UNIT = "unit"
    COPY = "copy"


class Repair(msgspec.Struct, frozen=True, omit_defaults=True):
    """One correction of a call: where, and from what to what, both shortened."""

    kind: RepairKind
    path: str = ""
    before: str = ""
    after: str = ""


MAX_NAME_CHARS = 64
_LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


# The toolset that searches the turns of a session, and its tool. It is offered when turns have been compacted.
HISTORY_SOURCE = "history"
HISTORY_SEARCH = "history__search"
# The toolset that runs agents. It is offered to models that are not weak.
AGENTS_SOURCE = "agents"
# The source of the tools by which a model finds and calls others. They are no toolset, so no toolset may have the name.
SEARCH_SOURCE = "tools"


def wire_name(name: str) -> str:
    """A name that every provider accepts, `^[a-zA-Z0-9_-]{1,64}$`. The first dot separates source and tool; others are
    replaced."""
    dotted = name if "__" in name else name.replace(".", "__", 1)
    legal = "".join(char if char in _LEGAL else "_" for char in dotted[:MAX_NAME_CHARS])
    return legal or "_"


class DynamicMcpServer(msgspec.Struct, frozen=True):
    """`label` is the alias of its tools. `owner` is the caller; no other caller is served through the same
    connection."""

    label: str
    url: str
    owner: str = ""
    token: str = ""  # sent as a bearer token
    headers: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return f"DynamicMcpServer({self.label!r}, url=…)"


class DynamicMcpView(msgspec.Struct, frozen=True):
    """A connected server as it is shown. Only the origin of its URL, since the rest may be secret."""

    label: str
    owner: str
    origin: str
    state: str
    tools: tuple[ToolSpec, ...]
