"""Handles the messages that a server sends by itself: progress, logs, announced changes, requests.

Fails closed: sampling, elicitation and roots are never advertised, and a server that requests them gets -32601.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from aish.net.jsonrpc_message import METHOD_NOT_FOUND, RpcError
from aish.tools.mcp.text import Sanitiser, clean
from aish.tools.mcp.types import ListChanged, Listed, OnEvent, OnStatus, ServerLog, ServerWarning

SUBSCRIBE = "subscriptions/listen"
_STATUS_CHARS = 200
_STATUS_EVERY_S = 0.1  # faster updates cannot be read, and a server may report every byte
_LOG_CHARS = 500
_MAX_WARNINGS = 200  # in one session; each is reported once
_CHANGES: dict[str, Listed] = {
    "notifications/tools/list_changed": "tools",
    "notifications/resources/list_changed": "resources",
    "notifications/prompts/list_changed": "prompts",
}


class IncomingMessages:
    """Handles messages that the server sends by itself."""

    def __init__(self, server: str, sanitiser: Sanitiser, on_event: OnEvent | None) -> None:
        self._server = server
        self._sanitiser = sanitiser
        self._on_event = on_event
        self._warned: set[str] = set()
        self._listeners: dict[str, _StatusLine] = {}

    async def request(self, method: str, params: msgspec.Raw) -> Any:
        if method == "ping":
            return {}
        raise RpcError(METHOD_NOT_FOUND, "Method not found")

    def notification(self, method: str, params: msgspec.Raw) -> None:
        if method in _CHANGES:
            self.report_change(_CHANGES[method])
        elif method == "notifications/progress":
            self._progress(_decode_fields(params))
        elif method == "notifications/message":
            self._log(_decode_fields(params))

    def report_change(self, what: Listed) -> None:
        self._emit(ListChanged(self._server, what))

    def warn(self, text: str) -> None:
        """Reports each text once."""
        if text in self._warned or len(self._warned) >= _MAX_WARNINGS:
            return
        self._warned.add(text)
        self._emit(ServerWarning(self._server, self._sanitiser.show_line(text, _LOG_CHARS)))

    def follow_progress(self, token: str, on_status: OnStatus) -> None:
        self._listeners[token] = _StatusLine(on_status)

    def unfollow_progress(self, token: str) -> None:
        self._listeners.pop(token, None)

    def _progress(self, fields: dict[str, Any]) -> None:
        line = self._listeners.get(str(fields.get("progressToken")))
        if line is not None:
            line.show(self._sanitiser.show_line(_progress_text(fields), _STATUS_CHARS))

    def _log(self, fields: dict[str, Any]) -> None:
        data = fields.get("data")
        text = data if isinstance(data, str) else msgspec.json.encode(data).decode()
        level = clean(str(fields.get("level", "info")), 16)
        self._emit(ServerLog(self._server, level, self._sanitiser.show_line(text, _LOG_CHARS)))

    def _emit(self, event: ServerWarning | ListChanged | ServerLog) -> None:
        if self._on_event is not None:
            self._on_event(event)


class _StatusLine:
    def __init__(self, on_status: OnStatus) -> None:
        self._on_status = on_status
        self._next_s = 0.0

    def show(self, text: str) -> None:
        now = asyncio.get_running_loop().time()
        if text and now >= self._next_s:
            self._next_s = now + _STATUS_EVERY_S
            self._on_status(text)


def _progress_text(fields: dict[str, Any]) -> str:
    done, total, message = (
        _format_number(fields.get("progress")),
        _format_number(fields.get("total")),
        fields.get("message"),
    )
    count = f"{done}/{total}" if done and total else done
    return f"{message} ({count})" if isinstance(message, str) and count else str(message or count)


def _format_number(value: object) -> str:
    """Returns "" for anything that is not a number, or too large."""
    try:
        return f"{value:g}" if isinstance(value, int | float) else ""
    except OverflowError:
        return ""


def _decode_fields(params: msgspec.Raw) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(params)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return {}
    return value if isinstance(value, dict) else {}
