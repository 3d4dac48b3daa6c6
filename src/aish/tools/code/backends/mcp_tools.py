"""Finds the IDE's tool for a question and fills in its arguments.

Tools are named `lsp.hover`, `lsp_hover`, `lsp/hover` and so on. Arguments are filled in by the names in the tool's
schema. `position` and `character` count from 0 as in the language server protocol; `line` and `column` count from 1,
unless their schema has a minimum of 0. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from aish.tools.code.answer import SymbolPosition
from aish.tools.code.files.source import SourceText
from aish.tools.code.ide_tool_names import canonical_name
from aish.tools.code.lsp.documents import file_uri
from aish.tools.code.lsp.positions import units_before
from aish.types.tools import ToolSpec

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
    language_table = properties if isinstance(properties, Mapping) else {}
    filled = {name: _value(name, schema, request) for name, schema in language_table.items()}
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
