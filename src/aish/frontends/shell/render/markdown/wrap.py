"""Puts words on lines: each is written once it is known to be whole, and never touched again.

What may be held back is one word, or one line where a word is longer than that. The width is asked for with each new
line, so a window that is resized is used in full from the next line on.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

from aish.frontends.shell.render.styles import MIN_COLUMNS, PLAIN, Run, Runs, Style
from aish.frontends.shell.render.text_width import added_width, cut, may_break, width_of

# A long word comes in pieces, so that the part of it that is held stays short.
_PIECES = re.compile(r" {1,64}|[^ ]{1,64}")
# Deeper indents than leave this much room for the text are not drawn.
_MIN_ROOM = 8


class Sheet(Protocol):
    """What lines are written on."""

    def put(self, text: str, style: Style = PLAIN) -> None: ...

    def newline(self) -> None: ...


class Wrap:
    def __init__(self, sheet: Sheet, columns: Callable[[], int], *, least: int = MIN_COLUMNS) -> None:
        self._sheet = sheet
        self._columns = columns
        self._least = least  # columns that are used even where there are fewer
        self._first: Runs = ()
        self._rest: Runs = ()
        self._column = 0  # 0: nothing is on the line yet, not even its prefix
        self._indent = 0
        self._limit = 0
        self._next_room = 0  # on a line that goes on with the block
        self._gap: Run = ("", PLAIN)
        self._word: list[Run] = []
        self._word_width = 0
        self._last = ""

    @property
    def at_line_start(self) -> bool:
        return self._column == 0

    @property
    def _is_fresh(self) -> bool:
        """Nothing is on the line but its prefix."""
        return self._column <= self._indent

    def start(self, first: Runs, rest: Runs) -> None:
        """A new block: what its first line and its other lines begin with."""
        self._first, self._rest = first, rest

    def text(self, text: str, style: Style = PLAIN) -> None:
        """Blanks are where lines may end; there is no newline in the text."""
        for piece in _PIECES.findall(text):
            if piece[0] == " ":
                self.end_word()
                self._gap = ((self._gap[0] + piece)[: self._limit or self._least], style)
            elif piece.isascii() and (not self._last or self._last < "\x7f"):
                self._grow(piece, len(piece), style)
            else:
                self._text_of_any_width(piece, style)

    def _text_of_any_width(self, piece: str, style: Style) -> None:
        for char in piece:
            before = self._last
            if before and may_break(before, char):
                self.end_word()
            self._grow(char, added_width(char, before), style)

    def newline(self) -> None:
        """The line ends here, even when nothing is on it but its prefix."""
        self.end_word()
        self._gap = ("", PLAIN)
        self._begin_line()
        self._sheet.newline()
        self._column = 0

    def finish(self) -> None:
        """The block ends: so does its line, if it has begun or its prefix is still to be shown."""
        self.end_word()
        self._gap = ("", PLAIN)
        if self._column or self._first:
            self.newline()

    def _grow(self, text: str, width: int, style: Style) -> None:
        if self._word and self._word[-1][1] == style:
            self._word[-1] = (self._word[-1][0] + text, style)
        else:
            self._word.append((text, style))
        self._word_width += width
        self._last = text[-1]
        if self._word_width > min(_MIN_ROOM, self._least):  # the least that a line has room for
            self._spill()

    def end_word(self) -> None:
        """The word so far is whole."""
        if not self._word:
            return
        self._begin_line()
        gap, gap_style = self._gap
        if not self._is_fresh:
            if self._column + len(gap) + self._word_width > self._limit:
                self._break()
            else:
                self._sheet.put(gap, gap_style)
                self._column += len(gap)
        for text, style in self._word:
            self._sheet.put(text, style)
        self._column += self._word_width
        self._word.clear()
        self._word_width, self._last, self._gap = 0, "", ("", PLAIN)

    def _spill(self) -> None:
        """A word that is longer than a line is cut where the lines end."""
        self._begin_line()
        while self._word_width > (self._limit - self._column if self._is_fresh else self._next_room):
            if not self._is_fresh:
                self._break()
            self._put_what_fits()
            self._gap = ("", PLAIN)

    def _put_what_fits(self) -> None:
        fresh = True
        while self._word:
            text, style = self._word[0]
            count = cut(text, self._limit - self._column) or (1 if fresh else 0)
            if count == 0:
                break
            fresh = False
            self._sheet.put(text[:count], style)
            width = width_of(text[:count])
            self._column += width
            self._word_width -= width
            if count < len(text):
                self._word[0] = (text[count:], style)
                break
            del self._word[0]

    def _break(self) -> None:
        self._sheet.newline()
        self._column = 0
        self._begin_line()

    def _begin_line(self) -> None:
        if self._column:
            return
        self._limit = max(self._least, self._columns())
        prefix = self._fitting(self._first or self._rest)
        self._next_room = self._limit - width_of_runs(self._fitting(self._rest))
        self._first = ()
        for text, style in prefix:
            self._sheet.put(text, style)
        self._column = self._indent = width_of_runs(prefix)

    def _fitting(self, prefix: Runs) -> Runs:
        """The prefix, if it leaves room for text; else of a first line its mark only."""
        if not prefix or width_of_runs(prefix) <= self._limit - _MIN_ROOM:
            return prefix
        return prefix[-1:] if prefix[-1][0].strip(" │") else ()


def width_of_runs(runs: Runs) -> int:
    return sum(width_of(text) for text, _ in runs)
