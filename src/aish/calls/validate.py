"""Checks arguments against a tool's own schema, in words a model can act on.

Schemas come from strangers. References to other documents are refused, never fetched; a schema that cannot be compiled
lets any object pass, since one bad schema must not take a tool away.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from aish.types.tools import JsonSchema

if TYPE_CHECKING:
    import jsonschema_rs

MAX_ERRORS = 5
_MAX_ERROR_CHARS = 300


def schema_errors(schema: JsonSchema, arguments: Any) -> list[str]:
    """What is wrong, item by item; empty if nothing is."""
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
    validator = _validator(_encoded(schema))
    return validator is None or validator.is_valid(value)


def _encoded(schema: JsonSchema) -> bytes:
    try:
        return msgspec.json.encode(schema)
    except (UnicodeEncodeError, TypeError, RecursionError, ValueError):
        return b"true"


@lru_cache(maxsize=1024)
def _validator(schema: bytes) -> jsonschema_rs.Draft202012Validator | None:
    import jsonschema_rs  # 30 ms of loading that a turn without tool calls does not need

    try:
        return jsonschema_rs.Draft202012Validator(msgspec.json.decode(schema), retriever=_refuse)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError, TypeError):
        return None


def _refuse(uri: str) -> Any:
    raise ValueError(f"references to other documents are not followed: {uri}")
