"""Connects the line editor with the history that all shells share: Up, Ctrl-R, Alt-. and suggestions."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Iterable
from itertools import islice

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import emacs_mode, has_focus, vi_navigation_mode
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.vi_state import InputMode

from aish.frontends.shell.prompt.history import PromptHistory

# Up walks these; Ctrl-R finds all. Walking further by single keys takes too long, and prompt_toolkit copies them for
# each prompt, which takes 1 ms.
_MAX_WALKED = 2000
_SHELL_WORD = re.compile(r"(?:\\.|\"(?:\\.|[^\"\\])*\"|'[^']*'|[^\s\"'\\])+", re.DOTALL)


class EditorHistory(History):
    """What prompt_toolkit sees of the history. The shell adds entered lines, once it knows whether bash keeps them."""

    def __init__(self, history: PromptHistory, limit: Callable[[], int | None]) -> None:
        super().__init__()
        self._history = history
        self._limit = limit

    def walked_lines(self) -> list[str]:
        limit = self._limit()
        return self._history.newest_lines(_MAX_WALKED if limit is None else min(limit, _MAX_WALKED))

    async def load(self) -> AsyncGenerator[str, None]:
        self._history.refresh()
        for line in reversed(self.walked_lines()):
            yield line

    def get_strings(self) -> list[str]:
        return self.walked_lines()

    def append_string(self, string: str) -> None:
        """The shell adds it."""

    def load_history_strings(self) -> Iterable[str]:
        return reversed(self.walked_lines())

    def store_string(self, string: str) -> None:
        """The shell adds it."""

    def take_new_lines(self, buffer: Buffer) -> None:
        """Lets Up walk what other shells have added since the prompt was drawn, too."""
        self._history.refresh()
        lines = buffer._working_lines  # there is no public way to change what Up walks
        walked = self.walked_lines()
        if buffer.working_index == len(lines) - 1 and [*islice(lines, len(lines) - 1)] != walked:
            typed = lines[-1]
            lines.clear()
            lines.extend([*walked, typed])
            buffer.working_index = len(lines) - 1


class LastArguments:
    """Alt-. inserts the last word of the last line; pressed again, that of the line before."""

    def __init__(self, history: EditorHistory) -> None:
        self._history = history
        self._steps = 0
        self._inserted = ""

    def insert(self, event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if event.is_repeat:
            buffer.delete_before_cursor(len(self._inserted))
        self._steps = self._steps + 1 if event.is_repeat else 1
        lines = self._history.walked_lines()
        line = lines[-self._steps] if self._steps <= len(lines) else ""
        self._inserted = find_last_word(line)
        buffer.insert_text(self._inserted)


def find_last_word(line: str) -> str:
    """The last word as bash divides a line: quotations belong to their word."""
    words = _SHELL_WORD.findall(line)
    return words[-1] if words else ""


def change_word(event: KeyPressEvent) -> None:
    """`cw` of vi: as `ce`, it leaves the blank after the word."""
    buffer = event.current_buffer
    document = buffer.document
    if document.current_char.isspace():
        end = document.find_next_word_beginning(count=event.arg)
    else:
        end = document.find_next_word_ending(count=event.arg, include_current_position=True)
    deleted = buffer.delete(count=len(document.text_after_cursor) if end is None else end)
    event.app.clipboard.set_text(deleted)
    event.app.vi_state.input_mode = InputMode.INSERT


def history_keys(history: EditorHistory, search: Callable[[KeyPressEvent], None]) -> KeyBindings:
    keys = KeyBindings()
    in_line = has_focus(DEFAULT_BUFFER) & ~vi_navigation_mode

    @keys.add("up", filter=in_line)
    @keys.add("c-p", filter=in_line & emacs_mode)
    def _(event: KeyPressEvent) -> None:
        history.take_new_lines(event.current_buffer)
        event.current_buffer.auto_up(count=event.arg)

    keys.add("c", "w", filter=has_focus(DEFAULT_BUFFER) & vi_navigation_mode)(change_word)
    arguments = LastArguments(history)
    keys.add("escape", ".", filter=in_line)(arguments.insert)
    keys.add("escape", "_", filter=in_line)(arguments.insert)

    @keys.add("c-r", filter=in_line)
    def _(event: KeyPressEvent) -> None:
        search(event)

    return keys
