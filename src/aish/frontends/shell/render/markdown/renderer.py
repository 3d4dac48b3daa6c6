"""Draws Markdown on a terminal while it arrives.

Output is append-only: the cursor never moves back. Only what is not known yet is held back: the start of a line until
its kind is clear, a phrase whose mark is open, a word, a line of code, and tables. The same text gives the same output
however it was cut into pieces, and the work is linear in its length.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from aish.frontends.shell.render.markdown.inline import Inline
from aish.frontends.shell.render.markdown.lines import (
    Box,
    Fence,
    LineKind,
    MarkdownLine,
    parse_fence,
    parse_heading,
    read_markdown_line,
    strip_boxes,
)
from aish.frontends.shell.render.markdown.table import MarkdownTable, is_ruler
from aish.frontends.shell.render.markdown.wrap import LineSink, Wrap, width_of_runs
from aish.frontends.shell.render.styles import BOLD, DIM, MIN_COLUMNS, PLAIN, TITLE, Run, Runs, Style, StyledBuffer
from aish.frontends.shell.render.text_width import count_fitting, width_of
from aish.frontends.terminal import visible
from aish.tool_calls.detect.proposals import MAX_BLOCK_CHARS, BlockScanner, may_be_command

_BAR: Run = ("│ ", DIM)

# A longer line of code is data: it is shown as it arrives, without colours.
MAX_COLOURED_CHARS = 2000
_MIN_ROOM = 8
_SLICE = 256


class Highlighter(Protocol):
    def line(self, text: str) -> list[Run]:
        """The next line of the block as runs, which joined are that line."""


class VerbatimPrinter:
    """Prints lines verbatim: code, cut at the edge of the screen and coloured by a highlighter. Reads `columns` anew
    for each row of the screen. Each row begins with the prefix if there is room for it."""

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


FindHighlighter = Callable[[str], Highlighter | None]


class _NumberedLine:
    """Draws the number before the line of a proposal dim, and the line as it is."""

    def __init__(self, number: str) -> None:
        self._number = number

    def line(self, text: str) -> list[Run]:
        return [(self._number, DIM), (text.removeprefix(self._number), PLAIN)]


class Markdown:
    """`find_highlighter` gets the language that a fence names. `blocks` gets each line, and numbers what can be run or
    copied."""

    def __init__(
        self,
        write: Callable[[str], None],
        columns: Callable[[], int],
        *,
        find_highlighter: FindHighlighter = lambda language: None,
        blocks: BlockScanner | None = None,
    ) -> None:
        self._blocks = blocks
        self._source = ""  # the current line as it came
        self._number = 0  # of the block that begins with it
        self._write = write
        self._columns = columns
        self._find_highlighter = find_highlighter
        self._buffer = StyledBuffer()
        self._wrap = Wrap(self._buffer, columns)
        self._inline = Inline(self._wrap)
        self._boxes: tuple[Box, ...] = ()
        self._line = ""  # the start of a line whose kind is not known yet
        self._is_streaming = False  # the rest of the line is text
        self._in_text = False  # a line of text may continue the block before it
        self._fence: Fence | None = None
        self._fence_indent = 0
        self._code: VerbatimPrinter | None = None
        self._in_long_line = False
        self._header: MarkdownLine | None = None  # a row that may become the head of a table
        self._table: MarkdownTable | None = None
        self._gap: Runs | None = None  # a blank line to be shown when something follows
        self._has_begun = False

    def feed(self, text: str) -> None:
        text = visible(text)
        at = 0
        while at < len(text):
            end = text.find("\n", at)
            piece = text[at:] if end < 0 else text[at:end]
            if self._blocks:
                self._scan(self._blocks, piece, ends=end >= 0)
            self._piece(piece, ends=end >= 0)
            at = len(text) if end < 0 else end + 1
        self._flush()

    def show_held_word(self) -> int:
        """Shows the word that is held back, because nothing has come after it for a while. Returns the column behind
        it."""
        self._wrap.end_word()
        self._buffer.plain()
        self._flush()
        return self._wrap.column

    def close(self) -> None:
        """Shows everything held back and ends the line. The next text begins a new document."""
        if self._blocks:
            self._scan(self._blocks, "", ends=True)
            self._blocks.reset()
        if self._in_long_line or self._line:
            self._piece("", ends=True)
        self._end_table()
        self._end_text()
        self._buffer.plain()
        self._flush()
        self._boxes, self._fence, self._code, self._is_streaming = (), None, None, False
        self._gap, self._has_begun = None, False

    def _flush(self) -> None:
        if text := self._buffer.take():
            self._write(text)

    def _scan(self, blocks: BlockScanner, piece: str, *, ends: bool) -> None:
        """Shows the scanner a whole line before it is drawn."""
        if len(self._source) <= MAX_BLOCK_CHARS:
            self._source += piece
        self._number = 0
        if ends:
            self._number = blocks.feed(self._source)
            self._source = ""

    def _piece(self, piece: str, *, ends: bool) -> None:
        if self._is_streaming:
            piece = piece.replace("\t", "    ")
            self._inline.feed(f"{piece}\n" if ends else piece)
            self._is_streaming = not ends
        elif self._code:
            self._code_piece(self._code, piece, ends=ends)
        else:
            self._line += piece
            if may_be_command(self._line, whole=ends):
                self._command_piece(ends=ends)
                return
            line = read_markdown_line(self._line, self._boxes, whole=ends, in_text=self._in_text)
            if line:
                self._line = ""
                self._take(line, whole=ends)

    def _command_piece(self, *, ends: bool) -> None:
        """A line that proposes a command is shown as it is, when all of it is there: no Markdown changes it."""
        if not ends:
            return
        line, self._line = self._line, ""
        self._end_table()
        self._end_text()
        self._open(MarkdownLine(LineKind.TEXT, (), 0, 0, line))
        number = f"[{self._number}] " if self._number else ""
        VerbatimPrinter(self._buffer, self._columns, (), _NumberedLine(number)).line(number + line)

    def _take(self, line: MarkdownLine, *, whole: bool) -> None:
        continues = line.kept == len(line.boxes) == len(self._boxes)
        if line.kind is LineKind.ROW:
            self._row(line, continues=continues)
            return
        self._end_table()
        if line.kind is LineKind.TEXT:
            self._text(line, continues=continues, whole=whole)
            return
        self._end_text()
        if line.kind is LineKind.BLANK:
            self._gap = _bars(line.boxes)
            self._boxes = line.boxes
            return
        first, rest = self._open(line)
        match line.kind:
            case LineKind.HEADING:
                self._heading(line.rest, first, rest)
            case LineKind.RULE:
                room = max(MIN_COLUMNS, self._columns()) - width_of_runs(first)
                VerbatimPrinter(self._buffer, self._columns, first).line("─" * max(3, room), DIM)
            case LineKind.FENCE:
                self._open_fence(line, first, rest)
            case LineKind.INDENTED:
                VerbatimPrinter(self._buffer, self._columns, first).line(" " * line.indent + line.rest)

    def _open(self, line: MarkdownLine) -> tuple[Runs, Runs]:
        """Begins a block with the blank line before it. Returns the prefixes of its first and of its other lines."""
        if self._gap is not None and self._has_begun:
            for text, style in self._gap:
                self._buffer.put(text, style)
            self._buffer.newline()
        self._gap, self._has_begun = None, True
        self._boxes = line.boxes
        return _prefix(line.boxes, line.kept), _prefix(line.boxes, len(line.boxes))

    def _text(self, line: MarkdownLine, *, continues: bool, whole: bool) -> None:
        if not (continues and self._in_text):
            self._end_text()
            self._wrap.start(*self._open(line))
        self._in_text, self._is_streaming = True, not whole
        self._inline.feed(f"{line.rest}\n" if whole else line.rest)

    def _end_text(self) -> None:
        if self._in_text:
            self._inline.finish()
            self._wrap.finish()
            self._in_text = False

    def _heading(self, text: str, first: Runs, rest: Runs) -> None:
        level, title = parse_heading(text)
        self._wrap.start(first, rest)
        self._inline.finish(TITLE if level == 1 else BOLD)
        self._inline.feed(title)
        self._inline.finish(PLAIN)
        self._wrap.finish()

    def _open_fence(self, line: MarkdownLine, first: Runs, rest: Runs) -> None:
        self._fence, self._fence_indent = parse_fence(line.rest), line.indent
        number = f"  [{self._number}]" if self._number else ""
        VerbatimPrinter(self._buffer, self._columns, first).line(f"{line.rest.rstrip()}{number}", DIM)
        highlighter = self._find_highlighter(self._fence.language) if self._fence.language else None
        self._code = VerbatimPrinter(self._buffer, self._columns, rest, highlighter)

    def _code_piece(self, code: VerbatimPrinter, piece: str, *, ends: bool) -> None:
        if self._in_long_line:
            code.long_piece(piece, ends=ends)
            self._in_long_line = not ends
            return
        self._line += piece
        if len(self._line) > MAX_COLOURED_CHARS:
            text = strip_boxes(self._line, self._boxes, self._fence_indent)
            code.long_piece(self._line if text is None else text, ends=ends)
            self._line, self._in_long_line = "", not ends
        elif ends:
            line, self._line = self._line, ""
            self._code_line(code, line)

    def _code_line(self, code: VerbatimPrinter, line: str) -> None:
        text = strip_boxes(line, self._boxes, self._fence_indent)
        if text is None:  # the quote around the code has ended
            self._code = self._fence = None
            self._piece(line, ends=True)
        elif self._fence and self._fence.is_closed_by(text):
            VerbatimPrinter(self._buffer, self._columns, _prefix(self._boxes, len(self._boxes))).line(text.strip(), DIM)
            self._code = self._fence = None
        else:
            code.line(text)

    def _row(self, line: MarkdownLine, *, continues: bool) -> None:
        if self._table and continues:
            self._table.add(line.rest)
        elif self._header and continues and is_ruler(line.rest, self._header.rest):
            first, rest = self._open(self._header)
            self._table = MarkdownTable(
                self._buffer, self._columns, self._header.rest, line.rest, first=first, rest=rest
            )
            self._header = None
        else:
            self._end_table()
            self._end_text()
            self._header = line
            self._boxes = line.boxes

    def _end_table(self) -> None:
        if self._header:
            header, self._header = self._header, None
            self._text(header, continues=False, whole=True)
        elif self._table:
            self._table.finish()
            self._table = None


def _prefix(boxes: tuple[Box, ...], kept: int) -> Runs:
    """The prefix of a line: bars for quotes, the marks of new list items, blanks for earlier ones."""
    runs: list[Run] = []
    for at, box in enumerate(boxes):
        mark = f"{box.mark} "
        runs.append(_BAR if box.is_quote else (mark if at >= kept else " " * len(mark), PLAIN))
    return tuple(runs)


def _bars(boxes: tuple[Box, ...]) -> Runs:
    quotes = [at for at, box in enumerate(boxes) if box.is_quote]
    return _prefix(boxes[: quotes[-1] + 1], len(boxes)) if quotes else ()
