"""Decodes results of servers leniently: the many shapes of a result become one. Converts columns between us and a
server.

Locations keep the server's URIs and columns; no file is read here. Raises BadResponse if a result cannot be decoded. We
count characters; a server counts UTF-8 bytes, UTF-16 units or characters. A range from a server that does not fit our
text is an error and never clamped, because it may belong to an edit. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Literal, TypeVar

import msgspec

from aish.errors import BadResponse

Encoding = Literal["utf-8", "utf-16", "utf-32"]
ENCODINGS: tuple[Encoding, ...] = ("utf-8", "utf-16", "utf-32")


class Position(msgspec.Struct, frozen=True, order=True):
    """Both from 0. `character` counts in the negotiated encoding."""

    line: int
    character: int


class Range(msgspec.Struct, frozen=True, order=True):
    start: Position
    end: Position


def units_before(line: str, column: int, encoding: Encoding) -> int:
    """Returns the server's column for ours."""
    before = line[:column]
    if encoding == "utf-32" or before.isascii():
        return len(before)
    return _size(before, encoding)


def column_of(line: str, units: int, encoding: Encoding) -> int:
    """Returns our column for the server's. Raises BadResponse if there is none."""
    if encoding == "utf-32" or line.isascii():
        if not 0 <= units <= len(line):
            raise BadResponse(f"column {units} is past the end of a line of {len(line)}")
        return units
    before = column = 0
    while before < units and column < len(line):
        before += _size(line[column], encoding)
        column += 1
    if before != units:
        raise BadResponse(f"column {units} is in the middle of a character, or past the end of the line")
    return column


def _size(text: str, encoding: Encoding) -> int:
    if encoding == "utf-8":
        return len(text.encode("utf-8", "surrogatepass"))
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


class TextMap:
    """Offsets into one text, whose lines include their line ends."""

    def __init__(self, lines: Sequence[str], encoding: Encoding) -> None:
        self._lines = lines
        self._starts = [0, *accumulate(len(line) for line in lines)]
        self._encoding = encoding

    def offset(self, position: Position) -> int:
        """Raises BadResponse for a position that is not in the text."""
        count = len(self._lines)
        if not 0 <= position.line <= count:
            raise BadResponse(f"line {position.line + 1} is not in a text of {count} lines")
        if position.line == count:  # after the last line: servers use it as the end of the text
            if position.character != 0:
                raise BadResponse(f"line {position.line + 1} is not in a text of {count} lines")
            return self._starts[-1]
        whole = self._lines[position.line]
        line = whole.rstrip("\r\n")
        # A position inside a line end means the end of the text before it; TypeScript sends such.
        past = position.character - units_before(line, len(line), self._encoding)
        if 0 < past <= len(whole) - len(line):
            return self._starts[position.line] + len(line)
        return self._starts[position.line] + column_of(line, position.character, self._encoding)

    def span(self, range: Range) -> tuple[int, int]:
        start, end = self.offset(range.start), self.offset(range.end)
        if end < start:
            raise BadResponse("a range ends before it begins")
        return start, end

    def position(self, line: int, column: int) -> Position:
        """Takes line and column from 0, in characters."""
        text = self._lines[line] if line < len(self._lines) else ""
        return Position(line, units_before(text, column, self._encoding))


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
