"""Answers questions with an IDE over MCP, which owns the workspace and knows unsaved text.

The IDE answers with JSON in the shapes of the language server protocol, or with lines `path:line: text`. What it does
not offer, the syntax tree answers. No language server is started beside an IDE.

Tools are named `lsp.hover`, `lsp_hover`, `lsp/hover` and so on. Arguments are filled in by the names in the tool's
schema. `position` and `character` count from 0 as in the language server protocol; `line` and `column` count from 1,
unless their schema has a minimum of 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from aish.errors import BadResponse, ToolError
from aish.tools.code.backends.lsp_locations import ServerFiles
from aish.tools.code.backends.port import (
    AnswerStatus,
    CodeAnswer,
    CodeBackend,
    Diagnostic,
    Edits,
    Fix,
    FixEdits,
    Location,
    Symbol,
    SymbolPosition,
)
from aish.tools.code.files.source import SourceText
from aish.tools.code.ide_tool_names import canonical_name
from aish.tools.code.lsp import results
from aish.tools.code.lsp.documents import file_uri
from aish.tools.code.lsp.edits import file_edits
from aish.tools.code.lsp.results import units_before
from aish.tools.workspace import Workspace
from aish.types.messages import text_of
from aish.types.tools import Arguments, ResultStatus, ToolOutput, ToolSpec

# For each of our questions the names that the tool may have.
_NAMES: Mapping[str, tuple[str, ...]] = {
    "hover": ("lsp.hover",),
    "definition": ("lsp.definition", "lsp.goto_definition", "lsp.go_to_definition"),
    "references": ("lsp.references", "lsp.find_references"),
    "outline": ("lsp.document_symbols", "lsp.document_symbol", "lsp.outline"),
    "symbols": ("lsp.workspace_symbols", "lsp.workspace_symbol", "lsp.symbols"),
    "diagnostics": ("lsp.diagnostics", "lsp.get_diagnostics"),
    "rename": ("lsp.rename", "lsp.rename_symbol"),
    "format": ("lsp.format", "lsp.formatting", "lsp.format_document"),
    "read": ("fs.read", "fs.read_file"),
    "write": ("fs.write", "fs.write_file"),
}
_PATHS = frozenset({"path", "file", "file_path", "filepath", "filename", "filePath"})
_URIS = frozenset({"uri", "url", "document", "textDocument"})
_QUERIES = frozenset({"query", "pattern"})
_SYMBOLS = frozenset({"symbol", "name", "word", "symbol_name"})
_NEW_NAMES = frozenset({"new_name", "newName"})
_CONTENTS = frozenset({"content", "contents", "text"})


class ToolRequest(msgspec.Struct, frozen=True):
    """What a question is about."""

    root: Path
    path: str = ""
    source: SourceText | None = None
    spot: SymbolPosition | None = None
    query: str = ""
    new_name: str = ""
    content: str = ""


def find_tool(specs: Iterable[ToolSpec], what: str) -> ToolSpec | None:
    by_name = {canonical_name(spec.name): spec for spec in specs}
    return next((by_name[name] for name in _NAMES[what] if name in by_name), None)


def arguments_for(spec: ToolSpec, request: ToolRequest) -> dict[str, Any]:
    properties = spec.schema.get("properties")
    schemas = properties if isinstance(properties, Mapping) else {}
    filled = {name: _value(name, schema, request) for name, schema in schemas.items()}
    return {name: value for name, value in filled.items() if value is not None}


def _value(name: str, schema: object, request: ToolRequest) -> Any:
    """Returns the value for an argument; None if we have none."""
    spot = request.spot
    if name in _PATHS:
        return request.path or None
    if name in _URIS:
        uri = file_uri(request.root, request.path)
        return {"uri": uri} if name == "textDocument" else uri
    if name in _QUERIES:
        return request.query or None
    if name in _SYMBOLS:
        return spot.symbol if spot else request.query or None
    if name in _NEW_NAMES:
        return request.new_name or None
    if name in _CONTENTS:
        return request.content
    return _position_value(name, schema, spot, request.source) if spot else None


def _position_value(name: str, schema: object, spot: SymbolPosition, source: SourceText | None) -> Any:
    units = units_before(source.line(spot.line), spot.column, "utf-16") if source else spot.column
    from_zero = isinstance(schema, Mapping) and schema.get("minimum") == 0
    match name:
        case "position":
            return {"line": spot.line - 1, "character": units}
        case "line":
            return spot.line - from_zero
        case "character":
            return units
        case "column" | "col":
            return units + (not from_zero)
    return None


_LOCATION_LINE = re.compile(r"\s*(?P<path>[^\s:][^:\n]*):(?P<line>\d+)(?::\d+)?:?\s*(?P<text>.*)")
_PROBLEM = re.compile(r"(error|warning|info|hint)\b[:\s]*", re.IGNORECASE)
_MAX_LINES = 5000


class IdeSession(Protocol):
    """A connected MCP server."""

    async def call_tool(self, name: str, arguments: Arguments) -> ToolOutput: ...


class McpBackend:
    def __init__(
        self, name: str, specs: Sequence[ToolSpec], session: IdeSession, space: Workspace, tree: CodeBackend
    ) -> None:
        self.name = f"mcp:{name}"
        self._specs = specs
        self._session = session
        self._space = space
        self._tree = tree

    async def hover(self, source: SourceText, spot: SymbolPosition) -> CodeAnswer[str]:
        text = await self._ask("hover", self._request_for(source, spot))
        if text is None:
            return await self._tree.hover(source, spot)
        return CodeAnswer(_hover_text(text), self.name)

    async def definition(self, source: SourceText, spot: SymbolPosition) -> CodeAnswer[tuple[Location, ...]]:
        text = await self._ask("definition", self._request_for(source, spot))
        return await self._tree.definition(source, spot) if text is None else self._locations_answer(text, whole=True)

    async def references(self, source: SourceText, spot: SymbolPosition) -> CodeAnswer[tuple[Location, ...]]:
        text = await self._ask("references", self._request_for(source, spot))
        return await self._tree.references(source, spot) if text is None else self._locations_answer(text)

    async def outline(self, source: SourceText) -> CodeAnswer[tuple[Symbol, ...]]:
        text = await self._ask("outline", self._request_for(source))
        if text is None:
            return await self._tree.outline(source)
        raw = msgspec.Raw(text.encode())
        return CodeAnswer(
            self._files().convert_symbols(results.decode_symbols(raw, self._space.root.as_uri() + "/" + source.path)),
            self.name,
        )

    async def symbols(self, query: str, limit: int) -> CodeAnswer[tuple[Symbol, ...]]:
        text = await self._ask("symbols", ToolRequest(self._root, query=query))
        if text is None:
            return await self._tree.symbols(query, limit)
        return CodeAnswer(
            self._files().convert_symbols(results.decode_symbols(msgspec.Raw(text.encode())), inside_only=True),
            self.name,
        )

    async def diagnostics(self, source: SourceText, wait_s: float) -> CodeAnswer[tuple[Diagnostic, ...]]:
        text = await self._ask("diagnostics", self._request_for(source))
        if text is None:
            return await self._tree.diagnostics(source, wait_s)
        found = _parse_json(text)
        if isinstance(found, dict):  # a diagnostic report, or the params of a push
            found = found.get("items", found.get("diagnostics"))
        if isinstance(found, list):
            wires = results.decode_diagnostics(found)
            return CodeAnswer(tuple(_diagnostic_of(source.path, wire) for wire in wires), self.name)
        listed = [_parse_problem(location) for location in _parse_locations(text)]
        if not listed and text.strip():
            return CodeAnswer((), self.name, AnswerStatus.PARTIAL, f"the IDE says: {text.strip()[:300]}")
        return CodeAnswer(tuple(listed), self.name)

    async def rename(self, source: SourceText, spot: SymbolPosition, new_name: str) -> CodeAnswer[Edits]:
        text = await self._ask("rename", self._request_for(source, spot, new_name=new_name))
        return await self._tree.rename(source, spot, new_name) if text is None else self._edits_answer(text)

    async def format(self, source: SourceText) -> CodeAnswer[Edits]:
        text = await self._ask("format", self._request_for(source))
        if text is None:
            return await self._tree.format(source)
        found = _parse_json(text)
        if isinstance(found, list):
            found = {"changes": {source.path: found}}
        return self._edits_answer(msgspec.json.encode(found).decode() if found is not None else text)

    async def fixes(self, source: SourceText, line: int, end_line: int) -> CodeAnswer[tuple[Fix, ...]]:
        return await self._tree.fixes(source, line, end_line)

    async def fix(self, source: SourceText, line: int, end_line: int, key: str) -> CodeAnswer[FixEdits | None]:
        return await self._tree.fix(source, line, end_line, key)

    # Files, if the IDE offers them.

    def offers_files(self) -> bool:
        return all(find_tool(self._specs, what) is not None for what in ("read", "write"))

    async def read(self, path: str) -> str | None:
        """Returns the IDE's text, saved or not; None if it does not offer to read files."""
        return await self._ask("read", ToolRequest(self._root, path=path))

    async def write(self, path: str, content: str) -> None:
        if await self._ask("write", ToolRequest(self._root, path=path, content=content)) is None:
            raise ToolError(f"{self.name} does not offer to write files")

    @property
    def _root(self) -> Path:
        return self._space.root

    def _request_for(
        self, source: SourceText, spot: SymbolPosition | None = None, *, new_name: str = ""
    ) -> ToolRequest:
        return ToolRequest(self._root, source.path, source, spot, new_name=new_name)

    def _files(self) -> ServerFiles:
        return ServerFiles(self._space, "utf-16")

    async def _ask(self, what: str, wanted: ToolRequest) -> str | None:
        """Returns the text of the answer; None if the IDE has no such tool."""
        spec = find_tool(self._specs, what)
        if spec is None:
            return None
        output = await self._session.call_tool(spec.name, arguments_for(spec, wanted))
        text = text_of(output.parts)
        if output.is_error:
            raise ToolError(f"{self.name} answered: {text[:500]}", status=ResultStatus.RPC_ERROR)
        return text

    def _locations_answer(self, text: str, *, whole: bool = False) -> CodeAnswer[tuple[Location, ...]]:
        try:
            found = results.decode_locations(msgspec.Raw(text.encode()))
        except BadResponse:
            return CodeAnswer(tuple(sorted(self._relative(location) for location in _parse_locations(text))), self.name)
        return CodeAnswer(self._files().convert_locations(found, whole=whole), self.name)

    def _relative(self, location: Location) -> Location:
        """Makes the path relative. A location outside the workspace is named but not read."""
        try:
            return msgspec.structs.replace(location, path=self._space.relative(location.path))
        except ToolError:
            return msgspec.structs.replace(location, outside=True)

    def _edits_answer(self, text: str) -> CodeAnswer[Edits]:
        edit = _parse_json(text)
        if not isinstance(edit, dict) or not {"changes", "documentChanges"} & edit.keys():
            raise ToolError(f"{self.name} did not answer with an edit: {text[:300]}")
        return CodeAnswer(file_edits(edit, self._files(), "utf-16"), self.name)


def _parse_json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


def _hover_text(text: str) -> str:
    found = _parse_json(text)
    return results.decode_hover(msgspec.Raw(text.encode())) if isinstance(found, dict) and "contents" in found else text


def _parse_locations(text: str) -> list[Location]:
    found = [_LOCATION_LINE.fullmatch(line) for line in text.splitlines()[:_MAX_LINES]]
    return [
        Location(wire["path"], int(wire["line"]), int(wire["line"]), wire["text"].strip()) for wire in found if wire
    ]


def _diagnostic_of(path: str, wire: results.WireDiagnostic) -> Diagnostic:
    return Diagnostic(path, wire.range.start.line + 1, wire.severity, wire.message, wire.source, wire.code)


def _parse_problem(location: Location) -> Diagnostic:
    severity = _PROBLEM.match(location.text)
    message = location.text[severity.end() :] if severity else location.text
    return Diagnostic(location.path, location.line, severity[1].lower() if severity else "error", message)
