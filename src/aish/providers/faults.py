"""Translates what goes wrong on the wire into ProviderErrors, once, for every HTTP backend."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from aish.errors import (
    ConnectFailed,
    ModelNotFound,
    ProviderBusy,
    ProviderError,
    ProviderProtocolError,
    ProviderRejected,
    ProviderTimeout,
    ProviderUnavailable,
    TooLarge,
    WireError,
    WireTimeout,
)
from aish.wire.http import Response

# Enough of an error page to recognise it by, not enough to fill a screen.
_SHOWN_CHARS = 300
_MAX_ERROR_BYTES = 64 * 1024


@contextmanager
def translated(provider: str) -> Iterator[None]:
    try:
        yield
    except WireTimeout as exc:
        raise ProviderTimeout(f"{provider}: {exc.message}", hint=exc.hint) from exc
    except ConnectFailed as exc:
        hint = exc.hint or "is the server running? `aish doctor` shows what can be reached"
        raise ProviderUnavailable(f"{provider}: {exc.message}", hint=hint) from exc
    except TooLarge as exc:
        raise ProviderProtocolError(f"{provider}: {exc.message}", hint=exc.hint) from exc
    except WireError as exc:
        raise ProviderUnavailable(f"{provider}: {exc.message}", hint=exc.hint) from exc


async def refusal(provider: str, model: str, response: Response) -> ProviderError:
    """The error for an answer whose status is not a success."""
    body = await _read_some(response)
    return error_for(provider, model, response.status, error_text(body), response.headers.get("retry-after"))


def error_for(provider: str, model: str, status: int, text: str, retry_after: str = "") -> ProviderError:
    message = f"{provider} answered {status}: {text}" if text else f"{provider} answered {status}"
    if status in (401, 403):
        return ProviderRejected(message, status=status, hint=f"check the key of provider {provider}: key_env in config")
    if status == 404 and "model" in text.lower():
        return ModelNotFound(message, hint=f"`aish models` lists what {provider} has; asked for {model}")
    if status == 404:
        return ProviderRejected(message, status=status, hint="is the provider's url right? It usually ends in /v1")
    if status in (429, 503):
        return ProviderBusy(message, retry_after_s=_seconds(retry_after), hint="it is busy; try again later")
    if status == 408 or status >= 500:
        return ProviderUnavailable(message, hint="the backend failed; its own log may say why")
    return ProviderRejected(message, status=status)


def stream_error(provider: str, model: str, error: Any) -> ProviderError:
    """For an error object in the middle of a stream."""
    code = error.get("code", error.get("status")) if isinstance(error, dict) else None
    status = code if isinstance(code, int) and 400 <= code < 600 else 500
    return error_for(provider, model, status, _message_of(error))


def error_text(body: bytes) -> str:
    """What a person should read of an error body: the message inside JSON, the title of a page, or the text itself."""
    try:
        return _message_of(msgspec.json.decode(body))[:_SHOWN_CHARS]
    except (msgspec.DecodeError, RecursionError):
        text = " ".join(body.decode("utf-8", "replace").split())
        return "an HTML page" if text[:1] == "<" else text[:_SHOWN_CHARS]


def _message_of(value: Any) -> str:
    while isinstance(value, dict):
        value = value.get("error") or value.get("message") or value.get("detail") or str(value)
    return str(value)


async def _read_some(response: Response) -> bytes:
    pieces: list[bytes] = []
    size = 0
    try:
        async for piece in response:
            pieces.append(piece)
            size += len(piece)
            if size >= _MAX_ERROR_BYTES:
                break
    except WireError:
        pass  # the status already says it failed; a cut-off explanation is better than none
    return b"".join(pieces)[:_MAX_ERROR_BYTES]


def _seconds(retry_after: str) -> float | None:
    try:
        return max(0.0, float(retry_after))
    except ValueError:
        return None
