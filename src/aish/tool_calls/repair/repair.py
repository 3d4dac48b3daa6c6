"""Turns the text of a call's arguments into arguments that fit the tool's schema, or says why that is not possible.

Strict JSON that fits is taken as it is. Otherwise the text is read leniently, wrappers are removed and values are
fitted. Every change is recorded. A text that is cut off, or that could mean two things, is refused and never completed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from aish.tool_calls.repair.coerce import SchemaFitter, shorten
from aish.tool_calls.repair.lenient_json import CutOff, DuplicateKey, Reader, TooDeep, UnreadableJson, read_strictly
from aish.tool_calls.schema.validator import schema_errors
from aish.types.tools import Arguments, JsonSchema, Repair, RepairKind, ToolSpec

_MAX_ENCODINGS = 3
_WRAPPERS = frozenset({"arguments", "parameters", "args", "params", "input", "kwargs"})
_BESIDE_WRAPPERS = frozenset({"name", "tool", "tool_name", "function", "id", "type"})
_STRAY_CLOSERS = re.compile(r"[}\])\s`;]*")
_STRUCTURE = re.compile(r"[{}\[\]\"]|^\s*[,:;]")
_MORE_ARGUMENTS = re.compile(r"\w\s*[=:]\s*\w|(?<!\S)--?\w")  # arguments after the object, which would be lost
_ESCAPED = re.compile(r"\s*[{\[]\s*[{\[]*\s*\\\"")
_FENCE = re.compile(r"```\w*|~~~\w*")


class BadArguments(Exception):
    """The text is not one JSON object; the message says what it is."""


class RepairedArguments(msgspec.Struct, frozen=True):
    """`errors` are the remaining violations of the schema."""

    arguments: Arguments
    repairs: tuple[Repair, ...] = ()
    errors: tuple[str, ...] = ()


def repair_arguments(text: str, spec: ToolSpec, *, is_complete: bool = True, repair: bool = True) -> RepairedArguments:
    """`is_complete`: the model ended the text itself, so closing brackets may be missing."""
    try:
        value, repairs = parse_arguments(text, is_complete=is_complete, repair=repair)
    except BadArguments as exc:
        is_deep = isinstance(exc.__cause__, TooDeep)  # its quotes are not the problem
        reading = _only_reading(text, spec) if repair and not is_deep else None
        if reading is None:
            raise
        return RepairedArguments(reading, (Repair(RepairKind.QUOTES, "", shorten(text)),))
    return fit_to_schema(value, spec, repairs, repair=repair)


def _only_reading(text: str, spec: ToolSpec) -> Arguments | None:
    """For a text with unescaped quotes: the reading that fits the schema, if there is exactly one."""
    from aish.tool_calls.repair.unescaped_quotes import find_readings  # few texts have such quotes

    start = text.find("{")
    if start < 0 or _STRUCTURE.search(text[:start]):
        return None
    names = _WRAPPERS | {spec.name}
    values = [value for value in find_readings(text[start:]) if isinstance(value, dict)]
    fitting = [_unwrap(value, spec.schema, names, ("unread",)) for value in values]
    fitting = [value for value in fitting if _knows_all(value, spec.schema) and not schema_errors(spec.schema, value)]
    if len(fitting) != 1 or _contains_argument(fitting[0], spec.schema):
        return None
    return fitting[0]


def _contains_argument(value: Any, schema: JsonSchema) -> bool:
    """Whether a text in it contains what looks like another argument, which means that a quote is missing between
    the two."""
    names = "|".join(re.escape(name) for name in _properties(schema))
    looks_like_one = re.compile(rf"[\"'](?:{names})[\"']\s*:")
    return bool(names) and any(looks_like_one.search(text) for text in _texts(value))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)


def _properties(schema: JsonSchema) -> dict[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def fit_to_schema(
    value: Arguments, spec: ToolSpec, repairs: Sequence[Repair] = (), *, repair: bool = True
) -> RepairedArguments:
    """Makes the arguments fit the schema, if they do not already."""
    schema = spec.schema
    lost_bracket = any(done.kind is RepairKind.BRACKET for done in repairs)
    if lost_bracket and not _has_sure_places(value, schema):
        raise BadArguments("a closing bracket is missing and it is not sure where")
    errors = schema_errors(schema, value)
    if not repair:
        return RepairedArguments(value, tuple(repairs), tuple(errors))
    if not errors and _knows_all(value, schema):
        return RepairedArguments(value, tuple(repairs))
    unwrapped = _unwrap(value, schema, _WRAPPERS | {spec.name}, errors)
    fitter = SchemaFitter(schema, respelt=frozenset(done.after for done in repairs if done.kind is RepairKind.LITERAL))
    result = fitter.fit(unwrapped)
    done = [*repairs, *_unwrapping(value, unwrapped), *fitter.repairs]
    return RepairedArguments(result, tuple(done), tuple(schema_errors(schema, result) or fitter.unsure_names(result)))


def parse_arguments(text: str, *, is_complete: bool = False, repair: bool = True) -> tuple[Arguments, list[Repair]]:
    """An empty text or null means no arguments: many models write that for a tool without parameters."""
    if not text.strip():
        return {}, []
    repairs: list[Repair] = []
    value = _decode(text, repairs, is_complete=is_complete, repair=repair)
    for _ in range(_MAX_ENCODINGS):
        if not (repair and isinstance(value, str)):
            break
        repairs.append(Repair(RepairKind.ENCODING, "", shorten(value)))
        if not value.strip():
            return {}, repairs
        value = _decode(value, repairs, is_complete=False, repair=repair)
    if repair and isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
        repairs.append(Repair(RepairKind.WRAPPER, "", shorten(value)))
        value = value[0]
    if value is None:
        return {}, repairs
    if not isinstance(value, dict):
        raise BadArguments(f"the arguments must be one JSON object, not {_kind(value)}")
    return value, repairs


def _decode(text: str, repairs: list[Repair], *, is_complete: bool, repair: bool) -> Any:
    try:
        return read_strictly(text)
    except UnreadableJson as exc:
        if "surrogates not allowed" in str(exc):
            raise BadArguments("the arguments hold characters that are not valid Unicode") from exc
        if isinstance(exc, TooDeep):
            raise BadArguments(f"the arguments are {exc}") from exc
        if not repair or isinstance(exc, DuplicateKey):
            raise BadArguments(f"the arguments are not valid JSON: {exc}") from exc
        strict = exc
    try:
        return _read(_without_escapes(text, repairs), repairs, is_complete=is_complete)
    except CutOff as exc:
        raise BadArguments(f"the arguments are not complete: {exc}") from strict
    except UnreadableJson as exc:
        raise BadArguments(f"the arguments are not valid JSON: {exc}") from strict


def _without_escapes(text: str, repairs: list[Repair]) -> str:
    """`{\\"a\\": 1}` is the content of a JSON string, without the quotes around it."""
    if not _ESCAPED.match(text):
        return text
    try:
        decoded = msgspec.json.decode(f'"{text}"', type=str)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return text
    repairs.append(Repair(RepairKind.ENCODING, "", shorten(text)))
    return decoded


def _read(text: str, repairs: list[Repair], *, is_complete: bool) -> Any:
    start = _beginning(text)
    reader = Reader(text, start, is_complete=is_complete)
    value = reader.value()
    rest = text[reader.pos :]
    stray = _STRAY_CLOSERS.match(rest)
    after = rest[stray.end() if stray else 0 :]
    if _STRUCTURE.search(_FENCE.sub("", after)) or _MORE_ARGUMENTS.search(after):
        raise UnreadableJson("more than one value, or something after it that belongs to it")
    if start or rest.strip():
        reader.noted[RepairKind.SURROUNDINGS] = None
    repairs += reader.repairs(shorten(text))
    return value


def _beginning(text: str) -> int:
    """Where the value begins: at its first bracket, if only prose comes before it."""
    brace = text.find("{")
    return brace if brace > 0 and not _STRUCTURE.search(text[:brace]) else 0


def _has_sure_places(value: Any, schema: Any, outer: frozenset[str] = frozenset()) -> bool:
    """Where a bracket was missing, a member may have moved into its neighbour. That is excluded if the schema has
    every member where it is, and no outer object could have it."""
    if isinstance(value, list):
        items = schema.get("items") if isinstance(schema, dict) else None
        return not any(isinstance(item, list) for item in value) and all(
            _has_sure_places(item, items, outer) for item in value
        )
    if not isinstance(value, dict):
        return True
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return not value and not outer
    names = frozenset(properties)
    placed = all(key in names and key not in outer for key in value)
    return placed and all(_has_sure_places(member, properties[key], outer | names) for key, member in value.items())


def _knows_all(value: Arguments, schema: JsonSchema) -> bool:
    """Whether all arguments are declared, so that no name needs a repair."""
    properties = schema.get("properties")
    return not isinstance(properties, dict) or all(key in properties for key in value)


def _unwrap(value: Arguments, schema: JsonSchema, wrappers: frozenset[str], errors: Sequence[str]) -> Arguments:
    """The content of `{"arguments": {…}}` or `{"tool": {…}}`, if the schema has no such argument."""
    known = _properties(schema)
    for _ in range(_MAX_ENCODINGS):
        inner = [key for key in value if key in wrappers]
        others = value.keys() - wrappers
        if len(inner) != 1 or not others <= _BESIDE_WRAPPERS or value.keys() & known.keys():
            break
        content = value[inner[0]]
        if not isinstance(content, dict) or not (errors or known):
            break
        value = content
    return value


def _unwrapping(before: Arguments, after: Arguments) -> list[Repair]:
    return [] if before is after else [Repair(RepairKind.WRAPPER, "", shorten(before), shorten(after))]


def _kind(value: object) -> str:
    names = {list: "an array", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    return names.get(type(value), "something else")
