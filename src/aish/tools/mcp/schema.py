"""Normalises a tool's schema from a server: well-formed, bounded, and without outside references.

Everything is kept except what is harmful: references to other documents or in a circle, empty Lua tables of the wrong
kind and very long descriptions. Schemas that are too large or too deep become "any object".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from aish.tools.mcp.text import clean
from aish.types.tools import JsonSchema

MAX_SCHEMA_BYTES = 64 * 1024  # the largest of a real server is 5 kB; this limit alone would fill a small context
MAX_DEPTH = 32
_MAX_REFS = 500
_DESCRIPTION_CHARS = 1024

_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SINGLE = frozenset(
    {"items", "contains", "unevaluatedItems", "additionalProperties", "propertyNames", "unevaluatedProperties"}
    | {"not", "if", "then", "else", "contentSchema", "additionalItems"}
)
_NEVER_EMPTY = _LISTS | {"required", "enum", "type"}  # an empty one of these is invalid or meaningless
_TEXTS = frozenset({"description", "title", "$comment"})
_REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})

Path = tuple[str, ...]


def any_object() -> JsonSchema:
    return {"type": "object"}


def normalise(raw: Any) -> tuple[JsonSchema, str]:
    """Returns the schema, and a note of what was changed, usually ""."""
    if raw == []:
        raw = {}
    if not isinstance(raw, dict):
        return any_object(), "its schema is not an object"
    try:
        size = len(msgspec.json.encode(raw))
        if size > MAX_SCHEMA_BYTES:
            return any_object(), f"its schema has {size} bytes"
        schema = _schema(raw, 0)
    except (_TooDeep, RecursionError):
        return any_object(), f"its schema is more than {MAX_DEPTH} levels deep"
    if schema.setdefault("type", "object") != "object":
        return any_object(), "its schema does not describe an object"
    return _remove_outside_references(schema)


class _TooDeep(Exception):
    pass


def _schema(node: dict[str, Any], depth: int) -> dict[str, Any]:
    if depth > MAX_DEPTH:
        raise _TooDeep
    result = {}
    for key, value in node.items():
        if key in _NEVER_EMPTY and value in ([], {}):
            continue
        result[key] = _keyword(key, value, depth)
    return result


def _keyword(key: str, value: Any, depth: int) -> Any:
    if key in _TEXTS:
        return clean(value, _DESCRIPTION_CHARS) if isinstance(value, str) else ""
    if key in _MAPS:
        entries = value.items() if isinstance(value, dict) else ()
        return {name: _subschema(sub, depth + 1) for name, sub in entries}
    if key in _LISTS and isinstance(value, list):
        return [_subschema(sub, depth + 1) for sub in value]
    if key in _SINGLE:
        if isinstance(value, list) and value:  # the older way to describe tuples
            return [_subschema(sub, depth + 1) for sub in value]
        return _subschema(value, depth + 1)
    return value


def _subschema(value: Any, depth: int) -> Any:
    """Accepts a schema or a boolean; `[]` is an empty Lua table, and anything else is ignored."""
    if isinstance(value, dict):
        return _schema(value, depth)
    return value if isinstance(value, bool) else {}


def subschemas(node: dict[str, Any], path: Path = ()) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yields every schema with its path, outermost first. Values of `default` and the like are not schemas."""
    yield path, node
    for key, value in node.items():
        if key in _MAPS and isinstance(value, dict):
            for name, sub in value.items():
                if isinstance(sub, dict):
                    yield from subschemas(sub, (*path, key, name))
        elif (key in _LISTS or key in _SINGLE) and isinstance(value, list):
            for index, sub in enumerate(value):
                if isinstance(sub, dict):
                    yield from subschemas(sub, (*path, key, str(index)))
        elif key in _SINGLE and isinstance(value, dict):
            yield from subschemas(value, (*path, key))


def _remove_outside_references(schema: JsonSchema) -> tuple[JsonSchema, str]:
    """Removes references that leave the document or are circular. `schema` is our own copy and is changed in place."""
    inside: list[tuple[Path, dict[str, Any], Path]] = []
    notes = []
    for path, node in subschemas(schema):
        for key in _REFERENCES & node.keys():
            target = _reference_path(node[key]) if key == "$ref" else None
            if target is not None:
                inside.append((path, node, target))
            elif key != "$ref" or not _is_anchor(node[key]):
                del node[key]
                notes.append("its schema refers to other documents, which are not fetched")
    if len(inside) > _MAX_REFS:
        return any_object(), f"its schema has {len(inside)} references"
    for node in _find_circular(inside):
        del node["$ref"]
        notes.append("its schema is recursive; what repeats is left open")
    return schema, "; ".join(dict.fromkeys(notes))


def _reference_path(reference: Any) -> Path | None:
    """Returns the path of a reference within the document; None for any other reference."""
    if reference == "#":
        return ()
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    from urllib.parse import unquote  # late: few schemas have references

    return tuple(unquote(step).replace("~1", "/").replace("~0", "~") for step in reference[2:].split("/"))


def _is_anchor(reference: Any) -> bool:
    return isinstance(reference, str) and reference.startswith("#")


def _find_circular(refs: list[tuple[Path, dict[str, Any], Path]]) -> list[dict[str, Any]]:
    """Returns the schemas whose reference leads back to a schema around them."""
    edges: dict[Path, set[Path]] = {target: set() for _, _, target in refs}
    around = [[path[:length] for length in range(len(path) + 1) if path[:length] in edges] for path, _, _ in refs]
    for (_, _, target), enclosing in zip(refs, around, strict=True):
        for outer in enclosing:
            edges[outer].add(target)
    looping = _find_circles(edges)
    return [
        node
        for (_, node, target), enclosing in zip(refs, around, strict=True)
        if target in looping and not looping.isdisjoint(enclosing)
    ]


def _find_circles(edges: dict[Path, set[Path]]) -> set[Path]:
    """Removes nodes without predecessors or successors until only circles are left."""
    left = set(edges)
    while True:
        reachable = {target for start in left for target in edges[start]}
        result = {start for start in left & reachable if edges[start] & left}
        if result == left:
            return left
        left = result
