"""Renames a symbol exactly with a language server.

The definition is resolved first, because at a use some servers rename only the import. Every replaced text must be the
old name, so an outdated index cannot rename something else. If the server refuses because too many files are affected,
the edit is built from the references.
"""

from __future__ import annotations

from typing import Any

import msgspec

from aish.errors import ToolError
from aish.net.jsonrpc import RpcError
from aish.tools.code.answer import SymbolPosition
from aish.tools.code.backends.lsp_locations import ServerFiles
from aish.tools.code.edits.port import FileEdit
from aish.tools.code.files.source import SourceText
from aish.tools.code.lsp import decoding
from aish.tools.code.lsp.edits import file_edits
from aish.tools.code.lsp.positions import Position, Range, TextMap
from aish.tools.code.lsp.server import ServerSession

# The messages of current and of older clangd.
_TOO_MANY = ("affected files exceeds the max limit", "too many files")
_QUOTES = "\"'`"


async def rename_edits(
    session: ServerSession, files: ServerFiles, source: SourceText, spot: SymbolPosition, new_name: str
) -> tuple[FileEdit, ...]:
    connection = session.connection
    at = TextMap(source.lines, connection.encoding).position(spot.line - 1, spot.column)
    here = _position_params(session.documents.uri(source.path), at)
    declared, position = await _find_declaration(session, files, source, here, spot.symbol)
    with session.documents.keep_open(declared.path):
        await session.documents.sync(declared)
        edit = await _request_rename(session, position, new_name)
    if not edit:
        raise ToolError(f"{connection.spec.name} cannot rename {spot.symbol}")
    return file_edits(edit, files, connection.encoding, replaces=lambda old: old.strip(_QUOTES) == spot.symbol)


async def _request_rename(session: ServerSession, position: dict[str, Any], new_name: str) -> object:
    try:
        return decoding.decode_as(
            await session.connection.request("textDocument/rename", {**position, "newName": new_name}), object
        )
    except RpcError as exc:
        if not any(phrase in exc.message for phrase in _TOO_MANY):
            raise
    return await _edit_from_references(session, position, new_name)


async def _find_declaration(
    session: ServerSession, files: ServerFiles, source: SourceText, position: dict[str, Any], symbol: str
) -> tuple[SourceText, dict[str, Any]]:
    """Returns the declaration if it is in the workspace and has the same name; otherwise the given position."""
    connection = session.connection
    if not connection.can_answer("textDocument/definition"):
        return source, position
    for location in decoding.decode_locations(await connection.request("textDocument/definition", position)):
        declared = _source_inside(files, location.uri, symbol)
        if _text_at(declared, location.range, files) == symbol:
            return declared, _position_params(session.documents.uri(declared.path), location.range.start)
    return source, position


def _source_inside(files: ServerFiles, uri: str, symbol: str) -> SourceText:
    try:
        return files.get(uri)
    except ToolError as exc:
        raise ToolError(f"{symbol} is not this project's to rename: {exc.message}") from exc


def _text_at(source: SourceText, range: Range, files: ServerFiles) -> str:
    start, end = TextMap(source.lines, files.encoding).span(range)
    return source.text[start:end]


async def _edit_from_references(session: ServerSession, position: dict[str, Any], new_name: str) -> dict[str, Any]:
    params = {**position, "context": {"includeDeclaration": True}}
    found = decoding.decode_locations(await session.connection.request("textDocument/references", params))
    changes: dict[str, list[dict[str, Any]]] = {}
    for location in found:
        edit = {"range": msgspec.to_builtins(location.range), "newText": new_name}
        if edit not in changes.setdefault(location.uri, []):
            changes[location.uri].append(edit)
    return {"changes": changes}


def _position_params(uri: str, position: Position) -> dict[str, Any]:
    return {"textDocument": {"uri": uri}, "position": msgspec.to_builtins(position)}
