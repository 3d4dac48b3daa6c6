"""Simplifies a tool's schema for a backend, by leaving out what its grammar compiler does not accept.

The result is only weaker: what fits the original fits the result. One exception is intended: a schema with `properties`
but without a type describes an object, one with `items` an array. Arguments are still checked against the original. A
`Profile` says what a backend accepts. A schema that makes no sense becomes "any object", so that one bad tool does not
disable the others.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from aish.tool_calls.repair.coerce import find_reference
from aish.types.tools import JsonSchema, ToolSpec

MAX_SCHEMA_CHARS = 256 * 1024
_MAX_DEPTH = 24
_MAX_NODES = 5000  # references multiply: a small document can expand to a huge one
_TYPES = frozenset({"object", "array", "string", "integer", "number", "boolean", "null"})
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_TEXTS = ("description", "title", "$comment")
_LOOKS_AROUND = re.compile(r"\(\?(?![:P])|\(\?P|\\[1-9bBAZpPkzG]|[*+?}][+?]")
_SIMPLE_PATTERN = re.compile(r"\^[\w \-\[\]{}()|.,+*?\\:/@#%&=~;<>!'\"^]*\$", re.ASCII)
_REPEAT = re.compile(r"\{(\d+)(?:,(\d*))?\}")
_TYPE_OF: dict[type, str] = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


class Profile(msgspec.Struct, frozen=True):
    """What a backend accepts. `texts`: it reads descriptions. `any_pattern`: it accepts more than plain anchored
    patterns."""

    name: str
    keywords: frozenset[str]
    formats: frozenset[str]
    texts: bool
    any_pattern: bool
    max_count: int
    max_properties: int
    max_choices: int


_SHAPE = frozenset({"type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf"})
_BOUNDS = frozenset({*_COUNTS, "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "pattern", "format"})
# The `tools` field: read by chat templates, and compiled by some servers where a call is required.
TOOLS = Profile(
    "tools",
    _SHAPE | _BOUNDS | {"oneOf", "default", "examples", "multipleOf", "uniqueItems", "strict"},
    frozenset({"date", "time", "date-time", "uuid", "uri", "email", "ipv4", "ipv6", "hostname", "duration"}),
    texts=True,
    any_pattern=False,
    max_count=100_000,
    max_properties=1000,
    max_choices=1000,
)
# Constrained output: llama.cpp, Ollama (which is llama.cpp), vLLM's compilers and OpenAI's all accept this.
GRAMMAR = Profile(
    "grammar",
    _SHAPE | (_BOUNDS - {"minProperties", "maxProperties", "exclusiveMinimum", "exclusiveMaximum"}),
    frozenset({"date", "time", "date-time", "uuid"}),
    texts=False,
    any_pattern=False,
    max_count=256,
    max_properties=256,
    max_choices=256,
)
# After a refusal of even that: names and types only.
PLAIN = Profile(
    "plain", _SHAPE - {"anyOf"}, frozenset(), texts=True, any_pattern=False,
    max_count=0, max_properties=100, max_choices=100,
)  # fmt: skip

_cache: dict[tuple[int, str], tuple[JsonSchema, JsonSchema]] = {}
_MAX_CACHED = 4096


def simplify_schema(schema: JsonSchema, profile: Profile) -> JsonSchema:
    """The schema of a tool's arguments for this backend. Returns the same object where nothing had to change."""
    key = (id(schema), profile.name)
    if (cached := _cache.get(key)) is not None and cached[0] is schema:
        return cached[1]
    if len(_cache) >= _MAX_CACHED:
        _cache.clear()
    result = _any_object_if_bad(schema, profile)
    result = schema if result == schema else result
    _cache[key] = (schema, result)
    return result


def simplify_tools(tools: tuple[ToolSpec, ...], profile: Profile) -> tuple[ToolSpec, ...]:
    """Returns `tools` itself if none has to change."""
    changed = {}
    for index, tool in enumerate(tools):
        if (schema := simplify_schema(tool.schema, profile)) is not tool.schema:
            changed[index] = msgspec.structs.replace(tool, schema=schema)
    return tuple(changed.get(index, tool) for index, tool in enumerate(tools)) if changed else tools


def _any_object_if_bad(schema: Any, profile: Profile) -> JsonSchema:
    try:
        if len(msgspec.json.encode(schema)) > MAX_SCHEMA_CHARS:
            result: JsonSchema = {}
        else:
            result = _Simplifier(schema, profile).simplify(schema)
    except (_TooLarge, RecursionError, TypeError, ValueError, AttributeError):
        result = {}
    if result.get("type", "object") != "object":
        result = {}
    # Some servers require `properties`. For a grammar, an empty one would allow no arguments.
    listed: JsonSchema = {"properties": {}} if profile.texts and "properties" not in result else {}
    return {"type": "object", **result, **listed}


class _TooLarge(Exception):
    pass


