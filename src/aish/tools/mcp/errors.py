"""Errors of an MCP server: which server, which phase, which kind. Foreign errors are translated here.

Messages contain no secrets: text from a server is redacted, stripped of control sequences and cut. The original error
is not chained, because a traceback would show its contents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

from aish.errors import AishError, BadResponse, ProcessExited, TooLarge, ToolError, UsageError, WireError, WireTimeout
from aish.net.jsonrpc_message import RpcError
from aish.tools.mcp.text import Sanitiser
from aish.tools.mcp.types import Phase
from aish.types.tools import ResultStatus

_DETAIL_CHARS = 500
_BODY_CHARS = 4000


class FaultKind(StrEnum):
    TIMEOUT = "timeout"
    EXIT = "exit"
    HTTP = "http"
    RPC = "rpc"
    PROTOCOL = "protocol"
    TOO_LARGE = "too_large"
    UNREACHABLE = "unreachable"  # could not be started or connected to, or disconnected silently


_STATUS = {
    FaultKind.TIMEOUT: ResultStatus.TIMEOUT,
    FaultKind.EXIT: ResultStatus.SERVER_GONE,
    FaultKind.HTTP: ResultStatus.TRANSPORT,
    FaultKind.RPC: ResultStatus.RPC_ERROR,
    FaultKind.PROTOCOL: ResultStatus.TRANSPORT,
    FaultKind.TOO_LARGE: ResultStatus.TRANSPORT,
    FaultKind.UNREACHABLE: ResultStatus.SERVER_GONE,
}


class McpError(ToolError):
    """`code` is the exit code, HTTP status or JSON-RPC code. In the phase "call" the error becomes a result for the
    model."""

    def __init__(
        self,
        server: str,
        phase: Phase,
        kind: FaultKind,
        detail: str,
        *,
        code: int | None = None,
        stderr_tail: str = "",
        body: str = "",
        challenge: str = "",
        hint: str = "",
    ) -> None:
        label = str(kind) if code is None else f"{kind}({code})"
        super().__init__(f"MCP server {server}: {phase}: {label}: {detail}", status=_STATUS[kind], hint=hint)
        self.server = server
        self.phase = phase
        self.kind = kind
        self.detail = detail
        self.code = code
        self.stderr_tail = stderr_tail
        self.body = body  # of an HTTP response
        self.challenge = challenge  # its WWW-Authenticate

    def __repr__(self) -> str:
        return f"McpError({self.message!r})"


class HttpFailure(WireError):
    """An HTTP response without success. Not redacted yet: only FaultTranslator may show it."""

    def __init__(self, message: str, *, status: int, body: str = "", challenge: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.body = body
        self.challenge = challenge


class SessionGone(HttpFailure):
    """The server no longer knows our session; another handshake may help."""


class FaultTranslator:
    """Creates the McpErrors of one server."""

    def __init__(self, server: str, sanitiser: Sanitiser, stderr_tail: Callable[[], str]) -> None:
        self._server = server
        self._sanitiser = sanitiser
        self._stderr_tail = stderr_tail

    @contextmanager
    def translating(self, phase: Phase) -> Iterator[None]:
        try:
            yield
        except AishError as exc:
            raise self.translate(phase, exc) from None

    def translate(self, phase: Phase, exc: AishError, what: str = "") -> McpError:
        """`what` names the tool, resource or prompt. An McpError is returned unchanged."""
        match exc:
            case McpError():
                return exc
            case WireTimeout():
                return self.make(phase, FaultKind.TIMEOUT, exc.message, what=what, hint=exc.hint)
            case ProcessExited():
                return self.make(phase, FaultKind.EXIT, exc.message, code=exc.code, what=what, hint=exc.hint)
            case HttpFailure():
                return self._http(phase, exc, what)
            case RpcError():
                return self.make(phase, FaultKind.RPC, exc.message or "no message", code=exc.code, what=what)
            case TooLarge():
                return self.make(phase, FaultKind.TOO_LARGE, exc.message, what=what, hint=exc.hint)
            case BadResponse() | UsageError():
                return self.make(phase, FaultKind.PROTOCOL, exc.message, what=what, hint=exc.hint)
            case _:
                return self.make(phase, FaultKind.UNREACHABLE, exc.message, what=what, hint=exc.hint)

    def make(
        self, phase: Phase, kind: FaultKind, detail: str, *, code: int | None = None, what: str = "", **more: Any
    ) -> McpError:
        shown = self._sanitiser.show_line(f"{what}: {detail}" if what else detail, _DETAIL_CHARS)
        tail = self._stderr_tail()
        return McpError(self._server, phase, kind, shown, code=code, stderr_tail=tail, **more)

    def _http(self, phase: Phase, exc: HttpFailure, what: str) -> McpError:
        body = self._sanitiser.show(exc.body, _BODY_CHARS)
        challenge = self._sanitiser.show_line(exc.challenge, _DETAIL_CHARS)
        hint = "check the token: auth_env or auth_token of this server" if exc.status in (401, 403) else ""
        return self.make(
            phase, FaultKind.HTTP, exc.message, code=exc.status, what=what, body=body, challenge=challenge, hint=hint
        )
