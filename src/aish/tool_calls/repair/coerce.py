"""Fits values to a schema where only one value can be meant: "3" for 3, a single value for a list, `Metric` for
`metric`.

A value that fits is not changed, and one that cannot be fitted is left for the validator to report. Each change is
recorded. Only the form of a value changes; none is invented.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from aish.tool_calls.repair.fuzzy_match import find_similar, list_similar
from aish.tool_calls.repair.lenient_json import Reader, UnreadableJson
from aish.tool_calls.schema.validator import is_valid
from aish.types.tools import JsonSchema, Repair, RepairKind

MAX_DEPTH = 32
_SHOWN_CHARS = 60
_INTEGER = re.compile(r"[+-]?\d{1,300}(?:\.0+)?")
_NUMBER = re.compile(r"[+-]?\d{1,18}(?:\.\d{1,18})?")
# Thousands or decimals: it could be either.
_DOUBTFUL_NUMBER = re.compile(r"[+-]?[1-9]\d{0,2}\.\d{3}")
# A separator beside a digit may be part of the value; between letters it is only spelling.
_BETWEEN_LETTERS = re.compile(r"(?<=[^\W\d_])[\s_-]+(?=[^\W\d_])")
_BEFORE_DIGIT = re.compile(r"(?<=[^\W\d_])[\s_-](?=\d)")
_TRUTHS = {"true": True, "false": False}
_TYPES: dict[type, tuple[str, ...]] = {
    bool: ("boolean",), int: ("integer", "number"), float: ("number",), str: ("string",),
    list: ("array",), dict: ("object",), type(None): ("null",),
}  # fmt: skip
_NONE = object()


class SchemaFitter:
    """Fits the arguments of one call; `repairs` lists the changes. `respelt`: numbers that were not written in
    JSON's notation, so their digits differ from the text."""

    def __init__(self, root: JsonSchema, *, respelt: frozenset[str] = frozenset()) -> None:
        self._root = root
        self._respelt = respelt
        self.repairs: list[Repair] = []

    def fit(self, value: Any, schema: Any = None, path: str = "", depth: int = 0) -> Any:
        schema = self._resolve(self._root if schema is None else schema)
        if depth > MAX_DEPTH or not isinstance(schema, dict):
            return value
        if branches := _branches(schema):
            return self._fit_to_one(value, schema, branches, path, depth)
        value = self._fit_to_choice(value, schema, path)
        types = _types(schema)
        if types and not _has_type(value, types):
            value = self._convert(value, schema, types, path, depth)
        if isinstance(value, dict) and isinstance(schema.get("properties"), dict):
            return self._fit_members(value, schema, path, depth)
        if isinstance(value, list) and isinstance(schema.get("items"), dict):
            return [self.fit(item, schema["items"], f"{path}/{n}", depth + 1) for n, item in enumerate(value)]
        return value

    def unsure_names(self, value: Any) -> list[str]:
        """Arguments that the schema does not have and that may be misspelt forms of several that it has."""
        properties = _properties(self._resolve(self._root))
        if not isinstance(value, dict) or not properties or _allows_others(self._resolve(self._root)):
            return []
        unknown = {
            key: list_similar(key, [k for k in properties if k not in value]) for key in value.keys() - properties
        }
        return [f"{key} is not an argument; did you mean {' or '.join(near)}?" for key, near in unknown.items() if near]

    def _record(self, kind: RepairKind, path: str, before: Any, after: Any) -> None:
        self.repairs.append(Repair(kind, path.lstrip("/"), shorten(before), shorten(after)))

    def _resolve(self, schema: Any) -> Any:
        """Follows local references, a few times."""
        for _ in range(8):
            reference = schema.get("$ref") if isinstance(schema, dict) else None
            if not isinstance(reference, str):
                return schema
            schema = find_reference(self._root, reference)
        return None

    def _fit_to_one(self, value: Any, schema: JsonSchema, branches: list[Any], path: str, depth: int) -> Any:
        """For several alternatives: keeps a value that fits one, else fits it if all alternatives that can take it
        agree on the result."""
        if is_valid(self._with_definitions(schema), value):
            return value
        fitting: list[tuple[Any, list[Repair]]] = []
        for branch in branches:
            attempt = SchemaFitter(self._root, respelt=self._respelt)
            result = attempt.fit(value, branch, path, depth + 1)
            if is_valid(self._with_definitions(schema), result):
                fitting.append((result, attempt.repairs))
        if not fitting or any(_are_different(result, fitting[0][0]) for result, _ in fitting):
            return value
        self.repairs += fitting[0][1]
        return fitting[0][0]

    def _with_definitions(self, schema: JsonSchema) -> JsonSchema:
        """A part of the schema, with the definitions that it may refer to."""
        shared: JsonSchema = {key: self._root[key] for key in ("$defs", "definitions") if key in self._root}
        return {**shared, **schema}

    def _fit_to_choice(self, value: Any, schema: JsonSchema, path: str) -> Any:
        choices = [schema["const"]] if "const" in schema else schema.get("enum")
        if not isinstance(choices, list) or any(not _are_different(value, choice) for choice in choices):
            return value
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        wanted = _normalise(value)
        same = [choice for choice in choices if wanted and _normalise(choice) == wanted]
        if len(same) != 1 or isinstance(value, dict | list):
            return value
        self._record(RepairKind.ENUM, path, value, same[0])
        return same[0]

    def _convert(self, value: Any, schema: JsonSchema, types: tuple[str, ...], path: str, depth: int) -> Any:
        for kind, result in self._conversions(value, schema, types, path, depth):
            if result is not _NONE:
                self._record(kind, path, value, result)
                return result
        return value

    def _conversions(
        self, value: Any, schema: JsonSchema, types: tuple[str, ...], path: str, depth: int
    ) -> Iterator[tuple[RepairKind, Any]]:
        if isinstance(value, str):
            yield RepairKind.TYPE, _from_text(value, types)
            yield RepairKind.ENCODING, _from_json(value, types)
        elif isinstance(value, float) and "integer" in types and value.is_integer() and abs(value) < 2**53:
            yield RepairKind.TYPE, int(value)
        elif isinstance(value, int) and not isinstance(value, bool) and "string" in types:
            yield RepairKind.TYPE, _NONE if str(value) in self._respelt else str(value)
        if isinstance(value, list) and len(value) == 1 and "array" not in types:
            yield RepairKind.LIST, self._if_valid(value[0], schema, path, depth)
        if "array" in types and not isinstance(value, list) and value is not None and not _looks_like_several(value):
            yield RepairKind.LIST, self._if_valid([value], schema, path, depth)

    def _if_valid(self, value: Any, schema: JsonSchema, path: str, depth: int) -> Any:
        result = SchemaFitter(self._root, respelt=self._respelt).fit(value, schema, path, depth + 1)
        return result if is_valid(self._with_definitions(schema), result) else _NONE

    def _fit_members(self, value: dict[str, Any], schema: JsonSchema, path: str, depth: int) -> dict[str, Any]:
        properties, required = schema["properties"], _required_names(schema)
        named = self._correct_names(value, schema, path)
        members: dict[str, Any] = {}
        for key, member in named.items():
            if member is None and key in properties and key not in required and not self._takes_null(properties[key]):
                self._record(RepairKind.NULL, f"{path}/{key}", None, "left out")
                continue
            taken = key in properties
            members[key] = self.fit(member, properties[key], f"{path}/{key}", depth + 1) if taken else member
        return members

    def _correct_names(self, value: dict[str, Any], schema: JsonSchema, path: str) -> dict[str, Any]:
        """Corrects misspelt names, if one absent property is similar and no other argument could mean it."""
        properties = schema["properties"]
        unknown = [key for key in value if key not in properties]
        if not unknown or _allows_others(schema):
            return value
        absent = [key for key in properties if key not in value]
        meant = {key: find_similar(key, absent) for key in unknown}
        wanted = list(meant.values())
        renamed = {key: name for key, name in meant.items() if name is not None and wanted.count(name) == 1}
        for key, name in renamed.items():
            self._record(RepairKind.ARGUMENT_NAME, path, key, name)
        return {renamed.get(key, key): member for key, member in value.items()}

    def _takes_null(self, schema: Any) -> bool:
        resolved = self._resolve(schema)
        return not isinstance(resolved, dict) or is_valid(self._with_definitions(resolved), None)


