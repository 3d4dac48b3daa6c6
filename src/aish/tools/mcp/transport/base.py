"""What a session needs of a transport, and what a transport does with what the server starts by itself.

Fail closed: sampling, elicitation and roots are never advertised, and a server that asks all the same gets -32601.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from aish.errors import AishError
from aish.net.jsonrpc_message import METHOD_NOT_FOUND, RpcError
from aish.tools.mcp.text import Sanitiser, clean
from aish.tools.mcp.types import ListChanged, Listed, OnEvent, OnStatus, ServerLog, Warned

SUBSCRIBE = "subscriptions/listen"
_STATUS_CHARS = 200
_STATUS_EVERY_S = 0.1  # a person cannot read faster, and a server may report every byte
_LOG_CHARS = 500
_MAX_WARNINGS = 200  # of one session; each is told once
_CHANGES: dict[str, Listed] = {
    "notifications/tools/list_changed": "tools",
    "notifications/resources/list_changed": "resources",
    "notifications/prompts/list_changed": "prompts",
}


class Transport(Protocol):
    """Carries requests to one server. All failures are AishErrors of the wire, never translated here."""

    async def request(
        self, method: str, params: dict[str, Any], *, timeout_s: float, headers: Sequence[tuple[str, str]] = ()
    ) -> msgspec.Raw:
        """`headers` are for HTTP; other transports have no use for them."""

    async def notify(self, method: str, params: dict[str, Any]) -> None: ...

    def speak(self, version: str, *, stateless: bool) -> None:
        """From now on this revision is spoken."""

    def listen(self) -> None:
        """The server announces changes: hear them, where that takes a connection of its own."""

    def subscribe(self, params: dict[str, Any]) -> None:
        """The same in the stateless era, where a server tells only who has asked for it."""

    def forget_session(self) -> None:
        """The next request starts anew."""

    def stderr_tail(self) -> str: ...

    async def wait_closed(self) -> AishError:
        """Returns why, once the server has gone by itself."""


class Inbox:
    """What the server says without being asked."""

    def __init__(self, server: str, discretion: Sanitiser, on_event: OnEvent | None) -> None:
        self._server = server
        self._discretion = discretion
        self._on_event = on_event
        self._warned: set[str] = set()
        self._listeners: dict[str, _StatusLine] = {}

    async def request(self, method: str, params: msgspec.Raw) -> Any:
        if method == "ping":
            return {}
        raise RpcError(METHOD_NOT_FOUND, "Method not found")

    def notification(self, method: str, params: msgspec.Raw) -> None:
        if method in _CHANGES:
            self.changed(_CHANGES[method])
        elif method == "notifications/progress":
            self._progress(_fields(params))
        elif method == "notifications/message":
            self._log(_fields(params))

    def changed(self, what: Listed) -> None:
        self._tell(ListChanged(self._server, what))

    def warn(self, text: str) -> None:
        """Once for each text."""
        if text in self._warned or len(self._warned) >= _MAX_WARNINGS:
            return
        self._warned.add(text)
        self._tell(Warned(self._server, self._discretion.show_line(text, _LOG_CHARS)))

    def follow(self, token: str, on_status: OnStatus) -> None:
        self._listeners[token] = _StatusLine(on_status)

    def unfollow(self, token: str) -> None:
        self._listeners.pop(token, None)

    def _progress(self, fields: dict[str, Any]) -> None:
        line = self._listeners.get(str(fields.get("progressToken")))
        if line is not None:
            line.show(self._discretion.show_line(_progress_text(fields), _STATUS_CHARS))

    def _log(self, fields: dict[str, Any]) -> None:
        data = fields.get("data")
        text = data if isinstance(data, str) else msgspec.json.encode(data).decode()
        level = clean(str(fields.get("level", "info")), 16)
        self._tell(ServerLog(self._server, level, self._discretion.show_line(text, _LOG_CHARS)))

    def _tell(self, event: Warned | ListChanged | ServerLog) -> None:
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
    done, total, message = _number(fields.get("progress")), _number(fields.get("total")), fields.get("message")
    count = f"{done}/{total}" if done and total else done
    return f"{message} ({count})" if isinstance(message, str) and count else str(message or count)


def _number(value: object) -> str:
    """Empty for what is none, or larger than can be shown."""
    try:
        return f"{value:g}" if isinstance(value, int | float) else ""
    except OverflowError:
        return ""


def _fields(params: msgspec.Raw) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(params)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return {}
    return value if isinstance(value, dict) else {}
