"""All ways to read a JSON text in which quotes within strings were not escaped.

Any quote may end its string, if the text after it could follow a string. Most such texts have one reading. The caller
decides by the schema, and takes none if two are possible. A string contains stray quotes in pairs, or as apostrophes;
otherwise a quote is missing elsewhere, and what looks like one string is two.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

_MAX_STEPS = 20_000
_MAX_READINGS = 64
_MAX_CHARS = 64 * 1024
_MAX_CHARS_READ = 1024 * 1024  # over all readings
_SPACE = re.compile(r"\s*")
_SCALAR = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?=[\s,}\]])|true|false|null|True|False|None")
_PYTHON = {"True": "true", "False": "false", "None": "null"}
_CONTROL = re.compile(r"[\x00-\x1f]")
_QUOTE = {quote: re.compile(rf"\\.|{quote}", re.S) for quote in "\"'"}

Reading = tuple[Any, int]


class TooMany(Exception):
    pass


def find_readings(text: str) -> list[Any]:
    """Every value that the whole text may be; none if there are too many to check."""
    found: list[Any] = []
    try:
        for value, end in _Reader(text).value(0):
            if not text[end:].strip() and value not in found:
                found.append(value)
            if len(found) > _MAX_READINGS:
                return []
    except (TooMany, RecursionError, ValueError):  # ValueError: a number is too long
        return []
    return found


class _Reader:
    def __init__(self, text: str) -> None:
        if len(text) > _MAX_CHARS:
            raise TooMany
        self._text = text
        self._steps = 0
        self._chars = 0

    def value(self, pos: int) -> Iterator[Reading]:
        pos = self._after_space(pos)
        char = self._text[pos : pos + 1]
        if char == "{":
            yield from self._members(pos + 1, {})
        elif char == "[":
            yield from self._items(pos + 1, [])
        elif char in _QUOTE:
            yield from self._strings(pos, ",}]")
        elif scalar := _SCALAR.match(self._text, pos):
            yield msgspec.json.decode(_PYTHON.get(scalar[0], scalar[0])), scalar.end()

    def _members(self, pos: int, before: dict[str, Any]) -> Iterator[Reading]:
        pos = self._after_space(pos)
        if self._text.startswith("}", pos) and not before:
            yield {}, pos + 1
        if self._text[pos : pos + 1] not in _QUOTE:
            return
        for key, after_key in self._strings(pos, ":"):
            if key in before:
                continue
            for value, end in self.value(self._after_space(after_key) + 1):
                end = self._after_space(end)
                members = {**before, key: value}
                if self._text.startswith("}", end):
                    yield members, end + 1
                elif self._text.startswith(",", end):
                    yield from self._members(end + 1, members)

    def _items(self, pos: int, before: list[Any]) -> Iterator[Reading]:
        if not before and self._text.startswith("]", self._after_space(pos)):
            yield [], self._after_space(pos) + 1
        for value, end in self.value(pos):
            end = self._after_space(end)
            if self._text.startswith("]", end):
                yield [*before, value], end + 1
            elif self._text.startswith(",", end):
                yield from self._items(end + 1, [*before, value])

    def _strings(self, pos: int, followers: str) -> Iterator[tuple[str, int]]:
        """Yields the strings from the quote here to every quote that may end them."""
        quote = self._text[pos]
        for found in _QUOTE[quote].finditer(self._text, pos + 1):
            self._steps += 1
            if self._steps > _MAX_STEPS:
                raise TooMany
            after = self._after_space(found.end())
            follower = self._text[after : after + 1]
            if found[0] == quote and follower and follower in followers:
                self._chars += found.start() - pos
                if self._chars > _MAX_CHARS_READ:
                    raise TooMany
                content = _decode(self._text[pos + 1 : found.start()], quote)
                if content is not None:
                    yield content, found.end()

    def _after_space(self, pos: int) -> int:
        return _SPACE.match(self._text, pos).end()  # type: ignore[union-attr]  # it always matches


def _decode(content: str, quote: str) -> str | None:
    """Returns None if its stray quotes are not in pairs, or if it contains what no JSON string may."""
    stray = [found for found in _QUOTE[quote].finditer(content) if found[0] == quote]
    apostrophes = quote == "'" and all(_is_within_word(content, found.start()) for found in stray)
    if len(stray) % 2 and not apostrophes:
        return None
    escaped = re.sub(r"(\\.)|\"", lambda found: found[1] or '\\"', content, flags=re.S)
    escaped = escaped.replace("\\'", "'") if quote == "'" else escaped
    escaped = _CONTROL.sub(lambda control: f"\\u{ord(control[0]):04x}", escaped)
    try:
        return msgspec.json.decode(f'"{escaped}"', type=str)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None


def _is_within_word(content: str, pos: int) -> bool:
    return content[max(0, pos - 1) : pos].isalpha() and content[pos + 1 : pos + 2].isalpha()
