"""Converts columns between us and a server. We count characters; a server counts UTF-8 bytes, UTF-16 units or
characters.

A range from a server that does not fit our text is an error and never clamped, because it may belong to an edit. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Literal

import msgspec

from aish.errors import BadResponse

Encoding = Literal["utf-8", "utf-16", "utf-32"]
ENCODINGS: tuple[Encoding, ...] = ("utf-8", "utf-16", "utf-32")


class Position(msgspec.Struct, frozen=True, order=True):
    """Both from 0. `character` counts in the negotiated encoding."""

    line: int
    character: int


class Range(msgspec.Struct, frozen=True, order=True):
    start: Position
    end: Position


def units_before(line: str, column: int, encoding: Encoding) -> int:
    """Returns the server's column for ours."""
    before = line[:column]
    if encoding == "utf-32" or before.isascii():
        return len(before)
    return _size(before, encoding)


def column_of(line: str, units: int, encoding: Encoding) -> int:
    """Returns our column for the server's. Raises BadResponse if there is none."""
    if encoding == "utf-32" or line.isascii():
        if not 0 <= units <= len(line):
            raise BadResponse(f"column {units} is past the end of a line of {len(line)}")
        return units
    before = column = 0
    while before < units and column < len(line):
        before += _size(line[column], encoding)
        column += 1
    if before != units:
        raise BadResponse(f"column {units} is in the middle of a character, or past the end of the line")
    return column


def _size(text: str, encoding: Encoding) -> int:
    if encoding == "utf-8":
        return len(text.encode("utf-8", "surrogatepass"))
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


class TextMap:
    """Offsets into one text, whose lines include their line ends."""

    def __init__(self, lines: Sequence[str], encoding: Encoding) -> None:
        self._lines = lines
        self._starts = [0, *accumulate(len(line) for line in lines)]
        self._encoding = encoding

    def offset(self, position: Position) -> int:
        """Raises BadResponse for a position that is not in the text."""
        count = len(self._lines)
        if not 0 <= position.line <= count:
            raise BadResponse(f"line {position.line + 1} is not in a text of {count} lines")
        if position.line == count:  # after the last line: servers use it as the end of the text
            if position.character != 0:
                raise BadResponse(f"line {position.line + 1} is not in a text of {count} lines")
            return self._starts[-1]
        whole = self._lines[position.line]
        line = whole.rstrip("\r\n")
        # A position inside a line end means the end of the text before it; TypeScript sends such.
        past = position.character - units_before(line, len(line), self._encoding)
        if 0 < past <= len(whole) - len(line):
            return self._starts[position.line] + len(line)
        return self._starts[position.line] + column_of(line, position.character, self._encoding)

    def span(self, range: Range) -> tuple[int, int]:
        start, end = self.offset(range.start), self.offset(range.end)
        if end < start:
            raise BadResponse("a range ends before it begins")
        return start, end

    def position(self, line: int, column: int) -> Position:
        """Takes line and column from 0, in characters."""
        text = self._lines[line] if line < len(self._lines) else ""
        return Position(line, units_before(text, column, self._encoding))
