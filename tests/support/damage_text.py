"""Writes a value as nearly JSON, the ways models do, and tells whether such a text can be read in one way only."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

# Enough to read any text of the corpus in every way; a text that needs more counts as ambiguous.
_MAX_READINGS = 20_000
_BLANK = re.compile(r"\s*")
_PLAIN = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null")
_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class Style(msgspec.Struct, frozen=True, kw_only=True):
    """How the text is written. `raw` characters stand unescaped in strings; `loose` leaves the quotes in them, too."""

    opening: str = '"'
    closing: str = '"'
    key_quotes: bool = True
    raw: str = ""
    loose: bool = False
    colon: str = ": "
    comma: str = ", "
    trailing: str = ""
    literals: tuple[str, str, str] = ("true", "false", "null")
    brackets: str = "[]"
    comments: tuple[str, ...] = ()


def dump(value: Any, style: Style) -> str:
    match value:
        case dict():
            return _braced([_member(key, item, style) for key, item in value.items()], style, "{}")
        case list():
            return _braced([dump(item, style) for item in value], style, style.brackets)
        case str():
            return quoted(value, style)
        case None:
            return style.literals[2]
        case bool():
            return style.literals[0 if value else 1]
        case _:
            return json.dumps(value)


def _member(key: str, value: Any, style: Style) -> str:
    bare = not style.key_quotes and IDENTIFIER.match(key)
    return (key if bare else quoted(key, style)) + style.colon + dump(value, style)


def _braced(parts: list[str], style: Style, pair: str) -> str:
    if not parts:
        return pair
    if style.comments:
        lines = [f"{part}{style.comma.rstrip()} {style.comments[at % 3]}" for at, part in enumerate(parts[:-1])]
        return "\n".join([pair[0], style.comments[len(parts) % 3], *lines, parts[-1], pair[1]])
    lone = "," if pair == "()" and len(parts) == 1 else style.trailing
    return pair[0] + style.comma.join(parts) + lone + pair[1]


def quoted(text: str, style: Style) -> str:
    for char, escape in _ESCAPES.items():
        if char not in style.raw:
            text = text.replace(char, escape)
    if not style.loose:
        text = text.replace(style.closing, "\\" + style.closing)
    return style.opening + text + style.closing


def readings(text: str, quote: str = '"', *, at_most: int = 40) -> list[Any]:
    """The ways to read JSON whose values may hold unescaped quotes, no more than `at_most`. Keys hold none."""
    found: list[Any] = []
    left = iter(range(_MAX_READINGS))
    for value, end in _values(text, 0, quote, left):
        if not text[end:].strip() and value not in found:
            found.append(value)
            if len(found) >= at_most:
                break
    exhausted = next(left, None) is None
    return found if not exhausted else [*found, "too many to tell"]


def _values(text: str, at: int, quote: str, left: Iterator[int]) -> Iterator[tuple[Any, int]]:
    at = _skip(text, at)
    if next(left, None) is None or at >= len(text):
        return
    if text[at] == quote:
        yield from _strings(text, at, quote)
    elif text[at] in "{[":
        yield from _members(text, at + 1, quote, left, "}" if text[at] == "{" else "]", ())
    elif plain := _PLAIN.match(text, at):
        yield json.loads(plain[0]), plain.end()


def _strings(text: str, at: int, quote: str) -> Iterator[tuple[str, int]]:
    end = at
    while (end := text.find(quote, end + 1)) >= 0:
        if text[end - 1] != "\\":
            yield text[at + 1 : end], end + 1


def _members(
    text: str, at: int, quote: str, left: Iterator[int], closing: str, so_far: tuple[Any, ...]
) -> Iterator[tuple[Any, int]]:
    at = _skip(text, at)
    if not so_far and text[at : at + 1] == closing:
        yield _made(closing, ()), at + 1
    for member, end in _member_readings(text, at, quote, left, closing):
        after = _skip(text, end)
        if text[after : after + 1] == closing:
            yield _made(closing, (*so_far, member)), after + 1
        elif text[after : after + 1] == ",":
            yield from _members(text, after + 1, quote, left, closing, (*so_far, member))


def _made(closing: str, members: tuple[Any, ...]) -> Any:
    return dict(members) if closing == "}" else list(members)


def _member_readings(text: str, at: int, quote: str, left: Iterator[int], closing: str) -> Iterator[tuple[Any, int]]:
    if closing == "]":
        yield from _values(text, at, quote, left)
        return
    if text[at : at + 1] != quote:
        return
    key, end = next(_strings(text, at, quote), ("", at))
    after = _skip(text, end)
    if text[after : after + 1] == ":":
        for value, stop in _values(text, after + 1, quote, left):
            yield (key, value), stop


def _skip(text: str, at: int) -> int:
    blank = _BLANK.match(text, at)
    return blank.end() if blank else at
