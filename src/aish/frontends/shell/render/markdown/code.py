"""Prints lines verbatim: code, cut at the edge of the screen and coloured by a highlighter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from aish.frontends.shell.render.markdown.wrap import LineSink, width_of_runs
from aish.frontends.shell.render.styles import MIN_COLUMNS, PLAIN, Run, Runs, Style
from aish.frontends.shell.render.text_width import count_fitting, width_of

# A longer line of code is data: it is shown as it arrives, without colours.
MAX_COLOURED_CHARS = 2000
_MIN_ROOM = 8
_SLICE = 256


class Highlighter(Protocol):
    def line(self, text: str) -> list[Run]:
        """The next line of the block as runs, which joined are that line."""


class VerbatimPrinter:
    """Reads `columns` anew for each row of the screen. Each row begins with the prefix if there is room for it."""

    def __init__(
        self, sink: LineSink, columns: Callable[[], int], prefix: Runs, highlighter: Highlighter | None = None
    ) -> None:
        self._sink = sink
        self._columns = columns
        self._prefix = prefix
        self._highlighter = highlighter
        self._pending = ""
        self._is_in_long_line = False
        self._limit = self._column = self._indent = 0

    def line(self, text: str, style: Style = PLAIN) -> None:
        text = text.expandtabs(4)
        runs = self._highlighter.line(text) if self._highlighter else [(text, style)]
        self._begin()
        for part, part_style in runs:
            self._put(part, part_style)
        self._sink.newline()

    def long_piece(self, text: str, *, ends: bool) -> None:
        """Prints a part of a line that is too long to wait for its end. Pieces are equally long, however they
        arrived."""
        if not self._is_in_long_line:
            self._begin()
            self._is_in_long_line = True
        text = self._pending + text.replace("\t", "    ")
        at = 0
        while len(text) - at >= MAX_COLOURED_CHARS:
            self._put(text[at : at + MAX_COLOURED_CHARS], PLAIN)
            at += MAX_COLOURED_CHARS
        self._pending = text[at:]
        if ends:
            self._put(self._pending, PLAIN)
            self._sink.newline()
            self._pending, self._is_in_long_line = "", False

    def _begin(self) -> None:
        self._limit = max(MIN_COLUMNS, self._columns())
        width = width_of_runs(self._prefix)
        self._indent = width if width <= self._limit - _MIN_ROOM else 0
        for text, style in self._prefix if self._indent else ():
            self._sink.put(text, style)
        self._column = self._indent

    def _put(self, text: str, style: Style) -> None:
        at = 0
        while at < len(text):
            part = text[at : at + _SLICE]
            count = count_fitting(part, self._limit - self._column)
            if count == 0 and self._column > self._indent:
                self._sink.newline()
                self._begin()
                continue
            part = part[: max(1, count)]
            self._sink.put(part, style)
            self._column += width_of(part)
            at += len(part)