def find_reference(root: JsonSchema, reference: str) -> Any:
    """The part of the document that `#/a/b` names, or None."""
    if not reference.startswith("#"):
        return None
    found: Any = root
    for part in reference[1:].split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and part.isdecimal() and int(part) < len(found):
            found = found[int(part)]
        elif isinstance(found, dict) and part in found:
            found = found[part]
        else:
            return None
    return found


def shorten(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 1]}…"


def _branches(schema: JsonSchema) -> list[Any]:
    return [branch for key in ("anyOf", "oneOf") if isinstance(schema.get(key), list) for branch in schema[key]]


def _types(schema: JsonSchema) -> tuple[str, ...]:
    given = schema.get("type")
    if isinstance(given, str):
        return (given,)
    if isinstance(given, list):
        return tuple(name for name in given if isinstance(name, str))
    if isinstance(schema.get("properties"), dict):
        return ("object",)
    return ("array",) if isinstance(schema.get("items"), dict) else ()


def _has_type(value: Any, types: tuple[str, ...]) -> bool:
    names = _TYPES.get(type(value), ())
    return any(name in types for name in names) or (isinstance(value, float) and value.is_integer() and types == ())


def _properties(schema: Any) -> dict[str, Any]:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return properties if isinstance(properties, dict) else {}


