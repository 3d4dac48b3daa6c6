"""Recognises calls in JSON values: the shapes in which models and APIs write "call this tool with these arguments".

The name is under one of a few keys, the arguments under one of a few others. OpenAI nests both in `function`; some
models put calls into a list. With any other key beside them, the value is data and no call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from aish.types.tools import Repair

MAX_CALLS = 64
NAME_KEYS = ("name", "tool", "tool_name", "function", "function_name", "recipient_name", "action")
ARGUMENT_KEYS = ("arguments", "parameters", "args", "params", "input", "tool_input", "action_input", "kwargs")
LIST_KEYS = ("tool_calls", "calls", "function_calls")
INNER_KEYS = ("tool_call", "function_call", "function", "call", "tool_use")
BESIDE_KEYS = ("id", "type", "index", "call_id", "tool_call_id")
CALL_KEYS = frozenset({*NAME_KEYS, *ARGUMENT_KEYS, *LIST_KEYS, *INNER_KEYS, *BESIDE_KEYS})
CALL_TYPES = frozenset({"function", "tool_call", "tool_use", "function_call", "tool"})

_TYPES = frozenset({
    "string", "str", "text", "integer", "int", "number", "float", "boolean", "bool", "array", "list", "object", "dict",
    "any", "null",
})  # fmt: skip
_SCHEMA_KEYS = frozenset({
    "type", "properties", "required", "items", "description", "enum", "default", "title", "format", "minimum",
    "maximum", "examples", "example", "additionalProperties", "optional",
})  # fmt: skip


class WrittenCall(msgspec.Struct, frozen=True):
    """A call as it was written. `arguments` is an object, or text that is still to be read or could not be read."""

    name: str
    arguments: dict[str, Any] | str
    repairs: tuple[Repair, ...] = ()


def find_calls(value: Any, is_tool_name: Callable[[str], bool], *, tagged: bool) -> list[WrittenCall] | None:
    """Returns the calls in `value`, or None if it is something else.

    `tagged`: it is at a place where only a call can be, so the arguments may be missing and the name may be unknown.
    """
    try:
        calls = list(_calls(value, is_tool_name, tagged=tagged, depth=0))
    except _NoCall:
        return None
    return calls or None


class _NoCall(Exception):
    pass


def _calls(value: Any, is_tool_name: Callable[[str], bool], *, tagged: bool, depth: int) -> Iterator[WrittenCall]:
    if depth > 4:
        raise _NoCall
    if isinstance(value, list):
        if len(value) > MAX_CALLS:
            raise _NoCall
        for item in value:
            yield from _calls(item, is_tool_name, tagged=tagged, depth=depth + 1)
    elif isinstance(value, dict):
        yield from _calls_of_object(value, is_tool_name, tagged=tagged, depth=depth)
    else:
        raise _NoCall


def _calls_of_object(
    value: dict[str, Any], is_tool_name: Callable[[str], bool], *, tagged: bool, depth: int
) -> Iterator[WrittenCall]:
    inner = [key for key in (*LIST_KEYS, *INNER_KEYS) if isinstance(value.get(key), dict | list)]
    if len(inner) == 1 and value.keys() <= {inner[0], *BESIDE_KEYS}:
        yield from _calls(value[inner[0]], is_tool_name, tagged=tagged, depth=depth + 1)
        return
    name = next((value[key] for key in NAME_KEYS if isinstance(value.get(key), str)), None)
    given = [key for key in ARGUMENT_KEYS if key in value]
    if name is None or not (tagged or is_tool_name(name)) or len(given) > 1:
        raise _NoCall
    if not given and not tagged:
        raise _NoCall
    yield WrittenCall(name, _arguments(value, given, name, tagged=tagged))


def _arguments(value: dict[str, Any], given: list[str], name: str, *, tagged: bool) -> dict[str, Any] | str:
    beside = [key for key in value if key not in BESIDE_KEYS and not (key in NAME_KEYS and value[key] == name)]
    if not given:
        return {key: value[key] for key in beside}  # beside the name instead of in an object of their own
    if beside != given and not tagged:
        raise _NoCall
    arguments = value[given[0]]
    if not tagged and _is_description(arguments):
        raise _NoCall
    if beside != given:
        return _with_excess(arguments, {key: value[key] for key in beside if key not in given})
    if isinstance(arguments, dict | str):
        return arguments
    if arguments is None:
        return {}
    if tagged:
        return msgspec.json.encode(arguments).decode()
    raise _NoCall


def _with_excess(arguments: Any, excess: dict[str, Any]) -> str:
    """Keys beside the arguments may belong to them. Appended to the arguments they make invalid JSON, so the call
    does not run and the model gets an error."""
    return f"{msgspec.json.encode(arguments).decode()}, {msgspec.json.encode(excess).decode()[1:]}"


def _is_description(arguments: Any) -> bool:
    """Whether it gives the types of arguments instead of their values."""
    if not isinstance(arguments, dict) or not arguments:
        return False
    return _is_schema(arguments) or all(_is_type(value) or _is_schema(value) for value in arguments.values())


def _is_type(value: Any) -> bool:
    return isinstance(value, str) and value.lower() in _TYPES


def _is_schema(value: Any) -> bool:
    return isinstance(value, dict) and _is_type(value.get("type")) and value.keys() <= _SCHEMA_KEYS
