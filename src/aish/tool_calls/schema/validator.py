"""Checks arguments against a tool's own schema, and reports errors so that a model can correct them.

Schemas come from third parties. References to other documents are refused, never fetched. A schema that cannot be
compiled allows any object, since one bad schema must not disable a tool. The simplest schemas are checked without the
library.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from aish.types.tools import JsonSchema

if TYPE_CHECKING:
    import jsonschema_rs


# More levels than real documents have. The validator stops at 255, and Python's stack at some hundreds.
MAX_LEVELS = 200
TOO_DEEP = f"nested too deeply, {MAX_LEVELS} levels at most"


def is_too_deep(value: Any) -> bool:
    """Checks level by level: a flat object costs one look at its members."""
    level = [value] if type(value) in (dict, list) else []
    for _ in range(MAX_LEVELS):
        members = [member for outer in level for member in (outer.values() if type(outer) is dict else outer)]
        level = [member for member in members if type(member) is dict or type(member) is list]
        if not level:
            return False
    return True


MAX_ERRORS = 5
_MAX_ERROR_CHARS = 300


def schema_errors(schema: JsonSchema, arguments: Any) -> list[str]:
    """The violations, one by one; empty if there are none."""
    if _fits_plainly(schema, arguments):
        return []
    if is_too_deep(arguments):
        return [TOO_DEEP]
    validator = _validator(_encode(schema))
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
    validator = _validator(_encode(schema))
    return validator is None or validator.is_valid(value)


def is_checkable(schema: JsonSchema) -> bool:
    """Whether the schema can be compiled at all."""
    return _validator(_encode(schema)) is not None


_PLAIN = frozenset({"type", "properties", "required", "additionalProperties", "title", "description"})
_PLAIN_MEMBER = frozenset({"type", "title", "description", "default", "examples"})
_PLAIN_TYPES: dict[Any, tuple[type, ...]] = {
    "string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,)
}  # fmt: skip


def _fits_plainly(schema: Any, value: Any) -> bool:
    """Whether the value surely fits a simple schema: an object of texts, numbers and booleans, as most tools have.
    False: unknown."""
    if type(schema) is not dict or type(value) is not dict or not schema.keys() <= _PLAIN:
        return False
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if schema.get("type") != "object" or type(properties) is not dict or type(required) is not list:
        return False
    if not all(type(name) is str and name in value for name in required):
        return False
    return all(name in properties and _is_plainly(properties[name], member) for name, member in value.items())


def _is_plainly(schema: Any, value: Any) -> bool:
    """Compares exact types: in JSON Schema, `true` is no integer."""
    if type(schema) is not dict or not schema.keys() <= _PLAIN_MEMBER or type(schema.get("type")) is not str:
        return False
    return type(value) in _PLAIN_TYPES.get(schema["type"], ())


def _encode(schema: JsonSchema) -> bytes:
    try:
        return msgspec.json.encode(schema)
    except (UnicodeEncodeError, TypeError, RecursionError, ValueError):
        return b"true"


@lru_cache(maxsize=1024)
def _validator(schema: bytes) -> jsonschema_rs.Draft202012Validator | None:
    import jsonschema_rs  # takes ten milliseconds to load, and many turns do not need it

    try:
        return jsonschema_rs.Draft202012Validator(msgspec.json.decode(schema), retriever=_refuse)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError, TypeError):
        return None


def _refuse(uri: str) -> Any:
    raise ValueError(f"references to other documents are not followed: {uri}")
