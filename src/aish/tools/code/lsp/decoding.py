"""Decodes results of servers leniently: the many shapes of a result become one.

Locations keep the server's URIs and columns; no file is read here. Raises BadResponse if a result cannot be decoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from aish.errors import BadResponse
from aish.tools.code.lsp.positions import Position, Range

T = TypeVar("T")

_SEVERITIES = {1: "error", 2: "warning", 3: "info", 4: "hint"}
_KINDS = (
    "", "file", "module", "namespace", "package", "class", "method", "property", "field", "constructor", "enum",
    "interface", "function", "variable", "constant", "string", "number", "boolean", "array", "object", "key", "null",
    "member", "struct", "event", "operator", "type",
)  # fmt: skip
_MAX_DEPTH = 64
_MAX_NESTED = 4


class WireLocation(msgspec.Struct, frozen=True):
    """`range` is the name, `whole` the full declaration."""

    uri: str
    range: Range
    whole: Range


class WireDiagnostic(msgspec.Struct, frozen=True):
    range: Range
    message: str
    severity: str
    source: str = ""
    code: str = ""
    raw: Any = None  # as received, to be sent back when its fixes are requested


class WireSymbol(msgspec.Struct, frozen=True):
    name: str
    kind: str
    uri: str
    range: Range
    whole: Range
    container: str = ""
    depth: int = 0


class _Location(msgspec.Struct):
    uri: str = ""
    range: Range | None = None
    targetUri: str = ""
    targetRange: Range | None = None
    targetSelectionRange: Range | None = None


def decode_as(raw: msgspec.Raw | bytes, type: type[T]) -> T:
    try:
        return msgspec.json.decode(raw, type=type)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as exc:
        raise BadResponse(f"an answer that cannot be read: {exc}") from exc


def decode_locations(raw: msgspec.Raw) -> list[WireLocation]:
    """Decodes null, a Location, or a list of Locations or LocationLinks."""
    found = decode_as(raw, _Location | list[_Location] | None)  # type: ignore[arg-type]  # msgspec accepts a union as a type
    listed: list[_Location] = found if isinstance(found, list) else [found] if found else []
    return [location for one in listed if (location := _location(one)) is not None]


def _location(one: _Location) -> WireLocation | None:
    uri, name = one.targetUri or one.uri, one.targetSelectionRange or one.range or one.targetRange
    if not uri or name is None:
        return None
    return WireLocation(uri, name, one.targetRange or name)


def decode_hover(raw: msgspec.Raw) -> str:
    hover = decode_as(raw, object)
    return _markup(hover.get("contents")).strip() if isinstance(hover, dict) else ""


def _markup(contents: object, depth: int = 0) -> str:
    """Joins text, text with a kind or a language, or a list of these."""
    if isinstance(contents, str):
        return contents
    if isinstance(contents, list) and depth < _MAX_NESTED:
        return "\n\n".join(filter(None, (_markup(item, depth + 1) for item in contents)))
    if isinstance(contents, Mapping):
        value, language = str(contents.get("value", "")), contents.get("language")
        return f"```{language}\n{value}\n```" if language else value
    return ""


def decode_diagnostics(items: object) -> list[WireDiagnostic]:
    listed = items if isinstance(items, list) else []
    return [found for item in listed if (found := _diagnostic(item)) is not None]


def _diagnostic(item: object) -> WireDiagnostic | None:
    if not isinstance(item, dict):
        return None
    try:
        range = msgspec.convert(item.get("range"), Range)
    except msgspec.ValidationError:
        return None
    code = item.get("code")
    code = code.get("value") if isinstance(code, dict) else code
    severity = item.get("severity", 1)
    return WireDiagnostic(
        range,
        _markup(item.get("message")),
        _SEVERITIES.get(severity if isinstance(severity, int) else 1, "error"),
        source=str(item.get("source") or ""),
        code="" if code is None else str(code),
        raw=item,
    )


def decode_symbols(raw: msgspec.Raw, uri: str = "") -> list[WireSymbol]:
    """Decodes DocumentSymbols (a tree) or SymbolInformation (a flat list with locations)."""
    found = decode_as(raw, object)
    return list(_symbols(found, uri, "", 0)) if isinstance(found, list) else []


def _symbols(items: object, uri: str, container: str, depth: int) -> Iterator[WireSymbol]:
    for item in items if isinstance(items, list) else []:
        if not isinstance(item, dict) or depth > _MAX_DEPTH:
            continue
        symbol = _symbol(item, uri, container, depth)
        if symbol is not None:
            yield symbol
            yield from _symbols(item.get("children"), uri, symbol.name, depth + 1)


def _symbol(item: Mapping[str, Any], uri: str, container: str, depth: int) -> WireSymbol | None:
    location = item.get("location")
    location = location if isinstance(location, dict) else {}
    whole = item.get("range") or location.get("range")
    number = item.get("kind", 0)
    kind = _KINDS[number] if isinstance(number, int) and 0 <= number < len(_KINDS) else ""
    try:
        # A workspace symbol may have no range; its file is still useful.
        outer = msgspec.convert(whole, Range) if whole else Range(Position(0, 0), Position(0, 0))
        name = msgspec.convert(item["selectionRange"], Range) if "selectionRange" in item else outer
    except msgspec.ValidationError:
        return None
    where = str(location.get("uri") or uri)
    container = container or str(item.get("containerName") or "")
    return WireSymbol(str(item.get("name", "")), kind, where, name, outer, container, depth)
