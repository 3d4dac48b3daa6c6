"""JSON as backends and terminals really write it: with broken characters in either direction.

Strict reading comes first, since it is fast and nearly always right. Bytes that are not Unicode become a replacement
character: one odd letter in an answer is better than no answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


class NotJson(Exception):
    """Cannot be read even leniently. The message says where it fails."""


def encode_json(value: Any) -> bytes:
    """The output of programs, decoded with `surrogateescape`, may contain characters that UTF-8 cannot encode."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, ensure_ascii=False, default=_plain).encode("utf-8", "replace")


def _plain(value: Any) -> Any:
    """Decodes what is JSON already."""
    if isinstance(value, msgspec.Raw):
        return json.loads(bytes(value))
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def decode_json(data: bytes, decode: Callable[[bytes], T] = msgspec.json.decode) -> T:
    """Raises NotJson. Tokens that are halves of characters arrive as broken UTF-8 or lone surrogates; these are
    repaired."""
    try:
        return decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        if isinstance(exc, UnicodeDecodeError) or rb"\ud" in data or rb"\uD" in data:
            return _decode_fixed(data, decode)
        raise NotJson(str(exc)) from exc
    except RecursionError as exc:
        raise NotJson("it is nested too deeply") from exc


def _decode_fixed(data: bytes, decode: Callable[[bytes], T]) -> T:
    try:
        fixed = json.dumps(json.loads(data.decode("utf-8", "replace")), ensure_ascii=False)
        return decode(fixed.encode("utf-8", "replace"))
    except (ValueError, RecursionError) as exc:  # both kinds of decode error are ValueErrors
        raise NotJson(str(exc)) from exc
