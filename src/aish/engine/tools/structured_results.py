"""Prepares structured results for programs: complete, without secrets, and valid for the tool's output schema.

Text that is too long for a model can be cut and still be read. An object cannot be cut, so it is passed on whole or not
at all. If the tool promises one and it is missing, the result says why.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from aish.tool_calls.schema.validator import is_checkable, schema_errors
from aish.types.events import ToolResult
from aish.types.tools import JsonObject, JsonSchema, ResultStatus, StructuredResult, ToolSpec

# Half of what a message may hold, since the result also holds text or images.
MAX_BYTES = 4 * 1024 * 1024


def find_promise(spec: ToolSpec) -> JsonSchema | None:
    """The output schema that the results of a tool must fit; None if it has none or a broken one."""
    schema = spec.output_schema
    return schema if schema is not None and is_checkable(schema) else None


def with_structured(
    result: ToolResult, given: JsonObject | None, spec: ToolSpec | None, redact: Callable[[bytes], bytes]
) -> ToolResult:
    """Adds `given`, the structured result of the tool, to its result. An error needs none."""
    is_promised = spec is not None and spec.output_schema is not None
    if result.status is not ResultStatus.OK or not (is_promised or given is not None):
        return result
    promise = find_promise(spec) if spec is not None else None
    structured = _fit(given, promise, redact)
    if structured.value is None and promise is None:
        return result
    return msgspec.structs.replace(result, structured=structured)


def _fit(given: JsonObject | None, promise: JsonSchema | None, redact: Callable[[bytes], bytes]) -> StructuredResult:
    if given is None:
        return StructuredResult(lacking="the tool gave none")
    try:
        line = msgspec.json.encode(given)
        if len(line) > MAX_BYTES:
            return StructuredResult(lacking=f"it has {len(line)} bytes, and {MAX_BYTES} are handed on")
        # The whole line is redacted, since a secret may be a number, a name, or divided among several texts.
        value = given if (redacted := redact(line)) is line else msgspec.json.decode(redacted, type=JsonObject)
        if value is not given and _members(value) != _members(given):
            return StructuredResult(lacking="several of its names are secrets")
        errors = schema_errors(promise, value) if promise is not None else []
    except msgspec.DecodeError:
        return StructuredResult(lacking="it has a secret in it that cannot be taken out")
    except (ValueError, RecursionError):
        return StructuredResult(lacking="it is nested too deeply")
    if errors:
        return StructuredResult(lacking=f"it does not fit its schema: {redact('; '.join(errors).encode()).decode()}")
    return StructuredResult(value)


def _members(value: object) -> int:
    """Counts the members of all objects. Names that redaction has made equal are one."""
    count, left = 0, [value]
    while left:
        match left.pop():
            case dict() as found:
                count += len(found)
                left += found.values()
            case list() as found:
                left += found
    return count
