"""Markdown for a terminal, drawn while it arrives.

What has been written stays: there is no cursor movement at all. Held back is only what is not known yet: the start of
a line until it shows what it is, a phrase whose mark is open, a word, a line of code, and tables. The same text gives
the same output however it was cut into pieces, and the work is linear in its length.
"""

from __future__ import annotations

from collections.abc import Callable

from aish.frontends.shell.render.markdown.code import LONG, Highlighter, Verbatim
from aish.frontends.shell.render.markdown.inline import Inline
from aish.frontends.shell.render.markdown.lines import Box, Fence, Kind, Line, fence_of, heading_of, inside, read_line
from aish.frontends.shell.render.markdown.table import Table, is_ruler
from aish.frontends.shell.render.markdown.wrap import Wrap, width_of_runs
from aish.frontends.shell.render.styles import BOLD, DIM, MIN_COLUMNS, PLAIN, TITLE, Ink, Run, Runs
from aish.frontends.terminal import visible

_BAR: Run = ("│ ", DIM)

FindHighlighter = Callable[[str], Highlighter | None]


class Markdown:
    """`find_highlighter` is asked with the language that a fence names."""

    def __init__(
        self,
        write: Callable[[str], None],
        columns: Callable[[], int],
        *,
        find_highlighter: FindHighlighter = lambda language: None,
    ) -> None:
        self._write = write
        self._columns = columns
        self._find_highlighter = find_highlighter
        self._ink = Ink()
        self._wrap = Wrap(self._ink, columns)
        self._inline = Inline(self._wrap)
        self._boxes: tuple[Box, ...] = ()
        self._line = ""  # of which it is not known yet what it is
        self._streaming = False  # what comes is text, up to the end of the line
        self._in_text = False  # a line of text may go on with the block before it
        self._fence: Fence | None = None
        self._fence_indent = 0
        self._code: Verbatim | None = None
        self._long = False
        self._header: Line | None = None  # a row that may become the head of a table
        self._table: Table | None = None
        self._gap: Runs | None = None  # a blank line to be shown when something follows
        self._begun = False

    def feed(self, text: str) -> None:
        text = visible(text)
        at = 0
        while at < len(text):
            end = text.find("\n", at)
            self._piece(text[at:] if end < 0 else text[at:end], ends=end >= 0)
            at = len(text) if end < 0 else end + 1
        self._flush()

    def close(self) -> None:
        """Everything held back is shown, the line is ended, the next text begins anew."""
        if self._long or self._line:
            self._piece("", ends=True)
        self._end_table()
        self._end_text()
        self._ink.plain()
        self._flush()
        self._boxes, self._fence, self._code, self._streaming = (), None, None, False
        self._gap, self._begun = None, False

    def _flush(self) -> None:
        if text := self._ink.take():
            self._write(text)

    def _piece(self, piece: str, *, ends: bool) -> None:
        if self._streaming:
            piece = piece.replace("\t", "    ")
            self._inline.feed(f"{piece}\n" if ends else piece)
            self._streaming = not ends
        elif self._code:
            self._code_piece(self._code, piece, ends=ends)
        else:
            self._line += piece
            line = read_line(self._line, self._boxes, whole=ends, in_text=self._in_text)
            if line:
                self._line = ""
                self._take(line, whole=ends)

    def _take(self, line: Line, *, whole: bool) -> None:
        goes_on = line.kept == len(line.boxes) == len(self._boxes)
        if line.kind is Kind.ROW:
            self._row(line, goes_on=goes_on)
            return
        self._end_table()
        if line.kind is Kind.TEXT:
            self._text(line, goes_on=goes_on, whole=whole)
            return
        self._end_text()
        if line.kind is Kind.BLANK:
            self._gap = _bars(line.boxes)
            self._boxes = line.boxes
            return
        first, rest = self._open(line)
        match line.kind:
            case Kind.HEADING:
                self._heading(line.rest, first, rest)
            case Kind.RULE:
                room = max(MIN_COLUMNS, self._columns()) - width_of_runs(first)
                Verbatim(self._ink, self._columns, first).line("─" * max(3, room), DIM)
            case Kind.FENCE:
                self._open_fence(line, first, rest)
            case Kind.INDENTED:
                Verbatim(self._ink, self._columns, first).line(" " * line.indent + line.rest)

    def _open(self, line: Line) -> tuple[Runs, Runs]:
        """A block begins: the blank line before it, and what its first and its other lines start with."""
        if self._gap is not None and self._begun:
            for text, style in self._gap:
                self._ink.put(text, style)
            self._ink.newline()
        self._gap, self._begun = None, True
        self._boxes = line.boxes
        return _prefix(line.boxes, line.kept), _prefix(line.boxes, len(line.boxes))

    def _text(self, line: Line, *, goes_on: bool, whole: bool) -> None:
        if not (goes_on and self._in_text):
            self._end_text()
            self._wrap.start(*self._open(line))
        self._in_text, self._streaming = True, not whole
        self._inline.feed(f"{line.rest}\n" if whole else line.rest)

    def _end_text(self) -> None:
        if self._in_text:
            self._inline.finish()
            self._wrap.finish()
            self._in_text = False

    def _heading(self, text: str, first: Runs, rest: Runs) -> None:
        level, title = heading_of(text)
        self._wrap.start(first, rest)
        self._inline.finish(TITLE if level == 1 else BOLD)
        self._inline.feed(title)
        self._inline.finish(PLAIN)
        self._wrap.finish()

    def _open_fence(self, line: Line, first: Runs, rest: Runs) -> None:
        self._fence, self._fence_indent = fence_of(line.rest), line.indent
        Verbatim(self._ink, self._columns, first).line(line.rest.rstrip(), DIM)
        highlighter = self._find_highlighter(self._fence.language) if self._fence.language else None
        self._code = Verbatim(self._ink, self._columns, rest, highlighter)

    def _code_piece(self, code: Verbatim, piece: str, *, ends: bool) -> None:
        if self._long:
            code.long_piece(piece, ends=ends)
            self._long = not ends
            return
        self._line += piece
        if len(self._line) > LONG:
            text = inside(self._line, self._boxes, self._fence_indent)
            code.long_piece(self._line if text is None else text, ends=ends)
            self._line, self._long = "", not ends
        elif ends:
            line, self._line = self._line, ""
            self._code_line(code, line)

    def _code_line(self, code: Verbatim, line: str) -> None:
        text = inside(line, self._boxes, self._fence_indent)
        if text is None:  # the quote it was in has ended
            self._code = self._fence = None
            self._piece(line, ends=True)
        elif self._fence and self._fence.closed_by(text):
            Verbatim(self._ink, self._columns, _prefix(self._boxes, len(self._boxes))).line(text.strip(), DIM)
            self._code = self._fence = None
        else:
            code.line(text)

    def _row(self, line: Line, *, goes_on: bool) -> None:
        if self._table and goes_on:
            self._table.add(line.rest)
        elif self._header and goes_on and is_ruler(line.rest, self._header.rest):
            first, rest = self._open(self._header)
            self._table = Table(self._ink, self._columns, self._header.rest, line.rest, first=first, rest=rest)
            self._header = None
        else:
            self._end_table()
            self._end_text()
            self._header = line
            self._boxes = line.boxes

    def _end_table(self) -> None:
        if self._header:
            header, self._header = self._header, None
            self._text(header, goes_on=False, whole=True)
        elif self._table:
            self._table.finish()
            self._table = None


def _prefix(boxes: tuple[Box, ...], kept: int) -> Runs:
    """Bars for quotes, the marks of items that begin here, and blanks under those that have begun before."""
    runs: list[Run] = []
    for at, box in enumerate(boxes):
        mark = f"{box.mark} "
        runs.append(_BAR if box.is_quote else (mark if at >= kept else " " * len(mark), PLAIN))
    return tuple(runs)


def _bars(boxes: tuple[Box, ...]) -> Runs:
    quotes = [at for at, box in enumerate(boxes) if box.is_quote]
    return _prefix(boxes[: quotes[-1] + 1], len(boxes)) if quotes else ()
