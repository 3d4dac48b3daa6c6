"""The line editor: prompt_toolkit with a mark that shows, while typing, where the line will go.

It owns the terminal only while it reads. History is one file for all runs; each line is added when it is entered.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import ThreadedCompleter  # noqa: F401 - loads what completion needs, once
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.patch_stdout import patch_stdout

from aish.faces.shell.completing import ShellCompleter
from aish.faces.shell.prompt_line import prompt_fragments
from aish.faces.shell.routing import Goal, route
from aish.faces.shell.state import Shell


class Prompt:
    def __init__(self, shell: Shell, history_file: Path | None, *, plain: bool) -> None:
        self._shell = shell
        self._template = shell.runtime.config.shell.prompt
        self._plain = plain
        self._session: PromptSession[str] = PromptSession(
            history=_history(history_file),
            completer=ShellCompleter(shell),
            complete_while_typing=False,
            auto_suggest=AutoSuggestFromHistory(),
            enable_open_in_editor=True,
            enable_history_search=True,
            key_bindings=_keys(),
            multiline=Condition(lambda: _is_unfinished(get_app().current_buffer.text)),
            mouse_support=False,
            reserve_space_for_menu=6,
        )

    async def read(self, typed: str = "") -> str | None:
        """A line; None at the end (Ctrl-D). Raises KeyboardInterrupt for Ctrl-C."""
        self._session.app.editing_mode = self._editing()
        try:
            with patch_stdout(raw=True):
                return await self._session.prompt_async(
                    self._message, default=typed, handle_sigint=True, set_exception_handler=False
                )
        except EOFError:
            return None

    async def ask(self, question: str, typed: str = "") -> str | None:
        """A short answer, outside the history."""
        session: PromptSession[str] = PromptSession(history=InMemoryHistory())
        with contextlib.suppress(EOFError, KeyboardInterrupt):
            return await session.prompt_async(question, default=typed, set_exception_handler=False)
        return None

    def _message(self) -> FormattedText:
        goal = self._goal(get_app().current_buffer.text)
        return FormattedText(prompt_fragments(self._shell, self._template, goal, plain=self._plain))

    def _goal(self, text: str) -> Goal:
        live = self._shell.live
        return route(text, live.resolve if live else lambda word: None).goal

    def _editing(self) -> EditingMode:
        wanted = self._shell.runtime.config.shell.editing
        if wanted == "auto":
            wanted = "vi" if self._shell.live and self._shell.live.editing == "vi" else "emacs"
        return EditingMode.VI if wanted == "vi" else EditingMode.EMACS


def _history(file: Path | None) -> History:
    if file is None:
        return InMemoryHistory()
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(file)


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-x", "c-e")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.open_in_editor()

    return keys


def _is_unfinished(text: str) -> bool:
    """A line that ends in a backslash, or in an open fence, goes on in the next one."""
    return text.endswith("\\") or text.count("```") % 2 == 1
