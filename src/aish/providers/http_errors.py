"""Translates errors of HTTP backends into ProviderErrors: the one place for it."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from aish.errors import (
    ConnectFailed,
    ModelNotFound,
    PromptTooLong,
    ProviderBusy,
    ProviderError,
    ProviderProtocolError,
    ProviderRejected,
    ProviderTimeout,
    ProviderUnavailable,
    TooLarge,
    UsageError,
    WireError,
    WireTimeout,
)
from aish.net.http.client import Response
from aish.providers.loose_json import NotJson, decode_json

# Enough of an error page to recognise it by, not enough to fill a screen.
_SHOWN_CHARS = 300
_MAX_ERROR_BYTES = 64 * 1024
_ERROR_BODY_S = 1.0  # the status has already said the essential thing

# For backends that cannot embed token ids. LangChain sends the ids of OpenAI's tokenizer by default.
SEND_TEXT = "send texts as `input`; in LangChain: OpenAIEmbeddings(check_embedding_ctx_length=False)"

_NO_SUCH_MODEL = re.compile(
    r"model.{0,200}(not found|does ?n[o']t exist)|(no|unknown|invalid) model|not a valid model", re.I | re.S
)
_TOO_LONG = re.compile(
    r"context (size|length|window)|maximum context|exceed_context|prompt is too long|too large to process", re.I
)
_FAILURE_STATUS = re.compile(r"[45][0-9]{2}")
_TEMPLATE = re.compile(r"jinja|chat.?template|template error|roles must alternate", re.I)
_TOO_LONG_HINT = (
    "the conversation no longer fits the model: start a new session, or run the backend with a larger context"
)
_TEMPLATE_HINT = (
    "the model's chat template cannot render this conversation; `use_tool_role = false` for the provider may help"
)


def translate_wire_error(provider: str, error: WireError | UsageError, *, has_deadline: bool = False) -> ProviderError:
    """`has_deadline`: the caller limited the time for the whole call."""
    if isinstance(error, WireTimeout):
        is_deadline = has_deadline and error.phase == "total"
        return ProviderTimeout(f"{provider}: {error.message}", is_deadline=is_deadline, hint=error.hint)
    if isinstance(error, ConnectFailed):
        hint = error.hint or "is the server running? `aish doctor` shows what can be reached"
        return ProviderUnavailable(f"{provider}: {error.message}", hint=hint)
    if isinstance(error, TooLarge):
        return ProviderProtocolError(f"{provider}: {error.message}", hint=error.hint)
    if isinstance(error, UsageError):
        return ProviderRejected(f"{provider}: {error.message}", hint=error.hint or "check the provider in config")
    return ProviderUnavailable(f"{provider}: {error.message}", hint=error.hint)


async def refusal(provider: str, model: str, response: Response) -> ProviderError:
    """The error for a reply without a status of success."""
    if 300 <= response.status < 400:
        return _moved_error(provider, response)
    body = await _read_some(response)
    return error_for(provider, model, response.status, error_text_of(body), response.headers.get("retry-after"))


def error_for(provider: str, model: str, status: int, text: str, retry_after: str = "") -> ProviderError:
    message = f"{provider} answered {status}: {text}" if text else f"{provider} answered {status}"
    if status in (401, 403):
        return ProviderRejected(message, status=status, hint=f"check the key of provider {provider}: key_env in config")
    if model and status in (400, 404) and _NO_SUCH_MODEL.search(text):
        return ModelNotFound(message, hint=f"`aish models` lists what {provider} has; asked for {model}")
    if status == 404:
        return ProviderRejected(message, status=status, hint="is the provider's url right? It usually ends in /v1")
    if status in (429, 503):
        return _busy(message, _seconds(retry_after))
    if _TOO_LONG.search(text):
        return PromptTooLong(message, status=status, hint=_TOO_LONG_HINT)
    if _TEMPLATE.search(text):
        return ProviderRejected(message, status=status, hint=_TEMPLATE_HINT)
    if status == 408 or (status >= 500 and status != 501):
        return ProviderUnavailable(message, hint="the backend failed; its own log may say why")
    return ProviderRejected(message, status=status)


def stream_error(provider: str, model: str, error: Any) -> ProviderError:
    """For an error object in the middle of a stream."""
    code = str(error.get("code", error.get("status"))) if isinstance(error, dict) else ""
    status = int(code) if _FAILURE_STATUS.fullmatch(code) else 500
    return error_for(provider, model, status, _message_of(error))


def error_text_of(body: bytes) -> str:
    """The part of an error body that people should read: the message in JSON, the kind of a page, or the text
    itself."""
    try:
        return _message_of(decode_json(body))
    except NotJson:
        text = body.decode("utf-8", "replace").strip()
        return "an HTML page" if text[:1] == "<" else _one_line(text)


def _moved_error(provider: str, response: Response) -> ProviderRejected:
    where = _one_line(response.headers.get("location").partition("?")[0])
    message = f"{provider} answered {response.status}: it has moved" + (f" to {where}" if where else "")
    return ProviderRejected(message, status=response.status, hint="set the provider's url to where it is now")


def _busy(message: str, retry_after_s: float | None) -> ProviderBusy:
    when = "later" if retry_after_s is None else f"in {retry_after_s:g} s"
    return ProviderBusy(message, retry_after_s=retry_after_s, hint=f"it is busy; try again {when}")


def _message_of(value: Any) -> str:
    while isinstance(value, dict | list):
        value = _inner(value) if isinstance(value, dict) else next(iter(value), "")
    return _one_line(str(value))


def _inner(error: dict[str, Any]) -> Any:
    if isinstance(error.get("loc"), list) and "msg" in error:  # FastAPI's way to name the field at fault
        return f"{'.'.join(map(str, error['loc']))}: {error['msg']}"
    texts = (error.get(key) for key in ("error", "message", "detail", "msg"))
    return next((value for value in texts if value and not isinstance(value, bool)), str(error))


def _one_line(text: str) -> str:
    """Removes everything that could move the cursor or colour the screen."""
    line = " ".join(text[: 4 * _SHOWN_CHARS].split())
    return "".join(letter for letter in line if letter.isprintable())[:_SHOWN_CHARS]


async def _read_some(response: Response) -> bytes:
    pieces: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(_ERROR_BODY_S):
            async for piece in response:
                pieces.append(piece)
                size += len(piece)
                if size >= _MAX_ERROR_BYTES:
                    break
    except (TimeoutError, WireError):
        pass  # a cut-off explanation is better than none
    return b"".join(pieces)[:_MAX_ERROR_BYTES]


def _seconds(retry_after: str) -> float | None:
    try:
        seconds = float(retry_after)
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None
