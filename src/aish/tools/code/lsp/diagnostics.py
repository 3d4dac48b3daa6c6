"""Gets diagnostics for exactly the text that was sent, however a server delivers them.

Some servers push, some are asked, and some register for being asked up to a second after a file was opened. So we wait
for whichever comes first. A reply to our request is fresh, and so is a push with our version. A push with a version
that was not sent yet is ignored. A push without a version may be about an older text or incomplete, so we wait until no
more come and mark it. After the deadline the report is not fresh, never just empty.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from aish.errors import WireTimeout
from aish.net.jsonrpc_message import parse_integer
from aish.tools.code.lsp.connection import LspConnection
from aish.tools.code.lsp.documents import Documents, OpenDocument
from aish.tools.code.lsp.results import Position, Range, WireDiagnostic, decode_as, decode_diagnostics
from aish.tools.code.lsp.server_messages import PULL, PushedDiagnostics

# Waiting times after a push without a version. An empty one is often only the first of two.
QUIET_S = 0.4
QUIET_EMPTY_S = 1.2


class DiagnosticReport(msgspec.Struct, frozen=True):
    """`fresh`: about exactly the text that was sent. Neither fresh nor `is_final`: the last known diagnostics."""

    problems: tuple[WireDiagnostic, ...]
    fresh: bool = False
    is_final: bool = False


async def diagnose(
    connection: LspConnection, documents: Documents, path: str, opened: OpenDocument, *, timeout_s: float
) -> DiagnosticReport:
    """Never raises WireTimeout: after the deadline the report is not fresh."""
    uri = documents.uri(path)
    try:
        async with asyncio.timeout(timeout_s):
            return await _get_first(
                connection, uri, lambda: _matching_versions(documents.find(path), opened), opened, timeout_s
            )
    except (TimeoutError, WireTimeout):
        known = connection.incoming.find_pushed(uri)
        return DiagnosticReport(known.problems if known else ())


def _matching_versions(now: OpenDocument | None, opened: OpenDocument) -> tuple[int, int]:
    """Returns the versions of our text: the one we sent, and a later one with the same content."""
    again = now if now is not None and now.hash == opened.hash else opened
    return opened.version, again.version


async def _get_first(
    connection: LspConnection, uri: str, versions: Callable[[], tuple[int, int]], opened: OpenDocument, timeout_s: float
) -> DiagnosticReport:
    incoming = connection.incoming
    if connection.spec.ask_compiler:
        found = await ask_compiler(connection, uri, timeout_s=timeout_s)
        return DiagnosticReport(found, fresh=True, is_final=True)
    while True:
        if connection.can_answer(PULL):
            return await _pull(connection, uri, timeout_s)
        pushed = incoming.find_pushed(uri)
        if pushed is not None and pushed.version in versions():
            return DiagnosticReport(pushed.problems, fresh=True, is_final=True)
        if pushed is not None and pushed.version is None and pushed.number > opened.pushes:
            if await _is_quiet(connection, uri, pushed):
                return DiagnosticReport(pushed.problems, is_final=True)
            continue
        await incoming.wait_changed()


async def _pull(connection: LspConnection, uri: str, timeout_s: float) -> DiagnosticReport:
    raw = await connection.request(PULL, {"textDocument": {"uri": uri}}, timeout_s=timeout_s)
    answer: dict[str, Any] = decode_as(raw, dict[str, Any])
    items = answer.get("items")
    if not isinstance(items, list):  # "unchanged", although we gave no earlier result
        return DiagnosticReport(())
    return DiagnosticReport(tuple(decode_diagnostics(items)), fresh=True, is_final=True)


async def _is_quiet(connection: LspConnection, uri: str, pushed: PushedDiagnostics) -> bool:
    """Whether no other push for this file comes for a while."""
    try:
        async with asyncio.timeout(QUIET_S if pushed.problems else QUIET_EMPTY_S):
            while connection.incoming.find_pushed(uri) is pushed:
                await connection.incoming.wait_changed()
    except TimeoutError:
        return True
    return False


COMMAND = "typescript.tsserverRequest"
_QUESTIONS = ("syntacticDiagnosticsSync", "semanticDiagnosticsSync")
_SEVERITIES = {"error": "error", "warning": "warning", "suggestion": "hint", "message": "info"}


async def ask_compiler(connection: LspConnection, uri: str, *, timeout_s: float) -> tuple[WireDiagnostic, ...]:
    """Requests diagnostics from the TypeScript compiler (before version 7) behind the language server.

    The server itself only pushes them, without a version, and pushes nothing if there were none before and are none
    now. So "none" and "not yet" look the same. A reply to `typescript.tsserverRequest` is about our text.
    Raises RpcError and WireTimeout.
    """
    found: list[WireDiagnostic] = []
    for question in _QUESTIONS:
        params = {"command": COMMAND, "arguments": [question, {"file": uri}, {}]}
        raw = await connection.request("workspace/executeCommand", params, timeout_s=timeout_s)
        answer = decode_as(raw, dict[str, Any])
        body = answer.get("body")
        found += (
            [decode_compiler_diagnostic(item) for item in body if isinstance(item, dict)]
            if isinstance(body, list)
            else []
        )
    return tuple(found)


def decode_compiler_diagnostic(item: dict[str, Any]) -> WireDiagnostic:
    range = Range(_position(item.get("start")), _position(item.get("end")))
    severity = _SEVERITIES.get(str(item.get("category")), "error")
    code, message = str(item.get("code", "")), str(item.get("text", ""))
    raw = {"range": _to_dict(range), "message": message, "code": item.get("code"), "source": "typescript"}
    return WireDiagnostic(range, message, severity, source="typescript", code=code, raw=raw)


def _position(given: object) -> Position:
    """Converts from positions that count from 1."""
    fields = given if isinstance(given, dict) else {}
    line, offset = parse_integer(fields.get("line")) or 1, parse_integer(fields.get("offset")) or 1
    return Position(max(0, line - 1), max(0, offset - 1))


def _to_dict(range: Range) -> dict[str, Any]:
    ends = {"start": range.start, "end": range.end}
    return {name: {"line": end.line, "character": end.character} for name, end in ends.items()}
