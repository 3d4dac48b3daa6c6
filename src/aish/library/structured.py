"""Reads answers into types: the schema that a model is held to, and what it wrote as a value."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from aish.errors import UsageError
from aish.types.tools import JsonSchema

_FENCE = re.compile(r"```(?:json)?\s*\n(.*?)```", re.S)
_NOTE = "Answer with JSON only, without any other text. It must fit this JSON schema:\n"


def schema_of(kind: type[Any]) -> JsonSchema:
    """Raises UsageError for a type that has no schema."""
    try:
        return msgspec.json.schema(kind)
    except TypeError as exc:
        raise UsageError(f"{kind} has no schema: {exc}", hint="use a dataclass or a msgspec.Struct") from exc


def describe_schema(kind: type[Any]) -> str:
    """System text for backends that cannot be held to a schema."""
    return _NOTE + msgspec.json.encode(schema_of(kind)).decode()


def read_value(text: str, kind: type[Any]) -> tuple[Any, str]:
    """The value in an answer, and "" or what is wrong with it."""
    problem = "it is no JSON"
    for candidate in _find_candidates(text):
        try:
            return msgspec.json.decode(candidate, type=kind), ""
        except msgspec.ValidationError as exc:
            problem = str(exc)
        except (msgspec.DecodeError, UnicodeEncodeError):
            continue
    return None, problem


def _find_candidates(text: str) -> Iterator[str]:
    """What may be the JSON of the answer: all of it, a block of code, or what stands between the outermost brackets."""
    yield text.strip()
    yield from (match[1] for match in _FENCE.finditer(text))
    for opening, closing in ("{}", "[]"):
        start, end = text.find(opening), text.rfind(closing)
        if 0 <= start < end:
            yield text[start : end + 1]
