"""What went wrong, as clients of each API expect to read it. The one table from our errors to theirs.

Clients retry 429 and 5xx on their own, so a limit or a refusal is never one of those; and those of them that would ask
again even so are told that it does not help.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aish.errors import AishError, ProviderBusy, ProviderRejected
from aish.frontends.asgi import Pairs
from aish.types.events import Failed

INVALID, SERVER = "invalid_request_error", "server_error"


class Problem(Exception):
    """A request that is answered with an error. `param` is the field at fault, `code` a word programs look for,
    `details` what Anthropic's clients read besides."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        type: str = "",
        param: str | None = None,
        code: str | None = None,
        headers: Pairs = (),
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.type = type or _TYPES.get(status, INVALID if status < 500 else SERVER)
        self.param = param
        self.code = code
        self.headers = (*headers, _NO_RETRY) if status in _FINAL else tuple(headers)
        self.details = details


class ShutDown(Problem):
    """The server ends before the request was answered."""

    def __init__(self) -> None:
        super().__init__(503, "aish was shut down before this was answered", type=SERVER, code="shut_down")


_FINAL = (401, 402, 403, 424)
_NO_RETRY = (b"x-should-retry", b"false")  # heeded by the SDKs of OpenAI and Anthropic
_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}

Shape = Callable[[Problem], dict[str, Any]]


def openai_shape(problem: Problem) -> dict[str, Any]:
    kind = INVALID if problem.status in (404, 413) else problem.type
    return {"error": {"message": problem.message, "type": kind, "param": problem.param, "code": problem.code}}


def anthropic_shape(problem: Problem) -> dict[str, Any]:
    kind = "api_error" if problem.type == SERVER else problem.type
    error: dict[str, Any] = {"type": kind, "message": problem.message}
    if problem.details is not None:
        error["details"] = problem.details
    return {"type": "error", "error": error}


def settled(problem: Problem, *, effects: bool) -> Problem:
    """Clients ask again on their own after a failure of the server; not after one that would repeat an effect."""
    if effects and (problem.status >= 500 or problem.status == 429):
        return Problem(424, problem.message, type=INVALID, code=problem.code)
    return problem


def bad_field(field: str, why: str) -> Problem:
    return Problem(400, f"{field}: {why}", param=field, code="invalid_value")


def uncovered_model(model: str) -> Problem:
    """For a key that is not for it."""
    return Problem(403, f"your key does not cover the model {model}", code="model_not_allowed")


# By the name of the error, which is all that a Failed event keeps of it: status and code.
_KNOWN = {
    "ModelNotFound": (404, "model_not_found"),
    "SessionNotFound": (404, "session_not_found"),
    "SessionBusy": (409, "session_busy"),
    "ContextOverflow": (400, "context_length_exceeded"),
    "BudgetExceeded": (402, "budget_exceeded"),
    "ProviderBusy": (429, "upstream_busy"),
    "ProviderTimeout": (504, "upstream_timeout"),
    "ProviderUnavailable": (502, "upstream_unavailable"),
    "ProviderProtocolError": (502, "upstream_protocol"),
    "ProviderRejected": (400, "upstream_rejected"),
    "PromptTooLong": (400, "context_length_exceeded"),
    "ProviderError": (400, "not_supported"),
    "UsageError": (400, "invalid_value"),
    "StoreError": (500, "store_failed"),
}


def problem_of(error: AishError) -> Problem:
    headers: Pairs = ()
    if isinstance(error, ProviderBusy) and error.retry_after_s is not None:
        headers = [(b"retry-after", b"%d" % max(1, round(error.retry_after_s)))]
    status = error.status if isinstance(error, ProviderRejected) else 0
    return _problem(type(error).__name__, error.message, error.hint, headers, status)


def problem_of_failure(failed: Failed) -> Problem:
    return _problem(failed.kind, failed.message, failed.hint, rejected=failed.status)


def _problem(kind: str, message: str, hint: str, headers: Pairs = (), rejected: int = 0) -> Problem:
    status, code = _KNOWN.get(kind, (500, "internal_error"))
    if rejected == 401:
        # The backend refused our key, not the client's: nothing it could mend by sending another.
        status, code = 502, "upstream_refused_us"
    elif 400 <= rejected < 500:
        status = rejected
    text = f"{message} ({hint})" if hint else message
    return Problem(status, text, code=code, headers=headers)
