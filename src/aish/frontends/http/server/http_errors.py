"""Errors as clients of each API expect them, and the reading of bodies and numbers that raises them.

This is the one table from our errors to HTTP statuses. Clients retry 429 and 5xx on their own, so a limit or a refusal
never has such a status; clients that would retry even so are told not to (`x-should-retry`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from aish.errors import AishError, ProviderBusy, ProviderRejected
from aish.frontends.asgi import Pairs
from aish.safety.policy.modes import strictest
from aish.types.decisions import Mode
from aish.types.events import Failed

INVALID, SERVER = "invalid_request_error", "server_error"


class HttpProblem(Exception):
    """A request that is answered with an error. `param` is the field at fault, `code` a word for programs, `details`
    additional fields that Anthropic's clients read."""

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
        self.headers = (*headers, NO_RETRY) if status in _FINAL else tuple(headers)
        self.details = details


class ShutDown(HttpProblem):
    """The server was stopped before the request was answered."""

    def __init__(self) -> None:
        super().__init__(503, "aish was shut down before this was answered", type=SERVER, code="shut_down")


_FINAL = (401, 402, 403, 424)
NO_RETRY = (b"x-should-retry", b"false")  # the SDKs of OpenAI and Anthropic obey it
_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}

Shape = Callable[[HttpProblem], dict[str, Any]]


def openai_shape(problem: HttpProblem) -> dict[str, Any]:
    kind = INVALID if problem.status in (404, 413) else problem.type
    return {"error": {"message": problem.message, "type": kind, "param": problem.param, "code": problem.code}}


def anthropic_shape(problem: HttpProblem) -> dict[str, Any]:
    kind = "api_error" if problem.type == SERVER else problem.type
    error: dict[str, Any] = {"type": kind, "message": problem.message}
    if problem.details is not None:
        error["details"] = problem.details
    return {"type": "error", "error": error}


def without_retry(problem: HttpProblem, *, effects: bool) -> HttpProblem:
    """Changes a server error to one that clients do not retry, if a retry would repeat an effect."""
    if effects and (problem.status >= 500 or problem.status == 429):
        return HttpProblem(424, problem.message, type=INVALID, code=problem.code)
    return problem


def bad_field(field: str, why: str) -> HttpProblem:
    return HttpProblem(400, f"{field}: {why}", param=field, code="invalid_value")


def uncovered_model(model: str) -> HttpProblem:
    """For a key that does not cover the model."""
    return HttpProblem(403, f"your key does not cover the model {model}", code="model_not_allowed")


# Status and code by the name of the error, which is all that a Failed event holds of it.
_KNOWN = {
    "ModelNotFound": (404, "model_not_found"),
    "SessionNotFound": (404, "session_not_found"),
    "SessionBusy": (409, "session_busy"),
    "CheckpointError": (409, "not_rewindable"),
    "ContextOverflow": (400, "context_length_exceeded"),
    "BudgetExceeded": (402, "budget_exceeded"),
    "EffectUnknown": (424, "effect_unknown"),
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


def problem_of(error: AishError) -> HttpProblem:
    headers: Pairs = ()
    if isinstance(error, ProviderBusy) and error.retry_after_s is not None:
        headers = [(b"retry-after", b"%d" % max(1, round(error.retry_after_s)))]
    status = error.status if isinstance(error, ProviderRejected) else 0
    return _problem(type(error).__name__, error.message, error.hint, headers, status)


def problem_of_failure(failed: Failed) -> HttpProblem:
    return _problem(failed.kind, failed.message, failed.hint, rejected=failed.status)


def _problem(kind: str, message: str, hint: str, headers: Pairs = (), rejected: int = 0) -> HttpProblem:
    status, code = _KNOWN.get(kind, (500, "internal_error"))
    if rejected == 401:
        # The backend refused our key, so the client can do nothing about it.
        status, code = 502, "upstream_refused_us"
    elif 400 <= rejected < 500:
        status = rejected
    text = f"{message} ({hint})" if hint else message
    return HttpProblem(status, text, code=code, headers=headers)


T = TypeVar("T")

_MISSING = re.compile("Object missing required field `([^`]+)`")
# How gzip and zstd begin. Other formats cannot be recognised.
_PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")


def decode_body(body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """Decodes a JSON body. Raises HttpProblem 400 that names the field, or 415 for a compressed body."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as exc:
        raise validation_problem(exc) from exc
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        if body.startswith(_PACKED):
            raise HttpProblem(415, "the body is compressed: send it as it is", code="unsupported_encoding") from exc
        raise HttpProblem(400, f"the body is not JSON: {exc}", code="invalid_json") from exc
    except RecursionError as exc:
        raise HttpProblem(400, "the body is nested too deeply", code="invalid_json") from exc


def validation_problem(exc: msgspec.ValidationError) -> HttpProblem:
    """Reads the field out of msgspec's message: Expected `int`, got `str` - at `$.messages[0].role`."""
    text, _, path = str(exc).partition(" - at `")
    field = path.rstrip("`").removeprefix("$").removeprefix(".")
    if missing := _MISSING.match(text):
        field = f"{field}.{missing[1]}" if field else missing[1]
        return HttpProblem(400, f"{field}: is missing", param=field, code="missing_field")
    return HttpProblem(400, f"{field or 'body'}: {text}", param=field or None, code="invalid_type")


# More than any bound has. Python refuses to read numbers of thousands of digits.
_MAX_DIGITS = 18


def read_number(field: str, given: str, *, least: int = 1, most: int) -> int:
    """Reads a number of a query string. Raises HttpProblem 400 if it is out of bounds."""
    is_number = given.isascii() and given.isdecimal() and len(given) <= _MAX_DIGITS
    if not is_number or not least <= int(given) <= most:
        raise bad_field(field, f"must be a number from {least} to {most}")
    return int(given)


def check_mode(given: str, most: Mode) -> Mode:
    """The mode that a body names. Raises HttpProblem if there is none, or if it goes further than `most`."""
    if given not in set(Mode):
        raise bad_field("mode", f"must be one of {', '.join(Mode)}")
    if strictest(Mode(given), most) != given:
        raise bad_field("mode", f"this key may go as far as {most} (serve.max_mode)")
    return Mode(given)
