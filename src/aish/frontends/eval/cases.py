"""Reads cases from files with one JSON object a line. An error names the file, the line and the reason.

The tools of a case are written out, or are names in a `tools.json` beside the file. `offer` names real tools of aish
instead; such a case is run to its end in a scratch folder, and the final state is checked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import msgspec

from aish.errors import UsageError
from aish.frontends.eval.matching import ExpectedCall, sample
from aish.tool_calls.schema.validator import schema_errors
from aish.types.messages import AssistantMessage, Message, SystemMessage, TextPart, ToolCall, ToolMessage, user
from aish.types.tools import Effect, JsonSchema, ToolSpec

SHIPPED = ("simple", "multiple", "parallel", "irrelevance", "multi_turn", "chinese", "german")
LIBRARY = "tools.json"
# A suite is kept in memory; the largest of the Berkeley files has 4 MiB.
MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_CASES = 20_000


class ToolDefinition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    description: str = ""
    parameters: JsonSchema = msgspec.field(default_factory=lambda: {"type": "object", "properties": {}})

    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, self.description, self.parameters, Effect.READ, "case")


class CaseMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message in the format of chat files."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    name: str = ""

    def message(self) -> Message:
        match self.role:
            case "system":
                return SystemMessage(self.content)
            case "user":
                return user(self.content)
            case "assistant":
                return AssistantMessage(self.content, self.tool_calls)
            case "tool":
                return ToolMessage(self.tool_call_id, self.name, (TextPart(self.content),))


class Final(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The expected final state. null for a file or record that must not exist. The tools in `used` must be called."""

    files: dict[str, Any] = {}
    records: dict[str, dict[str, Any]] = {}
    answer: Any = None
    used: tuple[str, ...] = ()


class Expectation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Exactly one of the three fields is set."""

    calls: tuple[ExpectedCall, ...] = ()
    no_call: bool = False
    final: Final | None = None


class World(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The initial state: files of the scratch folder, and tables of records."""

    files: dict[str, str] = {}
    records: dict[str, dict[str, Any]] = {}


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    suite: str
    messages: tuple[CaseMessage, ...]
    expect: Expectation
    tools: tuple[ToolDefinition | str, ...] = ()
    offer: tuple[str, ...] = ()
    then: tuple[str, ...] = ()
    world: World = World()
    tags: tuple[str, ...] = ()
    lang: str = "en"


class Case(msgspec.Struct, frozen=True):
    """A case to ask. `digest` changes with anything that could change the result."""

    id: str
    suite: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    expect: Expectation
    digest: str
    offer: tuple[str, ...] = ()
    then: tuple[str, ...] = ()
    world: World = World()
    tags: tuple[str, ...] = ()
    lang: str = "en"


_decoder = msgspec.json.Decoder(_Line)


def load_suites(names: Sequence[str]) -> list[Case]:
    """Loads shipped suites by name and files by path; by default all shipped suites. Raises UsageError."""
    cases = [case for name in names or SHIPPED for case in load_file(_find_suite(name))]
    seen: set[str] = set()
    for case in cases:
        if case.id in seen:
            raise UsageError(f"two cases have the id {case.id}", hint="name each suite once, and each case differently")
        seen.add(case.id)
    return cases


def _find_suite(name: str) -> Path:
    if name in SHIPPED:
        return Path(str(files("aish.frontends.eval") / "suites" / f"{name}.jsonl"))
    path = Path(name)
    if not path.is_file():
        raise UsageError(f"there is no suite {name}", hint=f"one of {', '.join(SHIPPED)}, or the path of a .jsonl file")
    return path


def load_file(path: Path) -> list[Case]:
    cases = list(_read_cases(path))
    if not cases:
        raise UsageError(f"{path} holds no cases")
    return cases


