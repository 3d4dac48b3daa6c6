"""Wraps words into lines. A word is written once it is complete, and never changed afterwards.

At most one word is held back, or one line of a word that is longer. The width is read again for each new line, so a
resized window takes effect with the next line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

from aish.frontends.shell.render.styles import MIN_COLUMNS, PLAIN, Run, Runs, Style
from aish.frontends.shell.render.text_width import added_width, count_fitting, may_break, width_of

# A long word is processed in pieces, so that the part held back stays short.
_PIECES = re.compile(r" {1,64}|[^ ]{1,64}")
# An indent is drawn only if it leaves this much room for text.
_MIN_ROOM = 8


class LineSink(Protocol):
    """Receives the wrapped lines."""

    def put(self, text: str, style: Style = PLAIN) -> None: ...

    def newline(self) -> None: ...


class Wrap:
    def __init__(self, sink: LineSink, columns: Callable[[], int], *, min_columns: int = MIN_COLUMNS) -> None:
        self._sink = sink
        self._columns = columns
        self._min_columns = min_columns  # used even if the terminal has fewer
        self._first: Runs = ()
        self._rest: Runs = ()
        self._column = 0  # 0: nothing is on the line yet, not even its prefix
        self._indent = 0
        self._limit = 0
        self._next_room = 0  # on the next lines of the block
        self._gap: Run = ("", PLAIN)
        self._word: list[Run] = []
        self._word_width = 0
        self._last = ""

    @property
    def at_line_start(self) -> bool:
        return self._column == 0

    @property
    def column(self) -> int:
        return self._column

    @property
    def _is_fresh(self) -> bool:
        """Whether the line has nothing but its prefix."""
        return self._column <= self._indent

    def start(self, first: Runs, rest: Runs) -> None:
        """Begins a block, with the prefixes of its first and of its other lines."""
        self._first, self._rest = first, rest

    def text(self, text: str, style: Style = PLAIN) -> None:
        """Adds text without newlines. Lines may end at blanks."""
        for piece in _PIECES.findall(text):
            if piece[0] == " ":
                self.end_word()
                self._gap = ((self._gap[0] + piece)[: self._limit or self._min_columns], style)
            elif piece.isascii() and (not self._last or self._last < "\x7f"):
                self._grow(piece, len(piece), style)
            else:
                self._add_wide_text(piece, style)

    def _add_wide_text(self, piece: str, style: Style) -> None:
        for char in piece:
            before = self._last
            if before and may_break(before, char):
                self.end_word()
            self._grow(char, added_width(char, before), style)

    def newline(self) -> None:
        """Ends the line, even if it has nothing but its prefix."""
        self.end_word()
        self._gap = ("", PLAIN)
        self._begin_line()
        self._sink.newline()
        self._column = 0

    def finish(self) -> None:
        """Ends the block, and its line if it has begun or its prefix is still to be shown."""
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
        if self._word_width > min(_MIN_ROOM, self._min_columns):  # it may be wider than a line
            self._spill()

    def end_word(self) -> None:
        """Writes the word: it is complete."""
        if not self._word:
            return
        self._begin_line()
        gap, gap_style = self._gap
        if not self._is_fresh:
            if self._column + len(gap) + self._word_width > self._limit:
                self._break()
            else:
                self._sink.put(gap, gap_style)
                self._column += len(gap)
        for text, style in self._word:
            self._sink.put(text, style)
        self._column += self._word_width
        self._word.clear()
        self._word_width, self._last, self._gap = 0, "", ("", PLAIN)

    def _spill(self) -> None:
        """Cuts a word that is longer than a line."""
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
            count = count_fitting(text, self._limit - self._column) or (1 if fresh else 0)
            if count == 0:
                break
            fresh = False
            self._sink.put(text[:count], style)
            width = width_of(text[:count])
            self._column += width
            self._word_width -= width
            if count < len(text):
                self._word[0] = (text[count:], style)
                break
            del self._word[0]

    def _break(self) -> None:
        self._sink.newline()
        self._column = 0
        self._begin_line()

    def _begin_line(self) -> None:
        if self._column:
            return
        self._limit = max(self._min_columns, self._columns())
        prefix = self._fit_prefix(self._first or self._rest)
        self._next_room = self._limit - width_of_runs(self._fit_prefix(self._rest))
        self._first = ()
        for text, style in prefix:
            self._sink.put(text, style)
        self._column = self._indent = width_of_runs(prefix)

    def _fit_prefix(self, prefix: Runs) -> Runs:
        """The prefix if it leaves room for text; otherwise only the mark of a first line."""
        if not prefix or width_of_runs(prefix) <= self._limit - _MIN_ROOM:
            return prefix
        return prefix[-1:] if prefix[-1][0].strip(" │") else ()


def width_of_runs(runs: Runs) -> int:
    return sum(width_of(text) for text, _ in runs)
