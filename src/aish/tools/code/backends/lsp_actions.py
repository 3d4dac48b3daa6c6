"""Lists the code actions of a server and resolves one into an edit: direct, resolved later, or made by a command.

Commands may only edit files. Other effects of a server's command happen inside the server.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from aish.errors import ToolError
from aish.tools.code.answer import Fix
from aish.tools.code.backends.lsp_locations import ServerFiles
from aish.tools.code.edits.port import FileEdit
from aish.tools.code.files.source import SourceText
from aish.tools.code.lsp import decoding
from aish.tools.code.lsp.diagnostics import diagnose
from aish.tools.code.lsp.edits import file_edits
from aish.tools.code.lsp.positions import Position, Range, TextMap
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
    found = decoding.decode_as(await session.connection.request("textDocument/codeAction", params), object)
    listed = found[:_MAX_ACTIONS] if isinstance(found, list) else []
    usable = [item for item in listed if isinstance(item, dict) and not item.get("disabled")]
    seen: Counter[tuple[str, str]] = Counter()
    return [Action(_fix_for(source, item, seen), item) for item in usable]


async def perform(session: ServerSession, files: ServerFiles, action: Action) -> tuple[FileEdit, ...]:
    """Returns the edits of an action. Raises ToolError if it does not edit files."""
    connection, raw = session.connection, action.raw
    if "edit" not in raw and not isinstance(raw.get("command"), str) and "data" in raw:
        raw = decoding.decode_as(await connection.request("codeAction/resolve", raw), dict[str, Any])
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