def _required_names(schema: JsonSchema) -> list[str]:
    required = schema.get("required")
    return required if isinstance(required, list) else []


def _allows_others(schema: Any) -> bool:
    """Whether further arguments are explicitly allowed, and not just not forbidden."""
    if not isinstance(schema, dict) or "patternProperties" in schema:
        return True
    return bool(schema.get("additionalProperties", False))


def _from_text(text: str, types: tuple[str, ...]) -> Any:
    bare = text.strip()
    if "string" in types:
        return _NONE
    found: list[Any] = []
    if "boolean" in types and bare.lower() in _TRUTHS:
        found.append(_TRUTHS[bare.lower()])
    if _DOUBTFUL_NUMBER.fullmatch(bare):
        return _NONE
    if "integer" in types and _INTEGER.fullmatch(bare):
        found.append(int(bare.partition(".")[0]))
    elif "number" in types and _NUMBER.fullmatch(bare):
        found.append(int(bare) if bare.lstrip("+-").isdecimal() else float(bare))
    if "null" in types and bare in ("null", "None"):
        return None
    return found[0] if len(found) == 1 else _NONE


def _from_json(text: str, types: tuple[str, ...]) -> Any:
    """An object or list that was encoded once too often."""
    wanted = tuple(kind for name, kind in (("object", dict), ("array", list)) if name in types)
    if not wanted or text.lstrip()[:1] not in ("{", "["):
        return _NONE
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        value = _read_all(text)
    return value if isinstance(value, wanted) else _NONE


def _looks_like_several(value: Any) -> bool:
    """Such a text is not a single value: it is a list in words, or a list that could not be read."""
    return isinstance(value, str) and (value.lstrip()[:1] in ("{", "[") or bool(re.search(r"[,;\n，、；]", value)))


def _read_all(text: str) -> Any:
    reader = Reader(text)
    try:
        value = reader.value()
    except UnreadableJson:
        return _NONE
    reader.space()
    return value if reader.pos == len(text) and RepairKind.BRACKET not in reader.noted else _NONE


def _normalise(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, str):
        return _BEFORE_DIGIT.sub("-", _BETWEEN_LETTERS.sub("", value.strip())).casefold()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _are_different(one: Any, other: Any) -> bool:
    """Python regards True as equal to 1; JSON does not."""
    return isinstance(one, bool) != isinstance(other, bool) or one != other
