"""Converts locations that a server names into ours, with the text of the line. Files outside the workspace are named
but not read.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Sequence

from aish.errors import ToolError
from aish.tools.code.backends.port import Location, Symbol
from aish.tools.code.files.source import SourceText, load
from aish.tools.code.lsp.results import Encoding, WireLocation, WireSymbol
from aish.tools.workspace import Workspace

_TEXT_CHARS = 240
_OTHER_SCHEME = re.compile(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]+:")  # a single letter would be a Windows drive


class ServerFiles:
    """Reads each file at most once for one answer."""

    def __init__(self, space: Workspace, encoding: Encoding) -> None:
        self.encoding = encoding
        self._space = space
        self._paths: dict[str, str | ToolError] = {}
        self._read: dict[str, SourceText | None] = {}

    def get(self, uri: str) -> SourceText:
        """Raises ToolError if it is not a text file in the workspace."""
        return load(self._space, self.path(uri))

    def exists(self, uri: str) -> bool:
        return self._space.exists(self.path(uri))

    def path(self, uri: str) -> str:
        if uri not in self._paths:
            self._paths[uri] = self._path(uri)
        found = self._paths[uri]
        if isinstance(found, ToolError):
            raise found
        return found

    def _path(self, uri: str) -> str | ToolError:
        if _OTHER_SCHEME.match(uri):
            return ToolError(f"the server names what is no file: {uri[:200]}")
        try:
            return self._space.relative(uri)
        except ToolError as exc:
            return ToolError(f"the server names a file outside the workspace: {exc.message}")

    def find(self, path: str) -> SourceText | None:
        if path not in self._read:
            try:
                self._read[path] = load(self._space, path)
            except ToolError:
                self._read[path] = None
        return self._read[path]

    def convert_locations(self, found: Sequence[WireLocation], *, whole: bool = False) -> tuple[Location, ...]:
        """Returns locations sorted, one for each line. With `whole` they span the full declaration and have no text."""
        converted = {self._convert_location(wire, whole=whole) for wire in found}
        return tuple(sorted(converted))

    def convert_symbols(self, found: Sequence[WireSymbol], *, inside_only: bool = False) -> tuple[Symbol, ...]:
        converted = [self._convert_symbol(wire) for wire in found]
        return tuple(symbol for symbol in converted if not (inside_only and symbol.path.startswith("/")))

    def _convert_location(self, wire: WireLocation, *, whole: bool) -> Location:
        line = wire.range.start.line + 1
        end_line = (wire.whole if whole else wire.range).end.line + 1
        try:
            path = self.path(wire.uri)
        except ToolError:
            return Location(_display_name(wire.uri), line, end_line, outside=True)
        return Location(path, line, end_line, "" if whole else self._line_text(path, line))

    def _convert_symbol(self, wire: WireSymbol) -> Symbol:
        line, end_line = wire.range.start.line + 1, wire.whole.end.line + 1
        try:
            path = self.path(wire.uri)
        except ToolError:
            return Symbol(wire.name, wire.kind, _display_name(wire.uri), line, end_line)
        text = self._line_text(path, line)
        return Symbol(wire.name, wire.kind, path, line, end_line, text, wire.container, wire.depth)

    def _line_text(self, path: str, line: int) -> str:
        source = self.find(path)
        return source.line(line).strip()[:_TEXT_CHARS] if source is not None else ""


def _display_name(uri: str) -> str:
    return urllib.parse.unquote(uri.removeprefix("file://"))[:500]
