"""Reads a call's arguments: text to a JSON object, checked against the tool's schema.

Schemas come from strangers. References to other documents are refused, never fetched; a schema that cannot be compiled
lets any object pass, since one bad schema must not take a tool away.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from aish.types.tools import Arguments, JsonSchema

if TYPE_CHECKING:
    import jsonschema_rs

MAX_ERRORS = 5
_MAX_ERROR_CHARS = 300


class BadArguments(Exception):
    """The text is not a JSON object; the message says what it is."""


def parse_arguments(text: str) -> Arguments:
    """Nothing at all (empty or null) means no arguments: many models write that for a tool without parameters."""
    if not text.strip():
        return {}
    try:
        value: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as exc:
        raise BadArguments(f"the arguments are not valid JSON: {exc}") from exc
    except UnicodeEncodeError as exc:
        raise BadArguments("the arguments hold characters that are not valid Unicode") from exc
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadArguments(f"the arguments must be one JSON object, not {_kind(value)}")
    return value


def schema_errors(schema: JsonSchema, arguments: Arguments) -> list[str]:
    """What is wrong, item by item, in words a model can act on; empty if nothing is."""
    validator = _validator(msgspec.json.encode(schema))
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


@lru_cache(maxsize=1024)
def _validator(schema: bytes) -> jsonschema_rs.Draft202012Validator | None:
    import jsonschema_rs  # 30 ms of loading that a turn without tool calls does not need

    try:
        return jsonschema_rs.Draft202012Validator(msgspec.json.decode(schema), retriever=_refuse)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError, TypeError):
        return None


def _refuse(uri: str) -> Any:
    raise ValueError(f"references to other documents are not followed: {uri}")


def _kind(value: object) -> str:
    names = {list: "an array", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    return names.get(type(value), "something else")
