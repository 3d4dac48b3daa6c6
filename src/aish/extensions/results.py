"""What functions of extensions may return, and how that becomes content for a model."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import msgspec

from aish.types.tools import JsonObject

MAX_RESULT_BYTES = 7 * 1024 * 1024  # fits a message of the tool process, with its frame


class Image(msgspec.Struct, frozen=True):
    """An image as a result, alone or in a list."""

    data: bytes
    media_type: str = "image/png"


class Prompt(msgspec.Struct, frozen=True):
    """The result of a command that is put to the model."""

    text: str


class ResultError(Exception):
    """A result that cannot be given to a model."""


def to_content(value: Any) -> tuple[list[JsonObject], JsonObject | None]:
    """The result as blocks of MCP content, and as an object if it is one. Raises ResultError."""
    if isinstance(value, list | tuple) and any(isinstance(item, Image) for item in value):
        return [block for item in value for block in to_content(item)[0]], None
    if isinstance(value, Image):
        return [{"type": "image", "data": base64.b64encode(value.data).decode(), "mimeType": value.media_type}], None
    if value is None:
        return [_text("done")], None
    if isinstance(value, str):
        return [_text(value)], None
    plain = _to_plain(value)
    return [_text(msgspec.json.encode(plain).decode())], plain if isinstance(plain, dict) else None


def check_size(blocks: list[JsonObject]) -> None:
    """Raises ResultError for a result that does not fit one message."""
    _check_size(sum(len(block.get("text") or block.get("data") or "") for block in blocks))


def _check_size(size: int) -> None:
    if size > MAX_RESULT_BYTES:
        raise ResultError(
            f"it returned {size / 1e6:.0f} MB, and a result may have {MAX_RESULT_BYTES // 1024 // 1024} MB at most"
        )


def _text(text: str) -> JsonObject:
    _check_size(len(text))
    return {"type": "text", "text": text.encode("utf-8", "replace").decode()}


def _to_plain(value: Any) -> Any:
    try:
        return msgspec.to_builtins(value, str_keys=True, enc_hook=_encode_other)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as exc:
        raise ResultError(f"its result cannot be written as JSON: {exc}") from exc


def _encode_other(value: Any) -> Any:
    """Values that msgspec does not know: models of pydantic, paths, iterables such as `range`."""
    if callable(dump := getattr(value, "model_dump", None)):
        return dump(mode="json")
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if hasattr(value, "__iter__"):
        return list(value)
    raise TypeError(f"{type(value).__name__} is no JSON")
