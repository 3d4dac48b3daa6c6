"""Checks arguments against a tool's own schema, in words a model can act on.

Schemas come from strangers. References to other documents are refused, never fetched; a schema that cannot be compiled
lets any object pass, since one bad schema must not take a tool away. The plainest are checked without the library.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from aish.tool_calls.schema.depth import TOO_DEEP, is_too_deep
from aish.types.tools import JsonSchema

if TYPE_CHECKING:
    import jsonschema_rs

MAX_ERRORS = 5
_MAX_ERROR_CHARS = 300


def schema_errors(schema: JsonSchema, arguments: Any) -> list[str]:
    """What is wrong, item by item; empty if nothing is."""
    if _fits_plainly(schema, arguments):
        return []
    if is_too_deep(arguments):
        return [TOO_DEEP]
    validator = _validator(_encoded(schema))
    if validator is None:
        return []
    errors: list[str] = []
    for error in validator.iter_errors(arguments):
        if len(errors) == MAX_ERRORS:
            errors.append("and more")
            break
        where = "/".join(str(part) for part in error.instance_path)
        message = error.message[:_MAX_ERROR_CHARS]
        errors.append(f"{where}: {message}" if where else message)
    return errors


def is_valid(schema: JsonSchema, value: Any) -> bool:
    if _fits_plainly(schema, value):
        return True
    if is_too_deep(value):
        return False
    validator = _validator(_encoded(schema))
    return validator is None or validator.is_valid(value)


def is_checkable(schema: JsonSchema) -> bool:
    """Whether anything can be held against it at all."""
    return _validator(_encoded(schema)) is not None


_PLAIN = frozenset({"type", "properties", "required", "additionalProperties", "title", "description"})
_PLAIN_MEMBER = frozenset({"type", "title", "description", "default", "examples"})
_PLAIN_TYPES: dict[Any, tuple[type, ...]] = {
    "string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,)
}  # fmt: skip


def _fits_plainly(schema: Any, value: Any) -> bool:
    """Whether the value surely fits: an object of texts, numbers and truths, as most tools take it. False: perhaps."""
    if type(schema) is not dict or type(value) is not dict or not schema.keys() <= _PLAIN:
        return False
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if schema.get("type") != "object" or type(properties) is not dict or type(required) is not list:
        return False
    if not all(type(name) is str and name in value for name in required):
        return False
    return all(name in properties and _is_plainly(properties[name], member) for name, member in value.items())


def _is_plainly(schema: Any, value: Any) -> bool:
    """By the exact type: to JSON Schema, `true` is no integer."""
    if type(schema) is not dict or not schema.keys() <= _PLAIN_MEMBER or type(schema.get("type")) is not str:
        return False
    return type(value) in _PLAIN_TYPES.get(schema["type"], ())


def _encoded(schema: JsonSchema) -> bytes:
    try:
        return msgspec.json.encode(schema)
    except (UnicodeEncodeError, TypeError, RecursionError, ValueError):
        return b"true"


@lru_cache(maxsize=1024)
def _validator(schema: bytes) -> jsonschema_rs.Draft202012Validator | None:
    import jsonschema_rs  # ten milliseconds of loading, where many turns do not need it

    try:
        return jsonschema_rs.Draft202012Validator(msgspec.json.decode(schema), retriever=_refuse)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError, TypeError):
        return None


def _refuse(uri: str) -> Any:
    raise ValueError(f"references to other documents are not followed: {uri}")
