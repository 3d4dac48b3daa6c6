"""Every error aish raises on purpose.

AishError                    has a message for the user and a hint saying what to do
├── UsageError               the command line asks for something that makes no sense
├── ConfigError              a config file or variable is wrong
├── StoreError               the store cannot be opened, read or written
├── SessionNotFound
├── SessionBusy              another process is answering in it
├── RunNotFound              no such run, or it is over
├── RunBusy                  another process works on it
├── RunLost                  another process has taken it over
├── ContextOverflow          the question alone is larger than the model's window
├── BudgetExceeded           the call could cost more than is left
├── CheckpointError          the files of the workspace cannot be kept or brought back
├── EffectUnknown            an earlier attempt at the request may or may not have had an effect
├── DynamicMcpRefused        an MCP server that a request brings may not be connected to
├── DynamicMcpFailed         one that may be cannot be reached, or does not speak MCP
├── WireError                the transport failed; adapters translate it into their own kind
│   ├── ConnectFailed            nothing was sent
│   ├── WireTimeout              a deadline passed; `phase` says which
│   ├── ConnectionLost           the peer went away in the middle
│   ├── TooLarge                 a bound was exceeded
│   └── BadResponse              the peer does not speak the protocol
├── ProcessError             a child process
│   ├── SpawnFailed
│   └── ProcessExited            carries exit code and the tail of its stderr
├── ProviderError            a model call failed; `retry` says whether asking again may help
│   ├── ModelNotFound
│   ├── ProviderUnavailable      not reachable, went away, or answers 5xx
│   ├── ProviderTimeout          `is_deadline`: of the time its caller gave, not of a limit of its own
│   ├── ProviderBusy             429 or 503; may carry `retry_after_s`
│   ├── ProviderRejected         4xx: this request will never work as it is
│   └── ProviderProtocolError    answers, but not in its own protocol
└── ToolError                a tool call failed; becomes a result the model reads
    └── McpError                 (tools/mcp/errors) an MCP server failed; names it, the phase and the kind

Who must act: the model reads ToolErrors as results, the user reads Failed events and exit messages, callers the rest.
"""

from __future__ import annotations

from typing import Literal

from aish.types.tools import ResultStatus


class AishError(Exception):
    retry = False

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(AishError):
    pass


class ConfigError(AishError):
    pass


class StoreError(AishError):
    pass


class CheckpointError(AishError):
    pass


class EffectUnknown(AishError):
    pass


class DynamicMcpRefused(AishError):
    """`kind` says what is wrong: a faulty URL cannot be allowed by any list."""

    def __init__(self, label: str, why: str, kind: Literal["faulty", "unlisted", "too_many"]) -> None:
        super().__init__(why)
        self.label = label
        self.kind = kind


class DynamicMcpFailed(AishError):
    def __init__(self, label: str, why: str) -> None:
        super().__init__(why)
        self.label = label


class SessionNotFound(AishError):
    pass


class SessionBusy(AishError):
    retry = True


class RunNotFound(AishError):
    pass


class RunBusy(AishError):
    retry = True


class RunLost(AishError):
    pass


class ContextOverflow(AishError):
    pass


class BudgetExceeded(AishError):
    pass


class WireError(AishError):
    pass


class ConnectFailed(WireError):
    pass


class WireTimeout(WireError):
    def __init__(self, message: str, *, phase: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.phase = phase


class ConnectionLost(WireError):
    pass


class TooLarge(WireError):
    pass


class BadResponse(WireError):
    pass


class ProcessError(AishError):
    pass


class SpawnFailed(ProcessError):
    pass


class ProcessExited(ProcessError):
    def __init__(self, message: str, *, code: int | None, stderr_tail: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.stderr_tail = stderr_tail


class ProviderError(AishError):
    pass


class ModelNotFound(ProviderError):
    pass


class ProviderUnavailable(ProviderError):
    retry = True


class ProviderTimeout(ProviderError):
    retry = True

    def __init__(self, message: str, *, is_deadline: bool = False, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.is_deadline = is_deadline


class ProviderBusy(ProviderError):
    retry = True

    def __init__(self, message: str, *, retry_after_s: float | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


class ProviderRejected(ProviderError):
    def __init__(self, message: str, *, status: int = 400, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status


class PromptTooLong(ProviderRejected):
    """The prompt is too long by the backend's own count."""


class ProviderProtocolError(ProviderError):
    retry = True


class ToolError(AishError):
    """Raised by a tool or its transport. `status` classifies it; the model reads the message."""

    def __init__(self, message: str, *, status: ResultStatus = ResultStatus.FAILED, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status


def drop_traceback(error: BaseException) -> None:
    """Drops the tracebacks of an error that has been handled, and of its causes. Their frames hold the whole request,
    and an error in a frame would keep all of it in memory until the garbage collector runs."""
    left = [error]
    while left:
        error = left.pop()
        error.__traceback__ = None
        left += [other for other in (error.__cause__, error.__context__) if other and other.__traceback__]
