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
from aish.tools.code.answer import Spot
from aish.tools.code.backends.lsp_places import Files
from aish.tools.code.edits.port import FileEdit
from aish.tools.code.files.source import Source
from aish.tools.code.lsp import answers
from aish.tools.code.lsp.edits import file_edits
from aish.tools.code.lsp.positions import Position, Range, TextMap
from aish.tools.code.lsp.server import Session

# The messages of current and of older clangd.
_TOO_MANY = ("affected files exceeds the max limit", "too many files")
_QUOTES = "\"'`"


async def rename_edits(
    session: Session, files: Files, source: Source, spot: Spot, new_name: str
) -> tuple[FileEdit, ...]:
    connection = session.connection
    at = TextMap(source.lines, connection.encoding).position(spot.line - 1, spot.column)
    here = _where(session.documents.uri(source.path), at)
    declared, where = await _declaration(session, files, source, here, spot.symbol)
    with session.documents.held(declared.path):
        await session.documents.sync(declared)
        edit = await _renamed(session, where, new_name)
    if not edit:
        raise ToolError(f"{connection.spec.name} cannot rename {spot.symbol}")
    return file_edits(edit, files, connection.encoding, replaces=lambda old: old.strip(_QUOTES) == spot.symbol)


async def _renamed(session: Session, where: dict[str, Any], new_name: str) -> object:
    try:
        return answers.decoded(
            await session.connection.request("textDocument/rename", {**where, "newName": new_name}), object
        )
    except RpcError as exc:
        if not any(phrase in exc.message for phrase in _TOO_MANY):
            raise
    return await _from_references(session, where, new_name)


async def _declaration(
    session: Session, files: Files, here: Source, where: dict[str, Any], symbol: str
) -> tuple[Source, dict[str, Any]]:
    """Returns the declaration if it is in the workspace and has the same name; otherwise the given position."""
    connection = session.connection
    if not connection.can("textDocument/definition"):
        return here, where
    for place in answers.places(await connection.request("textDocument/definition", where)):
        source = _inside(files, place.uri, symbol)
        if _text(source, place.range, files) == symbol:
            return source, _where(session.documents.uri(source.path), place.range.start)
    return here, where


def _inside(files: Files, uri: str, symbol: str) -> Source:
    try:
        return files.get(uri)
    except ToolError as exc:
        raise ToolError(f"{symbol} is not this project's to rename: {exc.message}") from exc


def _text(source: Source, range: Range, files: Files) -> str:
    start, end = TextMap(source.lines, files.encoding).span(range)
    return source.text[start:end]


async def _from_references(session: Session, where: dict[str, Any], new_name: str) -> dict[str, Any]:
    params = {**where, "context": {"includeDeclaration": True}}
    found = answers.places(await session.connection.request("textDocument/references", params))
    changes: dict[str, list[dict[str, Any]]] = {}
    for place in found:
        edit = {"range": msgspec.to_builtins(place.range), "newText": new_name}
        if edit not in changes.setdefault(place.uri, []):
            changes[place.uri].append(edit)
    return {"changes": changes}


def _where(uri: str, position: Position) -> dict[str, Any]:
    return {"textDocument": {"uri": uri}, "position": msgspec.to_builtins(position)}
