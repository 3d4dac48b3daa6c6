"""The headers that 2026-07-28 requires on every HTTP request, and tool parameters that are copied into headers."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Any

from aish.tools.mcp.schema import subschemas
from aish.types.tools import Arguments, JsonSchema

HeaderParams = tuple[tuple[tuple[str, ...], str], ...]

_ANNOTATION = "x-mcp-header"
_NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,128}")
_PLAIN = re.compile(r"[\x20-\x7e]*")
_SENTINEL = re.compile(r"=\?base64\?.*\?=")
_TYPES = frozenset({"string", "integer", "boolean"})


class InvalidAnnotation(Exception):
    """The tool must not be used; the message says why."""


def header_params(schema: JsonSchema) -> HeaderParams:
    """Returns which arguments go into which headers. Raises BadAnnotation if the schema breaks the rules."""
    found: dict[str, tuple[tuple[str, ...], str]] = {}
    for path, node in subschemas(schema):
        if _ANNOTATION not in node:
            continue
        header = node[_ANNOTATION]
        if not path or any(step != "properties" for step in path[::2]):
            raise InvalidAnnotation(f"{_ANNOTATION} is not on a plain property")
        if not isinstance(header, str) or not _TOKEN.fullmatch(header):
            raise InvalidAnnotation(f"{_ANNOTATION} is not a header name")
        if not isinstance(node.get("type"), str) or node["type"] not in _TYPES:
            raise InvalidAnnotation(f"{_ANNOTATION} is on something other than a string, integer or boolean")
        if header.lower() in found:
            raise InvalidAnnotation(f"{_ANNOTATION} names the header {header} twice")
        found[header.lower()] = (path[1::2], header)
    return tuple(found.values())


def mirror_headers(params: HeaderParams, arguments: Arguments) -> list[tuple[str, str]]:
    """Returns the `Mcp-Param-*` headers of the given arguments."""
    headers = []
    for path, header in params:
        value = _value_at(arguments, path)
        if isinstance(value, bool):
            headers.append((f"Mcp-Param-{header}", "true" if value else "false"))
        elif isinstance(value, str | int | float):
            headers.append((f"Mcp-Param-{header}", header_value(str(value))))
    return headers


def standard_headers(version: str, method: str, params: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    headers = [("MCP-Protocol-Version", version), ("Mcp-Method", method)]
    name = params.get(_NAMED_BY.get(method, ""))
    if isinstance(name, str):
        headers.append(("Mcp-Name", header_value(name)))
    return headers


def header_value(text: str) -> str:
    """Returns the text, in base64 if HTTP would change or refuse it."""
    if _PLAIN.fullmatch(text) and text == text.strip() and not _SENTINEL.fullmatch(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def _value_at(arguments: Arguments, path: tuple[str, ...]) -> Any:
    value: Any = arguments
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value
