"""Checks the headers that revision 2026-07-28 repeats from the body of a request, so that proxies can route by them.

A request whose headers differ from its body is refused: it may have been routed by a wrong value.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from aish.frontends.asgi import RequestHeaders
from aish.frontends.mcp.requests import HEADER_MISMATCH, META_VERSION, Request
from aish.net.jsonrpc_message import RpcError
from aish.types.tools import JsonSchema

VERSION, METHOD, NAME, _PARAM = "mcp-protocol-version", "mcp-method", "mcp-name", "mcp-param-"
_NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_SENTINEL = re.compile(r"=\?base64\?(.*)\?=")
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,30}(\.0{1,30})?")


def check_standard(headers: RequestHeaders, request: Request) -> None:
    """Raises RpcError unless revision, method and name are those of the body."""
    expected = {VERSION: request.meta.get(META_VERSION), METHOD: request.method}
    name = request.params.get(_NAMED_BY.get(request.method, ""))
    if isinstance(name, str):
        expected[NAME] = name
    for header, value in expected.items():
        given = headers.get(header)
        if headers.is_repeated(header) or given is None or _decode(given) != value:
            raise RpcError(HEADER_MISMATCH, f"the header {header} does not say what the body says")


def check_mirrored(headers: RequestHeaders, schema: JsonSchema, arguments: Mapping[str, Any]) -> None:
    """Raises RpcError unless exactly the arguments that the schema marks are in headers, with the same values."""
    for path, header, kind in _find_marked(schema):
        name = f"{_PARAM}{header.lower()}"
        given = headers.get(name)
        value = _encode_value(_value_at(arguments, path))
        if headers.is_repeated(name) or (given is None) != (value is None):
            raise RpcError(HEADER_MISMATCH, f"the header {name} and the argument {'.'.join(path)} do not go together")
        if given is not None and value is not None and not _is_same(_decode(given), value, kind):
            raise RpcError(HEADER_MISMATCH, f"the header {name} does not say what the body says")


def _find_marked(schema: JsonSchema, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str, str]]:
    properties = schema.get("properties")
    for name, node in properties.items() if isinstance(properties, dict) else ():
        if not isinstance(node, dict):
            continue
        if isinstance(header := node.get("x-mcp-header"), str):
            yield (*path, name), header, str(node.get("type"))
        yield from _find_marked(node, (*path, name))


def _value_at(arguments: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        arguments = arguments.get(step) if isinstance(arguments, dict) else None
    return arguments


def _encode_value(value: Any) -> str | None:
    """None for a value that is never in a header."""
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode() if isinstance(value, bool | int | float) else None


def _is_same(given: str | None, value: str, kind: str) -> bool:
    if given is not None and kind == "integer" and _WHOLE_NUMBER.fullmatch(given) and _WHOLE_NUMBER.fullmatch(value):
        return int(given.partition(".")[0]) == int(value.partition(".")[0])
    return given == value


def _decode(value: str) -> str | None:
    """None if the value is marked as base64 and is not."""
    wrapped = _SENTINEL.fullmatch(value)
    if wrapped is None:
        return value
    try:
        return base64.b64decode(wrapped[1], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
