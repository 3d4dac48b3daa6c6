"""The line editor: prompt_toolkit with a mark that shows, while typing, where the line will go.

It owns the terminal only while it reads. History is one file for all runs; each line is added when it is entered.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.application import Application, get_app
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import ThreadedCompleter  # noqa: F401 - loads what completion needs, once
from prompt_toolkit.enums import DEFAULT_BUFFER, EditingMode
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input.typeahead import clear_typeahead, get_typeahead
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyBindings, KeyPress, KeyPressEvent
from prompt_toolkit.output import Output
from prompt_toolkit.output.defaults import create_output
from prompt_toolkit.patch_stdout import patch_stdout

from aish.errors import ProcessError
from aish.frontends.shell.interrupts import interrupts_kept
from aish.frontends.shell.prompt.completion import ShellCompleter
from aish.frontends.shell.prompt.continuation import goes_on
from aish.frontends.shell.prompt.line_reader import drop_typed_ahead
from aish.frontends.shell.prompt.routing import Goal, route
from aish.frontends.shell.prompt.template import prompt_fragments
from aish.frontends.shell.state import Shell, nothing

_LOOK_S = 1.0
_GOAL = ":norris "
# Of a line, for the mark before it, which is made at every key. Where the line goes is decided by all of it.
_MARKED_CHARS = 4096


class Prompt:
    def __init__(self, shell: Shell, history_file: Path | None, *, plain: bool) -> None:
        self._shell = shell
        self._template = shell.runtime.config.shell.prompt
        self._plain = plain
        self._looking: asyncio.Future[None] | None = None
        self._drawn_for: tuple[int, str] | None = None  # the drawing under way, and the line it shows
        self._fragments = FormattedText()
        self._session: PromptSession[str] = PromptSession(
            history=_history(history_file),
            completer=ShellCompleter(shell),
            complete_while_typing=False,
            auto_suggest=AutoSuggestFromHistory(),
            enable_open_in_editor=True,
            enable_history_search=True,
            key_bindings=_keys(self._is_unfinished),
            mouse_support=False,
            reserve_space_for_menu=6,
            prompt_continuation=_continuation,
            output=_where_the_person_looks(),
        )
        self.on_drawn: Callable[[], object] = nothing  # told once, when the first prompt stands there
        self._session.app.after_render += self._drawn

    def _drawn(self, app: object) -> None:
        told, self.on_drawn = self.on_drawn, nothing
        told()

    async def read(self, typed: str = "") -> str | None:
        """A line; None at the end (Ctrl-D). Raises KeyboardInterrupt for Ctrl-C. The keys `typed` before come first."""
        self._session.app.editing_mode = self._editing()
        self._looking = self._drawn_for = None
        try:
            with interrupts_kept(), patch_stdout(raw=True):
                return await self._session.prompt_async(
                    self._message,
                    pre_run=lambda: _take_over(typed),
                    handle_sigint=True,
                    set_exception_handler=False,
                )
        except EOFError:
            return None

    async def ask(self, question: str, typed: str = "") -> str | None:
        """A short answer, outside the history; none for Ctrl-D, nor for Ctrl-C, which stops what asks, too."""
        session: PromptSession[str] = PromptSession(history=InMemoryHistory(), output=_where_the_person_looks())
        if not typed:  # keys from before the question was seen are no answer to it, but may well be a change to a text
            clear_typeahead(session.app.input)
            drop_typed_ahead()
        try:
            with interrupts_kept():
                return await session.prompt_async(question, default=typed, set_exception_handler=False)
        except EOFError:
            return None
        except KeyboardInterrupt:
            self._shell.stop()
            return None

    def _message(self) -> FormattedText:
        """What stands before the line. It is asked for at every row of a long one, and made once for a drawing."""
        app = get_app()
        drawn_for = (app.render_counter, app.current_buffer.text)
        if drawn_for != self._drawn_for:
            self._drawn_for = drawn_for
            self._fragments = self._made_message(app)
        return self._fragments

    def _made_message(self, app: Application[object]) -> FormattedText:
        goal = self._goal(app.current_buffer.text[:_MARKED_CHARS])
        if goal is Goal.MODEL and self._looking is None:
            self._looking = asyncio.ensure_future(self._look_again(app))
        return FormattedText(prompt_fragments(self._shell, self._template, goal, plain=self._plain))

    async def _look_again(self, app: Application[object]) -> None:
        """A word that is not known may be an alias of an rc file that is read by now: once for a line."""
        if self._shell.live is not None:
            with contextlib.suppress(ProcessError):
                await self._shell.live.refresh(_LOOK_S)
            app.invalidate()

    def _goal(self, text: str) -> Goal:
        live = self._shell.live
        return route(text, live.resolve if live else lambda word: None).goal

    def _is_unfinished(self) -> bool:
        """A command as bash sees it; a question with an open fence, or a backslash at its end."""
        text = get_app().current_buffer.text
        if self._goal(text) in (Goal.SHELL, Goal.QUIET_SHELL):
            return goes_on(text.lstrip().lstrip("!"))
        return text.endswith("\\") or text.count("```") % 2 == 1

    def _editing(self) -> EditingMode:
        wanted = self._shell.runtime.config.shell.editing
        if wanted == "auto":
            wanted = "vi" if self._shell.live and self._shell.live.editing == "vi" else "emacs"
        return EditingMode.VI if wanted == "vi" else EditingMode.EMACS


def _where_the_person_looks() -> Output | None:
    """None: stdout. Where that is a file, as in `aish > answers`, the prompt stands on stderr, like bash's own."""
    return None if sys.stdout.isatty() else create_output(sys.stderr)


class KeptHistory(FileHistory):
    """What cannot be written, as on a full disk, is remembered as long as the shell is there."""

    def store_string(self, string: str) -> None:
        with contextlib.suppress(OSError):
            super().store_string(string)


def _history(file: Path | None) -> History:
    if file is None:
        return InMemoryHistory()
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return KeptHistory(file)


def _take_over(typed: str) -> None:
    """Keys from before: those left of the last prompt, then those `typed` since. They are pressed once the prompt is
    drawn and the history is there, which is loaded by the task before theirs: Up would find nothing."""
    app = get_app()
    keys = [*get_typeahead(app.input), *_keys_of(typed)]
    app.current_buffer.load_history_if_not_yet_loaded()
    if keys:
        app.create_background_task(_press(app, keys))


async def _press(app: Application[object], keys: list[KeyPress]) -> None:
    app.key_processor.feed_multiple(keys)
    app.key_processor.process_keys()


def _keys_of(typed: str) -> list[KeyPress]:
    keys: list[KeyPress] = []
    Vt100Parser(keys.append).feed_and_flush(typed)
    return keys


def _continuation(width: int, line: int, wraps: int) -> str:
    """Before the further lines of one entry; what is only wrapped begins at the edge."""
    return "" if wraps else "… "


def _keys(is_unfinished: Callable[[], bool]) -> KeyBindings:
    keys = KeyBindings()

    @keys.add("escape", "enter")
    @keys.add("enter", filter=has_focus(DEFAULT_BUFFER) & Condition(is_unfinished))
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-n")
    def _(event: KeyPressEvent) -> None:
        """The line becomes a goal."""
        buffer = event.current_buffer
        if not buffer.text.startswith(_GOAL):
            buffer.text = _GOAL + buffer.text.lstrip()
            buffer.cursor_position = len(buffer.text)

    @keys.add("c-z")
    def _(event: KeyPressEvent) -> None:
        """Nothing runs that could be stopped; as in bash, it leaves no mark."""

    @keys.add("c-x", "c-e")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.open_in_editor()

    return keys
