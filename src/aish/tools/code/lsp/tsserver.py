"""Diagnostics of TypeScript before version 7, requested from the compiler behind the language server.

The server only pushes them, without a version, and pushes nothing if there were none before and are none now. So "none"
and "not yet" look the same. A reply to its command `typescript.tsserverRequest` is about our text.
"""

from __future__ import annotations

from typing import Any

from aish.net.jsonrpc_message import integer
from aish.tools.code.lsp.answers import WireProblem, decoded
from aish.tools.code.lsp.connection import Connection
from aish.tools.code.lsp.positions import Position, Range

COMMAND = "typescript.tsserverRequest"
_QUESTIONS = ("syntacticDiagnosticsSync", "semanticDiagnosticsSync")
_SEVERITIES = {"error": "error", "warning": "warning", "suggestion": "hint", "message": "info"}


async def ask_compiler(connection: Connection, uri: str, *, timeout_s: float) -> tuple[WireProblem, ...]:
    """Raises RpcError and WireTimeout."""
    found: list[WireProblem] = []
    for question in _QUESTIONS:
        params = {"command": COMMAND, "arguments": [question, {"file": uri}, {}]}
        raw = await connection.request("workspace/executeCommand", params, timeout_s=timeout_s)
        answer = decoded(raw, dict[str, Any])
        body = answer.get("body")
        found += [read_problem(item) for item in body if isinstance(item, dict)] if isinstance(body, list) else []
    return tuple(found)


def read_problem(item: dict[str, Any]) -> WireProblem:
    range = Range(_position(item.get("start")), _position(item.get("end")))
    severity = _SEVERITIES.get(str(item.get("category")), "error")
    code, message = str(item.get("code", "")), str(item.get("text", ""))
    raw = {"range": _plain(range), "message": message, "code": item.get("code"), "source": "typescript"}
    return WireProblem(range, message, severity, source="typescript", code=code, raw=raw)


def _position(place: object) -> Position:
    """Converts from positions that count from 1."""
    table = place if isinstance(place, dict) else {}
    line, offset = integer(table.get("line")) or 1, integer(table.get("offset")) or 1
    return Position(max(0, line - 1), max(0, offset - 1))


def _plain(range: Range) -> dict[str, Any]:
    ends = {"start": range.start, "end": range.end}
    return {name: {"line": end.line, "character": end.character} for name, end in ends.items()}
