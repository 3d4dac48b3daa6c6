"""Lines shown as they are: code, cut where the screen ends, coloured where a highlighter knows how."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from aish.frontends.shell.render.markdown.wrap import Sheet, width_of_runs
from aish.frontends.shell.render.styles import MIN_COLUMNS, PLAIN, Run, Runs, Style
from aish.frontends.shell.render.text_width import cut, width_of

# A line of code longer than this is data: it is shown as it comes, without colours.
LONG = 2000
_MIN_ROOM = 8
_SLICE = 256


class Highlighter(Protocol):
    def line(self, text: str) -> list[Run]:
        """The next line of the block in pieces that together are that line."""


class Verbatim:
    """`columns` is asked with each line of the screen; each begins with the prefix if there is room for it."""

    def __init__(
        self, sheet: Sheet, columns: Callable[[], int], prefix: Runs, highlighter: Highlighter | None = None
    ) -> None:
        self._sheet = sheet
        self._columns = columns
        self._prefix = prefix
        self._highlighter = highlighter
        self._pending = ""
        self._long = False
        self._limit = self._column = self._indent = 0

    def line(self, text: str, style: Style = PLAIN) -> None:
        text = text.expandtabs(4)
        runs = self._highlighter.line(text) if self._highlighter else [(text, style)]
        self._begin()
        for part, part_style in runs:
            self._put(part, part_style)
        self._sheet.newline()

    def long_piece(self, text: str, *, ends: bool) -> None:
        """A part of a line that is too long to wait for. Cut into equal pieces, however it came."""
        if not self._long:
            self._begin()
            self._long = True
        text = self._pending + text.replace("\t", "    ")
        at = 0
        while len(text) - at >= LONG:
            self._put(text[at : at + LONG], PLAIN)
            at += LONG
        self._pending = text[at:]
        if ends:
            self._put(self._pending, PLAIN)
            self._sheet.newline()
            self._pending, self._long = "", False

    def _begin(self) -> None:
        self._limit = max(MIN_COLUMNS, self._columns())
        width = width_of_runs(self._prefix)
        self._indent = width if width <= self._limit - _MIN_ROOM else 0
        for text, style in self._prefix if self._indent else ():
            self._sheet.put(text, style)
        self._column = self._indent

    def _put(self, text: str, style: Style) -> None:
        at = 0
        while at < len(text):
            part = text[at : at + _SLICE]
            count = cut(part, self._limit - self._column)
            if count == 0 and self._column > self._indent:
                self._sheet.newline()
                self._begin()
                continue
            part = part[: max(1, count)]
            self._sheet.put(part, style)
            self._column += width_of(part)
            at += len(part)
