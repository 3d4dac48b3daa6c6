"""Tables: held until they are complete or long, then laid out in the columns there are.

Columns that do not fit share the room, and their cells are wrapped. Where even that is too narrow, each row is shown as
a list of its cells, each with the name of its column.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from aish.frontends.shell.render.markdown.inline import Inline
from aish.frontends.shell.render.markdown.wrap import Sheet, Wrap, width_of_runs
from aish.frontends.shell.render.styles import BOLD, DIM, MIN_COLUMNS, PLAIN, Run, Runs, Style

# What is held of a table; the widths of its columns are known well enough by then.
_MAX_HELD_CHARS = 16_000
_MIN_CELL = 6
_SEPARATOR = " │ "
_RULER_CELL = re.compile(r" *(:?)-+(:?) *$")
_CELL_END = re.compile(r"\\.|\|", re.DOTALL)


def cells_of(row: str) -> list[str]:
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
    cells = cells_of(row)
    return bool(cells) and all(map(_RULER_CELL.match, cells)) and len(cells) == len(cells_of(header))


class _Page:
    """Lines kept as runs instead of being written."""

    def __init__(self) -> None:
        self.lines: list[list[Run]] = [[]]

    def put(self, text: str, style: Style = PLAIN) -> None:
        self.lines[-1].append((text, style))

    def newline(self) -> None:
        self.lines.append([])


class Table:
    def __init__(
        self, sheet: Sheet, columns: Callable[[], int], header: str, ruler: str, *, first: Runs, rest: Runs
    ) -> None:
        self._sheet = sheet
        self._columns = columns
        self._first, self._rest = first, rest
        self._header = cells_of(header)
        self._aligns = [_align(cell) for cell in cells_of(ruler)]
        self._held: list[list[str]] = []
        self._held_chars = 0
        self._wants: list[int] | None = None  # known once rows are shown

    def add(self, row: str) -> None:
        cells = cells_of(row)
        count = len(self._header)
        cells = [*cells[: count - 1], " | ".join(cells[count - 1 :])] if len(cells) > count else cells
        cells += [""] * (count - len(cells))
        self._held.append(cells)
        self._held_chars += len(row)
        if self._wants or self._held_chars > _MAX_HELD_CHARS:
            self.finish()

    def finish(self) -> None:
        """Shows the rows held; more may follow, in the same columns."""
        if self._wants is None:
            self._wants = [max(map(_natural_width, column)) for column in zip(self._header, *self._held, strict=True)]
            self._show_head(self._wants)
        for cells in self._held:
            self._show_row(cells, self._wants, PLAIN)
        self._held.clear()

    def _room(self) -> int:
        return max(MIN_COLUMNS, self._columns()) - self._indent

    @property
    def _indent(self) -> int:
        width = width_of_runs(self._rest)
        return width if width + MIN_COLUMNS <= max(MIN_COLUMNS, self._columns()) else 0

    def _show_head(self, wants: list[int]) -> None:
        widths = fit(wants, self._room())
        if not widths:
            return
        self._show_row(self._header, wants, BOLD)
        self._begin_line()
        self._sheet.put("─┼─".join("─" * width for width in widths), DIM)
        self._sheet.newline()

    def _show_row(self, cells: list[str], wants: list[int], style: Style) -> None:
        widths = fit(wants, self._room())
        if not widths:
            self._show_as_list(cells)
            return
        pages = [_page(cell, width, style) for cell, width in zip(cells, widths, strict=True)]
        for at in range(max(len(page.lines) for page in pages)):
            self._begin_line()
            for column, (page, width) in enumerate(zip(pages, widths, strict=True)):
                if column:
                    self._sheet.put(_SEPARATOR, DIM)
                line = page.lines[at] if at < len(page.lines) else []
                self._show_cell(line, width, self._aligns[column], last=column == len(widths) - 1)
            self._sheet.newline()

    def _show_cell(self, line: list[Run], width: int, align: str, *, last: bool) -> None:
        spare = max(0, width - width_of_runs(tuple(line)))
        left = spare if align == "right" else spare // 2 if align == "center" else 0
        self._sheet.put(" " * left)
        for text, style in line:
            self._sheet.put(text, style)
        if not last:
            self._sheet.put(" " * (spare - left))

    def _show_as_list(self, cells: list[str]) -> None:
        for at, (name, cell) in enumerate(zip(self._header, cells, strict=True)):
            wrap = Wrap(self._sheet, self._columns)
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
                self._sheet.put(text, style)
        self._first = self._rest


def fit(wants: list[int], room: int) -> list[int] | None:
    """The widths of the columns: as wanted, or the widest ones narrowed until all fit. None when that is too narrow."""
    room -= len(_SEPARATOR) * (len(wants) - 1)
    if sum(wants) <= room:
        return wants
    most, spare = 0, room
    for at, want in enumerate(sorted(wants)):
        most = spare // (len(wants) - at)
        if want > most:
            break
        spare -= want
    return [min(want, most) for want in wants] if most >= _MIN_CELL else None


def _align(cell: str) -> str:
    found = _RULER_CELL.match(cell)
    left, right = found.groups() if found else ("", "")
    return "center" if left and right else "right" if right else "left"


def _write(wrap: Wrap, cell: str, style: Style) -> None:
    inline = Inline(wrap, style)
    inline.feed(cell.replace("\\|", "|"))
    inline.finish()


def _page(cell: str, width: int, style: Style) -> _Page:
    page = _Page()
    wrap = Wrap(page, lambda: width, least=1)
    _write(wrap, cell, style)
    wrap.end_word()
    return page


def _natural_width(cell: str) -> int:
    page = _page(cell, 10_000, PLAIN)
    return max(1, *(width_of_runs(tuple(line)) for line in page.lines))
