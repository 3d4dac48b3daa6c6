"""What went wrong with an MCP server: which one, in which phase, and of what kind. Foreign errors end here.

The messages name no secret: all that a server said is redacted, stripped of control sequences and cut. For the same
reason the original error is not chained: a traceback would print what it holds.
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
    UNREACHABLE = "unreachable"  # could not be started or connected to, or went without a word


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
    """`code` is the exit code, HTTP status or JSON-RPC code. In the phase "call" it is a result the model reads."""

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
        self.body = body  # of an HTTP answer
        self.challenge = challenge  # its WWW-Authenticate

    def __repr__(self) -> str:
        return f"McpError({self.message!r})"


class HttpFailure(WireError):
    """An answer whose status is no success. Not redacted yet: only Faults may show it."""

    def __init__(self, message: str, *, status: int, body: str = "", challenge: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.body = body
        self.challenge = challenge


class SessionGone(HttpFailure):
    """The server no longer knows us; shaking hands again may help."""


class Faults:
    """Makes the McpErrors of one server."""

    def __init__(self, server: str, discretion: Sanitiser, stderr_tail: Callable[[], str]) -> None:
        self._server = server
        self._discretion = discretion
        self._stderr_tail = stderr_tail

    @contextmanager
    def translated(self, phase: Phase) -> Iterator[None]:
        try:
            yield
        except AishError as exc:
            raise self.translate(phase, exc) from None

    def translate(self, phase: Phase, exc: AishError, what: str = "") -> McpError:
        """`what` names the tool, resource or prompt that it was about. An McpError stays what it is."""
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
        shown = self._discretion.show_line(f"{what}: {detail}" if what else detail, _DETAIL_CHARS)
        tail = self._stderr_tail()
        return McpError(self._server, phase, kind, shown, code=code, stderr_tail=tail, **more)

    def _http(self, phase: Phase, exc: HttpFailure, what: str) -> McpError:
        body = self._discretion.show(exc.body, _BODY_CHARS)
        challenge = self._discretion.show_line(exc.challenge, _DETAIL_CHARS)
        hint = "check the token: auth_env or auth_token of this server" if exc.status in (401, 403) else ""
        return self.make(
            phase, FaultKind.HTTP, exc.message, code=exc.status, what=what, body=body, challenge=challenge, hint=hint
        )