def _read_cases(path: Path) -> Iterator[Case]:
    library = _load_library(path.parent / LIBRARY)
    for number, line in enumerate(_read(path).splitlines(), 1):
        if not line.strip():
            continue
        if number > MAX_CASES:
            raise UsageError(f"{path}:{number}: more than {MAX_CASES} cases in one file", hint="split it")
        try:
            yield _make_case(_decoder.decode(line), library)
        except (msgspec.DecodeError, ValueError) as exc:
            raise UsageError(f"{path}:{number}: {exc}", hint="docs/evals.md says how a case is written") from exc


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise UsageError(f"{path} is larger than {MAX_FILE_BYTES // 1024 // 1024} MiB", hint="split it")
        return path.read_bytes()
    except OSError as exc:
        raise UsageError(f"cannot read {path}: {exc.strerror}") from exc


@cache
def _load_library(path: Path) -> dict[str, ToolDefinition]:
    if not path.is_file():
        return {}
    try:
        tools = msgspec.json.decode(_read(path), type=tuple[ToolDefinition, ...])
    except msgspec.DecodeError as exc:
        raise UsageError(f"{path}: {exc}") from exc
    return {tool.name: tool for tool in tools}


def _make_case(line: _Line, library: dict[str, ToolDefinition]) -> Case:
    """Raises ValueError that says what is wrong."""
    _check_line(line)
    tools = tuple(_find_tool(tool, library).spec() for tool in line.tools)
    _check_calls(line.expect.calls, tools)
    parts = [line.messages, [tool.schema for tool in tools], line.expect, line.offer, line.then, line.world]
    return Case(
        id=line.id,
        suite=line.suite,
        messages=tuple(message.message() for message in line.messages),
        tools=tools,
        expect=line.expect,
        digest=hashlib.sha256(msgspec.json.encode(parts, order="sorted")).hexdigest()[:16],
        offer=line.offer,
        then=line.then,
        world=line.world,
        tags=line.tags,
        lang=line.lang,
    )


def _find_tool(tool: ToolDefinition | str, library: dict[str, ToolDefinition]) -> ToolDefinition:
    if isinstance(tool, ToolDefinition):
        return tool
    if tool not in library:
        raise ValueError(f"there is no tool {tool} in {LIBRARY}")
    return library[tool]


def _check_line(line: _Line) -> None:
    expect = line.expect
    if not line.id or not line.suite:
        raise ValueError("a case needs an id and a suite")
    if not line.messages or line.messages[-1].role != "user":
        raise ValueError("the last message must be the user's")
    if [bool(expect.calls), expect.no_call, expect.final is not None].count(True) != 1:
        raise ValueError("expect exactly one of calls, no_call and final")
    if bool(line.offer) != (expect.final is not None):
        raise ValueError("`offer` and `final` go together: real tools are judged by what they leave")
    if not line.tools and not line.offer:
        raise ValueError("a case needs tools, or real ones to offer")
    if line.then and expect.final is None:
        raise ValueError("`then` needs a final state: other cases end at the first calls")


def _check_calls(calls: Sequence[ExpectedCall], tools: Sequence[ToolSpec]) -> None:
    by_name = {tool.name: tool for tool in tools}
    for call in calls:
        if call.name not in by_name:
            raise ValueError(f"expects a call of {call.name}, which is not among its tools")
        if unknown := [key for key in call.optional if key not in call.arguments]:
            raise ValueError(f"{call.name}: {unknown[0]} is optional, but nothing says what it may be")
        for arguments in (call.arguments, *call.either):
            if empty := [key for key, allowed in arguments.items() if not allowed]:
                raise ValueError(f"{call.name}: no value is allowed for {empty[0]}")
            _check_values(call, arguments, by_name[call.name].schema)


def _check_values(call: ExpectedCall, arguments: dict[str, list[Any]], schema: JsonSchema) -> None:
    """Each allowed value must fit the schema: otherwise no right answer is possible."""
    first = {key: sample(allowed[0]) for key, allowed in arguments.items()}
    for key, allowed in arguments.items():
        for value in allowed:
            if errors := schema_errors(schema, {**first, key: sample(value)}):
                raise ValueError(f"{call.name}: an expected call does not fit the schema: {errors[0]}")
    required = {key: value for key, value in first.items() if key not in call.optional}
    if errors := schema_errors(schema, required):
        raise ValueError(f"{call.name}: without its optional arguments it does not fit the schema: {errors[0]}")
