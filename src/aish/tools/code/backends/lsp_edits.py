"""Computes edits with a language server: renames and code actions.

A code action edits directly, is resolved later, or is made by a command. Commands may only edit files. Other effects of
a server's command happen inside the server.

Before a rename the definition is resolved, because at a use some servers rename only the import. Every replaced text
must be the old name, so an outdated index cannot rename something else. If the server refuses because too many files
are affected, the edit is built from the references.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from aish.errors import ToolError
from aish.net.jsonrpc import RpcError
from aish.tools.code.backends.lsp_locations import ServerFiles
from aish.tools.code.backends.port import Fix, SymbolPosition
from aish.tools.code.edits.records import FileEdit
from aish.tools.code.files.source import SourceText
from aish.tools.code.lsp import results
from aish.tools.code.lsp.diagnostics import diagnose
from aish.tools.code.lsp.edits import file_edits
from aish.tools.code.lsp.results import Position, Range, TextMap
from aish.tools.code.lsp.server import ServerSession

_MAX_ACTIONS = 100
_TITLE_CHARS = 200
_PROBLEMS_WAIT_S = 1.5


class Action(msgspec.Struct, frozen=True):
    fix: Fix
    raw: dict[str, Any]


async def list_actions(session: ServerSession, source: SourceText, line: int, end_line: int) -> Sequence[Action]:
    params = {
        "textDocument": {"uri": session.documents.uri(source.path)},
        "range": msgspec.to_builtins(_range(session, source, line, end_line)),
        "context": {"diagnostics": await _raw_diagnostics(session, source, line, end_line), "triggerKind": 1},
    }
    found = results.decode_as(await session.connection.request("textDocument/codeAction", params), object)
    listed = found[:_MAX_ACTIONS] if isinstance(found, list) else []
    usable = [item for item in listed if isinstance(item, dict) and not item.get("disabled")]
    seen: Counter[tuple[str, str]] = Counter()
    return [Action(_fix_for(source, item, seen), item) for item in usable]


async def perform(session: ServerSession, files: ServerFiles, action: Action) -> tuple[FileEdit, ...]:
    """Returns the edits of an action. Raises ToolError if it does not edit files."""
    connection, raw = session.connection, action.raw
    if "edit" not in raw and not isinstance(raw.get("command"), str) and "data" in raw:
        raw = results.decode_as(await connection.request("codeAction/resolve", raw), dict[str, Any])
    edits = [raw["edit"]] if raw.get("edit") else []
    command = raw if isinstance(raw.get("command"), str) else raw.get("command")
    if not edits and isinstance(command, dict):
        with connection.incoming.capture_edits() as edits:
            params = {"command": command.get("command"), "arguments": command.get("arguments") or []}
            await connection.request("workspace/executeCommand", params)
    if len(edits) != 1:
        raise ToolError(f"'{action.fix.title}' is not an edit of files" if not edits else "it edits more than once")
    return file_edits(edits[0], files, connection.encoding)


def _fix_for(source: SourceText, item: dict[str, Any], seen: Counter[tuple[str, str]]) -> Fix:
    """Numbers equal offers, so that each has a key of its own. Servers keep their order as long as the text is the
    same."""
    title, kind = str(item.get("title", ""))[:_TITLE_CHARS], str(item.get("kind") or "")
    seen[title, kind] += 1
    key = hashlib.sha256(f"{source.hash}\0{title}\0{kind}\0{seen[title, kind]}".encode()).hexdigest()[:8]
    return Fix(key, title, kind, preferred=item.get("isPreferred") is True)


def _range(session: ServerSession, source: SourceText, line: int, end_line: int) -> Range:
    last = source.line(end_line)
    end = TextMap(source.lines, session.connection.encoding).position(end_line - 1, len(last))
    return Range(Position(line - 1, 0), end)


async def _raw_diagnostics(session: ServerSession, source: SourceText, line: int, end_line: int) -> list[Any]:
    """Returns the raw diagnostics in these lines. Most fixes belong to one of them."""
    documents = session.documents
    opened = await documents.sync(source)
    report = await diagnose(session.connection, documents, source.path, opened, timeout_s=_PROBLEMS_WAIT_S)
    lines = range(line - 1, end_line)
    return [one.raw for one in report.problems if one.range.start.line in lines or one.range.end.line in lines]


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
        return results.decode_as(
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
    for location in results.decode_locations(await connection.request("textDocument/definition", position)):
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
    found = results.decode_locations(await session.connection.request("textDocument/references", params))
    changes: dict[str, list[dict[str, Any]]] = {}
    for location in found:
        edit = {"range": msgspec.to_builtins(location.range), "newText": new_name}
        if edit not in changes.setdefault(location.uri, []):
            changes[location.uri].append(edit)
    return {"changes": changes}


def _position_params(uri: str, position: Position) -> dict[str, Any]:
    return {"textDocument": {"uri": uri}, "position": msgspec.to_builtins(position)}
