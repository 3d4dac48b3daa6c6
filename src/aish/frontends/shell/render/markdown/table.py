"""Tables: collected until they are complete or long, then laid out in the width of the terminal.

Columns that do not fit share the width, and their cells are wrapped. If even that is too narrow, each row is shown as a
list of its cells with the names of their columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from aish.frontends.shell.render.markdown.inline import Inline
from aish.frontends.shell.render.markdown.wrap import LineSink, Wrap, width_of_runs
from aish.frontends.shell.render.styles import BOLD, DIM, MIN_COLUMNS, PLAIN, Run, Runs, Style

# Rows collected before the widths of the columns are fixed.
_MAX_PENDING_CHARS = 16_000
_MIN_CELL = 6
_SEPARATOR = " │ "
_RULER_CELL = re.compile(r" *(:?)-+(:?) *$")
_CELL_END = re.compile(r"\\.|\|", re.DOTALL)


def split_cells(row: str) -> list[str]:
    text = row.strip()[1:]
    cells, start = [], 0
    for found in _CELL_END.finditer(text):
        if found.group() == "|":
            cells.append(text[start : found.start()])
            start = found.end()
    if text[start:].strip():
        cells.append(text[start:])
    return [cell.strip() for cell in cells]


def is_ruler(row: str, header: str) -> bool:
    cells = split_cells(row)
    return bool(cells) and all(map(_RULER_CELL.match, cells)) and len(cells) == len(split_cells(header))


class _CellLines:
    """Collects lines as runs instead of writing them."""

    def __init__(self) -> None:
        self.lines: list[list[Run]] = [[]]

    def put(self, text: str, style: Style = PLAIN) -> None:
        self.lines[-1].append((text, style))

    def newline(self) -> None:
        self.lines.append([])


class MarkdownTable:
    def __init__(
        self, sink: LineSink, columns: Callable[[], int], header: str, ruler: str, *, first: Runs, rest: Runs
    ) -> None:
        self._sink = sink
        self._columns = columns
        self._first, self._rest = first, rest
        self._header = split_cells(header)
        self._aligns = [_align(cell) for cell in split_cells(ruler)]
        self._pending: list[list[str]] = []
        self._pending_chars = 0
        self._widths: list[int] | None = None  # natural widths of the columns; fixed when rows are first shown

    def add(self, row: str) -> None:
        cells = split_cells(row)
        count = len(self._header)
        cells = [*cells[: count - 1], " | ".join(cells[count - 1 :])] if len(cells) > count else cells
        cells += [""] * (count - len(cells))
        self._pending.append(cells)
        self._pending_chars += len(row)
        if self._widths or self._pending_chars > _MAX_PENDING_CHARS:
            self.finish()

    def finish(self) -> None:
        """Shows the pending rows. More may follow, in the same columns."""
        if self._widths is None:
            self._widths = [
                max(map(_natural_width, column)) for column in zip(self._header, *self._pending, strict=True)
            ]
            self._show_head(self._widths)
        for cells in self._pending:
            self._show_row(cells, self._widths, PLAIN)
        self._pending.clear()

    def _room(self) -> int:
        return max(MIN_COLUMNS, self._columns()) - self._indent

    @property
    def _indent(self) -> int:
        width = width_of_runs(self._rest)
        return width if width + MIN_COLUMNS <= max(MIN_COLUMNS, self._columns()) else 0

    def _show_head(self, natural: list[int]) -> None:
        widths = fit_widths(natural, self._room())
        if not widths:
            return
        self._show_row(self._header, natural, BOLD)
        self._begin_line()
        self._sink.put("─┼─".join("─" * width for width in widths), DIM)
        self._sink.newline()

    def _show_row(self, cells: list[str], natural: list[int], style: Style) -> None:
        widths = fit_widths(natural, self._room())
        if not widths:
            self._show_as_list(cells)
            return
        pages = [_page(cell, width, style) for cell, width in zip(cells, widths, strict=True)]
        for at in range(max(len(page.lines) for page in pages)):
            self._begin_line()
            for column, (page, width) in enumerate(zip(pages, widths, strict=True)):
                if column:
                    self._sink.put(_SEPARATOR, DIM)
                line = page.lines[at] if at < len(page.lines) else []
                self._show_cell(line, width, self._aligns[column], last=column == len(widths) - 1)
            self._sink.newline()

    def _show_cell(self, line: list[Run], width: int, align: str, *, last: bool) -> None:
        spare = max(0, width - width_of_runs(tuple(line)))
        left = spare if align == "right" else spare // 2 if align == "center" else 0
        self._sink.put(" " * left)
        for text, style in line:
            self._sink.put(text, style)
        if not last:
            self._sink.put(" " * (spare - left))

    def _show_as_list(self, cells: list[str]) -> None:
        for at, (name, cell) in enumerate(zip(self._header, cells, strict=True)):
            wrap = Wrap(self._sink, self._columns)
            first = self._first if self._indent else ()
            rest = self._rest if self._indent else ()
            self._first = self._rest
            wrap.start((*first, ("- " if at == 0 else "  ", PLAIN)), (*rest, ("    ", PLAIN)))
            _write(wrap, f"{name}:", BOLD)
            wrap.text(" ")
            _write(wrap, cell, PLAIN)
            wrap.finish()

    def _begin_line(self) -> None:
        if self._indent:
            for text, style in self._first:
                self._sink.put(text, style)
        self._first = self._rest


def fit_widths(natural: list[int], room: int) -> list[int] | None:
    """The widths of the columns: the natural ones, with the widest narrowed until all fit. None if that is too
    narrow."""
    room -= len(_SEPARATOR) * (len(natural) - 1)
    if sum(natural) <= room:
        return natural
    limit, spare = 0, room
    for at, width in enumerate(sorted(natural)):
        limit = spare // (len(natural) - at)
        if width > limit:
            break
        spare -= width
    return [min(width, limit) for width in natural] if limit >= _MIN_CELL else None


def _align(cell: str) -> str:
    found = _RULER_CELL.match(cell)
    left, right = found.groups() if found else ("", "")
    return "center" if left and right else "right" if right else "left"


def _write(wrap: Wrap, cell: str, style: Style) -> None:
    inline = Inline(wrap, style)
    inline.feed(cell.replace("\\|", "|"))
    inline.finish()


def _page(cell: str, width: int, style: Style) -> _CellLines:
    page = _CellLines()
    wrap = Wrap(page, lambda: width, min_columns=1)
    _write(wrap, cell, style)
    wrap.end_word()
    return page


def _natural_width(cell: str) -> int:
    page = _page(cell, 10_000, PLAIN)
    return max(1, *(width_of_runs(tuple(line)) for line in page.lines))
