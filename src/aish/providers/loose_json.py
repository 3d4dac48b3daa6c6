"""JSON as backends and terminals really write it: halves of characters on the way in, stray bytes on the way out.

Strict first, since that is fast and nearly always right. What is not Unicode becomes a replacement character: one odd
letter in an answer is better than no answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


class NotJson(Exception):
    """Not even read with patience; the message says where it fails."""


def encode_json(value: Any) -> bytes:
    """Output of programs, kept with `surrogateescape`, holds what UTF-8 cannot."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, ensure_ascii=False, default=_plain).encode("utf-8", "replace")


def _plain(value: Any) -> Any:
    """Of what is JSON already."""
    if isinstance(value, msgspec.Raw):
        return json.loads(bytes(value))
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def decode_json(data: bytes, decode: Callable[[bytes], T] = msgspec.json.decode) -> T:
    """NotJson if it is none. Tokens that are halves of characters leave backends as broken UTF-8 or lone surrogates."""
    try:
        return decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        if isinstance(exc, UnicodeDecodeError) or rb"\ud" in data or rb"\uD" in data:
            return _decode_mended(data, decode)
        raise NotJson(str(exc)) from exc
    except RecursionError as exc:
        raise NotJson("it is nested too deeply") from exc


def _decode_mended(data: bytes, decode: Callable[[bytes], T]) -> T:
    try:
        mended = json.dumps(json.loads(data.decode("utf-8", "replace")), ensure_ascii=False)
        return decode(mended.encode("utf-8", "replace"))
    except (ValueError, RecursionError) as exc:  # both kinds of decode error are ValueErrors
        raise NotJson(str(exc)) from exc