class _Simplifier:
    def __init__(self, root: JsonSchema, profile: Profile) -> None:
        self._root = root
        self._profile = profile
        self._nodes = 0
        self._following: list[str] = []

    def simplify(self, schema: Any, depth: int = 0) -> JsonSchema:
        self._nodes += 1
        if self._nodes > _MAX_NODES:
            raise _TooLarge
        if not isinstance(schema, dict) or depth > _MAX_DEPTH:
            return {}
        if isinstance(reference := schema.get("$ref"), str):
            return self._follow(reference, schema, depth)
        if isinstance(schema.get("allOf"), list):
            schema = self._merge(schema)
        result = {**self._values(schema), **self._parts(schema, depth)}
        return self._with_type(result)

    def _follow(self, reference: str, schema: JsonSchema, depth: int) -> JsonSchema:
        """Replaces a reference by its target. Keywords beside a reference are dropped, except for texts. A circular
        reference becomes any value of its type, and an unknown one any value."""
        target = find_reference(self._root, reference)
        texts = self._values({key: schema[key] for key in _TEXTS if key in schema})
        if not isinstance(target, dict):
            return texts
        if reference in self._following or target is self._root:
            kind = target.get("type")
            return {**texts, "type": kind} if isinstance(kind, str) and kind in _TYPES else texts
        self._following.append(reference)
        try:
            return {**self.simplify(target, depth + 1), **texts}
        finally:
            self._following.pop()

    def _merge(self, schema: JsonSchema) -> JsonSchema:
        """`allOf` of objects becomes one object with all their properties; of anything else it is dropped."""
        rest = {key: value for key, value in schema.items() if key != "allOf"}
        parts = [rest, *(self._target(part) for part in schema["allOf"])]
        objects = [part for part in parts if isinstance(part.get("properties"), dict)]
        if not objects:
            return rest
        properties: dict[str, Any] = {}
        for part in objects:
            for name, value in part["properties"].items():
                properties[name] = value if name not in properties else {}
        names = [n for part in parts for n in part.get("required", ()) if isinstance(n, str) and n in properties]
        merged = {**rest, "properties": properties, "required": list(dict.fromkeys(names))}
        merged.pop("additionalProperties", None)
        return merged

    def _target(self, part: Any) -> JsonSchema:
        reference = part.get("$ref") if isinstance(part, dict) else None
        target = find_reference(self._root, reference) if isinstance(reference, str) else part
        return target if isinstance(target, dict) else {}

    def _values(self, schema: JsonSchema) -> JsonSchema:
        """The keywords with plain values."""
        result: JsonSchema = {}
        for key, value in schema.items():
            if key in _TEXTS:
                if self._profile.texts and isinstance(value, str):
                    result[key] = value
            elif key in self._profile.keywords and key not in _PARTS and self._takes(key, value):
                result[key] = value
        return result

    def _takes(self, key: str, value: Any) -> bool:
        if key in _COUNTS:
            return type(value) is int and 0 <= value <= self._profile.max_count
        if key in _NUMBERS:
            return isinstance(value, int | float) and not isinstance(value, bool)
        if key == "type":
            names = value if isinstance(value, list) else [value]
            return bool(names) and all(isinstance(name, str) and name in _TYPES for name in names)
        if key == "enum":
            return isinstance(value, list) and 0 < len(value) <= self._profile.max_choices
        if key == "pattern":
            return isinstance(value, str) and self._takes_pattern(value)
        return key != "format" or value in self._profile.formats

    def _takes_pattern(self, pattern: str) -> bool:
        counts = [int(n) for pair in _REPEAT.findall(pattern) for n in pair if n]
        if _LOOKS_AROUND.search(pattern) or any(count > min(100, self._profile.max_count) for count in counts):
            return False
        return self._profile.any_pattern or _SIMPLE_PATTERN.fullmatch(pattern) is not None

    def _parts(self, schema: JsonSchema, depth: int) -> JsonSchema:
        """The keywords with schemas."""
        result: JsonSchema = {}
        if isinstance(schema.get("properties"), dict | list):
            result.update(self._members(schema, depth))
        if "items" in schema or _is_array(schema):
            result["items"] = {} if "prefixItems" in schema else self.simplify(schema.get("items"), depth + 1)
        for key in ("anyOf", "oneOf"):
            branches = schema.get(key)
            if isinstance(branches, list) and 0 < len(branches) <= self._profile.max_choices:
                allowed = key if key in self._profile.keywords else "anyOf"
                if allowed in self._profile.keywords and allowed not in result:
                    result[allowed] = [self.simplify(branch, depth + 1) for branch in branches]
        return result

    def _members(self, schema: JsonSchema, depth: int) -> JsonSchema:
        given = schema["properties"] if isinstance(schema["properties"], dict) else {}
        required = [n for n in _names(schema.get("required")) if n in given]
        first = {name: given[name] for name in (*required, *given)}
        allowed = dict(list(first.items())[: self._profile.max_properties])
        order = [name for name in given if name in allowed]
        result: JsonSchema = {"properties": {name: self.simplify(given[name], depth + 1) for name in order}}
        if names := [name for name in required if name in allowed]:
            result["required"] = names
        if len(allowed) == len(given) and "patternProperties" not in schema:
            result.update(self._others(schema.get("additionalProperties"), depth))
        return result

    def _others(self, others: Any, depth: int) -> JsonSchema:
        if others is False:
            return {"additionalProperties": False}
        simple = self.simplify(others, depth + 1) if isinstance(others, dict) and others else {}
        return {"additionalProperties": simple} if simple else {}

    def _with_type(self, schema: JsonSchema) -> JsonSchema:
        if "type" in schema or "anyOf" in schema or "oneOf" in schema:
            return schema
        if "properties" in schema:
            return {"type": "object", **schema}
        if "items" in schema:
            return {"type": "array", **schema}
        choices = schema["enum"] if "enum" in schema else [schema["const"]] if "const" in schema else []
        kinds = {_TYPE_OF.get(type(choice)) for choice in choices}
        return {"type": kinds.pop(), **schema} if len(kinds) == 1 and None not in kinds else schema


_PARTS = frozenset({"properties", "required", "additionalProperties", "items", "anyOf", "oneOf"})


def _names(value: Any) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _is_array(schema: JsonSchema) -> bool:
    kind = schema.get("type")
    return kind == "array" or (isinstance(kind, list) and "array" in kind)
