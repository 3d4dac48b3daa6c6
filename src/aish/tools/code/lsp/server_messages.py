"""Handles messages that a server sends by itself: registrations, requests for settings, pushed diagnostics, progress.

Everything is bounded and answered at once; unknown requests get -32601. A server's own edit is refused, unless one of
our code actions asked for it: then it is captured for that action.
"""

from __future__ import annotations

import asyncio
import urllib.parse
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from aish.errors import BadResponse
from aish.net.jsonrpc_message import METHOD_NOT_FOUND, RpcError
from aish.tools.code.lsp.results import WireDiagnostic, decode_as, decode_diagnostics

_MAX_REGISTRATIONS = 200
_MAX_FILES = 2000  # with pushed diagnostics; the oldest are dropped
_MAX_PROBLEMS = 1000  # of one file
_MAX_TOKENS = 200
_LOG_LINES, _LOG_CHARS = 50, 500
_MAX_CAPTURED = 16
PULL = "textDocument/diagnostic"

_REFRESHES = frozenset(
    f"workspace/{what}/refresh"
    for what in ("diagnostic", "diagnostics", "semanticTokens", "inlayHint", "codeLens", "foldingRange", "inlineValue")
)


class PushedDiagnostics(msgspec.Struct, frozen=True):
    """`number` orders all pushes of a server; `version` is None if the server gives none."""

    number: int
    version: int | None
    problems: tuple[WireDiagnostic, ...]


class ServerMessages:
    """The message handler of one connection."""

    def __init__(self, folder: Mapping[str, str], settings: Mapping[str, Any], *, loaded_log: str = "") -> None:
        self._loaded_log = loaded_log
        self._loaded = not loaded_log
        self.pushes = 0
        self.log: deque[str] = deque(maxlen=_LOG_LINES)
        self._folder = folder
        self._settings = settings
        self._registered: dict[str, str] = {}
        self._pushed: dict[str, PushedDiagnostics] = {}
        self._busy: dict[str, str] = {}
        self._captured: list[Any] | None = None
        self._changed = asyncio.Event()

    def has_registered(self, method: str) -> bool:
        return method in self._registered.values()

    def find_pushed(self, uri: str) -> PushedDiagnostics | None:
        return self._pushed.get(urllib.parse.unquote(uri))  # servers escape differently

    @property
    def busy(self) -> str:
        """What the server says it is doing; "" if nothing."""
        return next(iter(self._busy.values()), "") if self._loaded else "loading the project"

    async def wait_changed(self) -> None:
        """Waits until something is pushed, registered or reported."""
        await self._changed.wait()

    @contextmanager
    def capture_edits(self) -> Iterator[list[Any]]:
        """Collects the edits that the server applies meanwhile."""
        captured: list[Any] = []
        self._captured = captured
        try:
            yield captured
        finally:
            self._captured = None

    # The handler's methods for `Peer`.

    async def request(self, method: str, params: msgspec.Raw) -> Any:
        body = _as_object(params)
        match method:
            case "client/registerCapability":
                self._register(body.get("registrations"))
            case "client/unregisterCapability":
                self._unregister(body.get("unregisterations"))  # the protocol's own spelling
            case "workspace/configuration":
                return self._configuration(body.get("items"))
            case "workspace/workspaceFolders":
                return [dict(self._folder)]
            case "workspace/applyEdit":
                return self._capture(body.get("edit"))
            case "window/showDocument":
                return {"success": False}
            case "window/workDoneProgress/create" | "window/showMessageRequest":
                return None
            case _ if method in _REFRESHES:
                self._notify_changed()
            case _:
                raise RpcError(METHOD_NOT_FOUND, f"{method} is not supported")
        return None

    def notification(self, method: str, params: msgspec.Raw) -> None:
        # A malformed notification is ignored.
        with suppress(BadResponse, TypeError, ValueError):
            match method:
                case "textDocument/publishDiagnostics":
                    self._push(_as_object(params))
                case "$/progress":
                    self._progress(_as_object(params))
                case "window/logMessage" | "window/showMessage":
                    self._add_log(str(_as_object(params).get("message", ""))[:_LOG_CHARS])

    def _register(self, items: object) -> None:
        for item in items if isinstance(items, list) else []:
            if isinstance(item, dict) and len(self._registered) < _MAX_REGISTRATIONS:
                self._registered[str(item.get("id"))] = str(item.get("method"))
        self._notify_changed()

    def _unregister(self, items: object) -> None:
        for item in items if isinstance(items, list) else []:
            if isinstance(item, dict):
                self._registered.pop(str(item.get("id")), None)

    def _configuration(self, items: object) -> list[Any]:
        sections = [item.get("section") if isinstance(item, dict) else None for item in _as_list(items)[:100]]
        return [_find_section(self._settings, section) for section in sections]

    def _capture(self, edit: object) -> dict[str, Any]:
        if self._captured is None or len(self._captured) >= _MAX_CAPTURED:
            return {"applied": False, "failureReason": "no edit was requested"}
        self._captured.append(edit)
        return {"applied": True}

    def _push(self, body: dict[str, Any]) -> None:
        uri, version = urllib.parse.unquote(str(body.get("uri", ""))), body.get("version")
        self.pushes += 1
        found = decode_diagnostics(_as_list(body.get("diagnostics"))[:_MAX_PROBLEMS])
        self._pushed.pop(uri, None)
        self._pushed[uri] = PushedDiagnostics(self.pushes, version if isinstance(version, int) else None, tuple(found))
        if len(self._pushed) > _MAX_FILES:
            del self._pushed[next(iter(self._pushed))]
        self._notify_changed()

    def _progress(self, body: dict[str, Any]) -> None:
        token, value = str(body.get("token")), body.get("value")
        kind = value.get("kind") if isinstance(value, dict) else None
        if kind == "begin" and len(self._busy) < _MAX_TOKENS:
            assert isinstance(value, dict)
            self._busy[token] = str(value.get("title", "") or "working")[:100]
            self._notify_changed()
        elif kind == "end" and self._busy.pop(token, None) is not None:
            self._notify_changed()

    def _add_log(self, line: str) -> None:
        self.log.append(line)
        if not self._loaded and self._loaded_log in line:
            self._loaded = True
            self._notify_changed()

    def _notify_changed(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def _as_object(params: msgspec.Raw) -> dict[str, Any]:
    body = decode_as(params, object)
    return body if isinstance(body, dict) else {}


def _as_list(items: object) -> list[Any]:
    return items if isinstance(items, list) else []


def _find_section(settings: Mapping[str, Any], section: object) -> Any:
    value: Any = settings
    for name in str(section).split(".") if isinstance(section, str) and section else ():
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
