"""The menu of Ctrl-R: a line to type what is looked for, and what was found below it, entries of many lines whole.

It is a small application of its own, which stands in the place of the prompt while it is open.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec
from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import BufferControl, FormattedTextControl, HSplit, Layout, VSplit, Window
from prompt_toolkit.output import Output

from aish.frontends.shell.prompt.history import HistoryEntry, PromptHistory
from aish.frontends.shell.prompt.history_search import HistoryIndex

_MAX_ROWS = 10
_MAX_ENTRY_ROWS = 8  # of one entry, so that others are seen, too
_HELP = "Enter runs, Tab edits, Ctrl-T this folder or all, Esc goes back"


class HistoryChoice(msgspec.Struct, frozen=True):
    line: str
    action: Literal["run", "edit", "cancel"]


class HistoryMenu:
    def __init__(self, history: PromptHistory, cwd: str, typed: str, *, plain: bool, output: Output | None) -> None:
        history.load_all()
        self._history = history
        self._cwd = cwd
        self._typed = typed
        self._plain = plain
        self._indexes: dict[bool, HistoryIndex] = {}
        self._is_local = False
        self._found: list[HistoryEntry] = []
        self._selected = 0
        self._query = Buffer(document=Document(typed), multiline=False, on_text_changed=lambda _: self.search())
        self.search()
        self.app: Application[HistoryChoice] = Application(
            layout=Layout(self._build_layout()),
            key_bindings=_menu_keys(self),
            output=output,
            erase_when_done=True,
        )

    async def run(self) -> HistoryChoice:
        return await self.app.run_async(set_exception_handler=False)

    def search(self) -> None:
        if self._is_local not in self._indexes:
            self._indexes[self._is_local] = HistoryIndex(self._history.entries, self._cwd if self._is_local else None)
        self._found = self._indexes[self._is_local].search(self._query.text)
        self._selected = 0

    def toggle_folder(self) -> None:
        self._is_local = not self._is_local
        self.search()

    def move(self, by: int) -> None:
        """Up the list is towards older entries."""
        self._selected = max(0, min(self._selected + by, len(self._found) - 1))

    def choose(self, action: Literal["run", "edit"]) -> HistoryChoice:
        if not self._found:
            return HistoryChoice(self._query.text, "edit")
        return HistoryChoice(self._found[self._selected].line, action)

    def cancel(self) -> HistoryChoice:
        return HistoryChoice(self._typed, "cancel")

    def _build_layout(self) -> HSplit:
        label = FormattedTextControl(lambda: f"history of {'this folder' if self._is_local else 'all folders'} › ")
        question = VSplit([
            Window(label, dont_extend_width=True, height=1),
            Window(BufferControl(self._query), height=1),
        ])  # fmt: skip
        listed = Window(FormattedTextControl(self._list_rows), wrap_lines=False, dont_extend_height=True)
        return HSplit(
            [question, listed, Window(FormattedTextControl(_HELP, style=self._style("fg:ansibrightblack")), height=1)]
        )

    def _style(self, style: str) -> str:
        return "" if self._plain else style

    def _list_rows(self) -> StyleAndTextTuples:
        """The selected entry and those around it, as many as there is room for."""
        rows: StyleAndTextTuples = []
        used, number = 0, max(0, self._selected - _MAX_ROWS // 2)
        for entry in self._found[number:]:
            lines = entry.line.splitlines()[:_MAX_ENTRY_ROWS]
            if used and used + len(lines) > _MAX_ROWS:
                break
            is_selected = number == self._selected
            marker = "❯ " if is_selected and not self._plain else "> " if is_selected else "  "
            text = "\n  ".join(line.expandtabs(4) for line in lines)
            rows.append(("reverse" if is_selected and not self._plain else "", f"{marker}{text}"))
            rows.append((self._style("fg:ansibrightblack"), f"{describe_entry(entry, self._cwd)}\n"))
            used, number = used + len(lines), number + 1
        return rows or [("", "  nothing found\n")]


def describe_entry(entry: HistoryEntry, cwd: str) -> str:
    """Where it ran, if elsewhere, how it ended and how long it took."""
    parts = [
        entry.cwd if entry.cwd not in ("", cwd) else "",
        f"exit {entry.status}" if entry.status else "",
        f"{entry.duration_s:.0f} s" if entry.duration_s >= 1 else "",
    ]
    text = ", ".join(filter(None, parts))
    return f"   {text}" if text else ""


def _menu_keys(menu: HistoryMenu) -> KeyBindings:
    keys = KeyBindings()

    def bind(action: Callable[[KeyPressEvent], None], *names: str) -> None:
        for name in names:
            keys.add(name)(action)

    bind(lambda event: event.app.exit(result=menu.choose("run")), "enter")
    bind(lambda event: event.app.exit(result=menu.choose("edit")), "tab", "right")
    bind(lambda event: event.app.exit(result=menu.cancel()), "escape", "c-g", "c-c", "c-d")
    bind(lambda event: menu.move(1), "c-r", "down", "c-n")
    bind(lambda event: menu.move(-1), "c-s", "up", "c-p")
    bind(lambda event: menu.toggle_folder(), "c-t")
    return keys
