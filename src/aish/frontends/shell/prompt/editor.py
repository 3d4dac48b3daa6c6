"""The line editor: prompt_toolkit with a mark before the line that shows, while typing, where the line will go.

It owns the terminal only while it reads. The history is the shell's.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import re
import shutil
import sys
from collections.abc import Callable, Collection, Coroutine
from typing import TYPE_CHECKING, Any

from prompt_toolkit import PromptSession
from prompt_toolkit.application import Application, get_app, in_terminal
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import ThreadedCompleter  # noqa: F401 - loaded before the first Tab
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER, EditingMode
from prompt_toolkit.filters import Condition, has_completions, has_focus, vi_navigation_mode
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.input.typeahead import clear_typeahead, get_typeahead, store_typeahead
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyBindings, KeyPress, KeyPressEvent, merge_key_bindings
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import Output
from prompt_toolkit.output.defaults import create_output
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.shortcuts import print_formatted_text

from aish.errors import ProcessError
from aish.frontends.runtime import LiveShell
from aish.frontends.shell.prompt.completion import ShellCompleter
from aish.frontends.shell.prompt.history import PromptHistory
from aish.frontends.shell.prompt.history_keys import EditorHistory, history_keys
from aish.frontends.shell.prompt.line_reader import drop_typed_ahead, has_unread_keys
from aish.frontends.shell.prompt.routing import Destination, KnownNames, route_line
from aish.frontends.shell.prompt.template import prompt_fragments
from aish.frontends.shell.shell import Shell, format_error
from aish.frontends.signals import restored_interrupt_handler
from aish.process.spawn import run_quickly

if TYPE_CHECKING:
    from aish.frontends.shell.prompt.history_menu import HistoryChoice

# A focus report that was on its way when reports were switched off is no key.
ANSI_SEQUENCES.update({"\x1b[I": Keys.Ignore, "\x1b[O": Keys.Ignore})
_REFRESH_S = 1.0
_GOAL_COMMAND = ":norris "
# The mark is made at every key from the beginning of the line. The entered line is routed by all of it.
_MARKED_CHARS = 4096
# What may leave a command open. A line without any of it is not shown to bash.
_OPENING = re.compile(r"""["'`({]|<<|[|&\\]\s*$|\b(?:do|then|else|elif|in|if|while|until|for|case|select)\b""")
_UNFINISHED_ERRORS = ("unexpected end of file", "unexpected EOF", "delimited by end-of-file")
_CHECK_S = 0.5
_NO_KEY = "\0"  # Ctrl-C at a question for one key


class LineEditor:
    def __init__(self, shell: Shell, history: PromptHistory, *, plain: bool) -> None:
        self._shell = shell
        self._template = shell.runtime.config.shell.prompt
        self._plain = plain
        self._history = history
        self._searches = False  # Ctrl-R ended the reading of the line
        self._draws_again = False  # it was entered before it was known where it goes
        walked = EditorHistory(history, lambda: shell.live.history_settings.size if shell.live else None)
        self._has_rendered = False
        self._refreshing: asyncio.Future[None] | None = None
        self._message_key: tuple[int, str] | None = None  # the rendering under way, and the line it shows
        self._fragments = FormattedText()
        self._session: PromptSession[str] = PromptSession(
            history=walked,
            completer=ShellCompleter(shell),
            complete_while_typing=False,
            auto_suggest=AutoSuggestFromHistory(),
            enable_history_search=True,
            key_bindings=merge_key_bindings(
                [
                    _keys(self._is_unfinished, shell.cycle_mode),
                    _editor_keys(self._edit_line),
                    self._uncertain_keys(),
                    history_keys(walked, self._start_search),
                ]
            ),
            mouse_support=False,
            reserve_space_for_menu=6,
            prompt_continuation=_continuation,
            output=_terminal_output(),
        )
        self._session.app.after_render += self._on_render

    def _on_render(self, app: object) -> None:
        if not self._has_rendered:
            self._has_rendered = True
            self._shell.start_loading()
            if self._shell.live is not None and ("{ps1}" in self._template or "{venv}" in self._template):
                self._session.app.create_background_task(self._redraw_when_ready(self._shell.live))

    async def _redraw_when_ready(self, live: LiveShell) -> None:
        """The first prompt is drawn before bash has read its rc file."""
        with contextlib.suppress(ProcessError):
            await live.ready()
            self._session.app.invalidate()

    async def read(self, typed: str = "") -> str | None:
        """Reads a line; None at the end of input (Ctrl-D). Raises KeyboardInterrupt for Ctrl-C. `typed` are keys that
        were typed before; they are pressed first."""
        self._session.app.editing_mode = self._editing_mode()
        begun = ""
        while True:
            self._refreshing = self._message_key = None
            self._searches = self._draws_again = self._session.app.erase_when_done = False
            line = await self._read_once(typed, begun)
            if self._draws_again and line is not None:
                await self._draw_again(line)
            if not self._searches or line is None:
                return line
            choice = await self._choose_from_history(line)
            if choice.action == "run":
                return choice.line
            begun, typed = choice.line, ""

    async def _read_once(self, typed: str, begun: str) -> str | None:
        try:
            with restored_interrupt_handler(), patch_stdout(raw=True):
                return await self._session.prompt_async(
                    self._message,
                    default=begun,
                    pre_run=lambda: _replay_keys(typed),
                    handle_sigint=True,
                    set_exception_handler=False,
                )
        except EOFError:
            return None

    def _start_search(self, event: KeyPressEvent) -> None:
        """The prompt is erased; the menu stands in its place."""
        self._searches = event.app.erase_when_done = True
        event.app.exit(result=event.current_buffer.text)

    async def _choose_from_history(self, typed: str) -> HistoryChoice:
        from aish.frontends.shell.prompt.history_menu import HistoryMenu

        output = _terminal_output()
        with restored_interrupt_handler(), patch_stdout(raw=True):
            choice = await HistoryMenu(self._history, self._shell.cwd, typed, plain=self._plain, output=output).run()
        if choice.action == "run":
            self._print_line(choice.line)
        return choice

    def _print_line(self, line: str) -> None:
        """Shows a line behind the prompt, as if it had been typed."""
        destination = self._find_destination(line[:_MARKED_CHARS])
        fragments = prompt_fragments(self._shell, self._template, destination, plain=self._plain)
        print_formatted_text(FormattedText([*fragments, ("", line)]), output=_terminal_output())

    def _uncertain_keys(self) -> KeyBindings:
        """Enter after a line that was typed faster than the names of the live bash were learned."""
        keys = KeyBindings()

        @keys.add("enter", filter=has_focus(DEFAULT_BUFFER) & Condition(self._is_uncertain))
        def _(event: KeyPressEvent) -> None:
            self._draws_again = event.app.erase_when_done = True
            event.current_buffer.validate_and_handle()

        return keys

    def _is_uncertain(self) -> bool:
        text = get_app().current_buffer.text
        is_known = self._refreshing is not None and self._refreshing.done()
        if is_known or "\n" in text or not text.strip() or text.lstrip().startswith("?") or self._is_unfinished():
            return False
        return self._find_destination(text[:_MARKED_CHARS]) is Destination.MODEL

    async def _draw_again(self, line: str) -> None:
        if self._shell.live is not None:
            with contextlib.suppress(ProcessError, TimeoutError):  # a slow rc file must not hide the line
                async with asyncio.timeout(_REFRESH_S):
                    await self._shell.live.refresh(_REFRESH_S)
        self._print_line(line)

    async def _edit_line(self, buffer: Buffer) -> None:
        """Lets the user change the line in their editor. Enter runs it."""
        from aish.frontends.shell.approvals.editor import edit_text

        async with in_terminal():
            try:
                edited = await edit_text(buffer.text, name="line.sh", env=self._shell.editor_env)
            except ProcessError as exc:
                self._shell.output.note(format_error(exc))
                return
        if edited is not None:
            line = edited.rstrip("\n")
            buffer.document = Document(line, len(line))

    async def ask(self, question: str, typed: str = "") -> str | None:
        """Reads a short answer that is not added to the history. None for Ctrl-D, and for Ctrl-C, which also stops the
        answer that is being given."""
        session: PromptSession[str] = PromptSession(
            history=InMemoryHistory(),
            output=_terminal_output(),
            key_bindings=_newline_key() if typed else None,
            enable_open_in_editor=bool(typed),
        )
        if not typed:  # keys typed before the question do not answer it, but may change a text that is to be edited
            clear_typeahead(session.app.input)
            drop_typed_ahead()
        try:
            with restored_interrupt_handler():
                return await session.prompt_async(question, default=typed, set_exception_handler=False)
        except EOFError:
            return None
        except KeyboardInterrupt:
            self._shell.stop_answer()
            return None

    async def ask_key(self, question: str, keys: Collection[str]) -> str:
        """Reads one key: one of `keys`, "" for Enter, or what the terminal sent for another and since then. Ctrl-C and
        Ctrl-D are nothing at all."""
        session: PromptSession[str] = PromptSession(
            history=InMemoryHistory(), key_bindings=_answer_keys(keys), output=_terminal_output()
        )
        try:
            with restored_interrupt_handler():
                key = await session.prompt_async(question, set_exception_handler=False)
        except (EOFError, KeyboardInterrupt):
            return _NO_KEY
        if key in keys:
            return key
        return key + "".join(each.data for each in get_typeahead(session.app.input))

    @property
    def has_typed_ahead(self) -> bool:
        """Whether keys wait that were pressed before."""
        source = self._session.app.input
        keys = get_typeahead(source)
        store_typeahead(source, keys)
        return bool(keys) or has_unread_keys()

    def _message(self) -> FormattedText:
        """The text before the line. prompt_toolkit asks for it at every row of a long line; it is made once a
        rendering."""
        app = get_app()
        key = (app.render_counter, app.current_buffer.text)
        if key != self._message_key:
            self._message_key = key
            self._fragments = self._make_message(app)
        return self._fragments

    def _make_message(self, app: Application[object]) -> FormattedText:
        destination = self._find_destination(app.current_buffer.text[:_MARKED_CHARS])
        if destination is Destination.MODEL and self._refreshing is None:
            self._refreshing = asyncio.ensure_future(self._refresh_names(app))
        return FormattedText(prompt_fragments(self._shell, self._template, destination, plain=self._plain))

    async def _refresh_names(self, app: Application[object]) -> None:
        """Learns the names of the live bash again, once a line: an rc file may have defined an unknown word since."""
        if self._shell.live is not None:
            with contextlib.suppress(ProcessError):
                await self._shell.live.refresh(_REFRESH_S)
            app.invalidate()

    def _find_destination(self, text: str) -> Destination:
        return route_line(text, KnownNames.of(self._shell.live, self._shell.skill_names)).destination

    def _is_unfinished(self) -> bool:
        """Whether Enter adds a line: to a command that bash calls incomplete, and to a question that ends in a
        backslash or has an open fence."""
        text = get_app().current_buffer.text
        if self._find_destination(text) in (Destination.SHELL, Destination.QUIET_SHELL):
            return is_incomplete_command(text.lstrip().lstrip("!"))
        return text.endswith("\\") or text.count("```") % 2 == 1

    def _editing_mode(self) -> EditingMode:
        wanted = self._shell.runtime.config.shell.editing
        if wanted == "auto":
            wanted = "vi" if self._shell.live and self._shell.live.editing == "vi" else "emacs"
        return EditingMode.VI if wanted == "vi" else EditingMode.EMACS


@functools.lru_cache(maxsize=4)
def is_incomplete_command(line: str) -> bool:
    """Whether bash expects another line, as after an open quotation or a `do` without its `done`. Lets a bash parse the
    line without running it, which takes a few milliseconds."""
    if line.endswith("\\"):
        return True
    bash = shutil.which("bash") if _OPENING.search(line) else None
    if bash is None:
        return False
    errors = run_quickly([bash, "--norc", "-O", "extglob", "-n"], line, timeout_s=_CHECK_S) or ""
    return any(error in errors for error in _UNFINISHED_ERRORS)


def _terminal_output() -> Output | None:
    """None for stdout. If that is a file, as in `aish > answers`, the prompt is drawn on stderr, as bash does it."""
    return None if sys.stdout.isatty() else create_output(sys.stderr)


def _replay_keys(typed: str) -> None:
    """Presses keys from before this prompt: those left over by the last one, then those `typed` since.

    The task that presses them runs after the one that loads the history, so that Up finds something.
    """
    app = get_app()
    keys = [*get_typeahead(app.input), *_parse_keys(typed)]
    app.current_buffer.load_history_if_not_yet_loaded()
    if keys:
        app.create_background_task(_press(app, keys))


async def _press(app: Application[object], keys: list[KeyPress]) -> None:
    app.key_processor.feed_multiple(keys)
    app.key_processor.process_keys()


def _parse_keys(typed: str) -> list[KeyPress]:
    keys: list[KeyPress] = []
    Vt100Parser(keys.append).feed_and_flush(typed)
    return keys


def _continuation(width: int, line: int, wraps: int) -> str:
    """The text before the second and later lines of an entry; wrapped rows have none."""
    return "" if wraps else "… "


def _newline_key() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return keys


def _answer_keys(keys: Collection[str]) -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("enter", eager=True)
    def _(event: KeyPressEvent) -> None:
        event.app.exit(result="")

    @bindings.add("c-c", eager=True)
    @bindings.add("c-d", eager=True)
    def _(event: KeyPressEvent) -> None:
        event.app.exit(result=_NO_KEY)

    @bindings.add(Keys.Any)  # not eager: an answer of the terminal is no key
    def _(event: KeyPressEvent) -> None:
        key = event.data
        if key.lower() in keys:
            event.current_buffer.insert_text(key)  # shows the answer
        event.app.exit(result=key.lower() if key.lower() in keys else key)

    return bindings


def _keys(is_unfinished: Callable[[], bool], cycle_mode: Callable[[], None]) -> KeyBindings:
    keys = KeyBindings()

    @keys.add("escape", "enter")
    @keys.add("enter", filter=has_focus(DEFAULT_BUFFER) & Condition(is_unfinished))
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-n")
    def _(event: KeyPressEvent) -> None:
        """Turns the line into a goal."""
        buffer = event.current_buffer
        if not buffer.text.startswith(_GOAL_COMMAND):
            buffer.text = _GOAL_COMMAND + buffer.text.lstrip()
            buffer.cursor_position = len(buffer.text)

    @keys.add("s-tab", filter=~has_completions)
    def _(event: KeyPressEvent) -> None:
        """Goes on to the next mode; in an open menu of completions it goes back, as usual."""
        cycle_mode()
        event.app.invalidate()

    @keys.add("f5", filter=Condition(lambda: not get_app().current_buffer.text))
    @keys.add("f6", filter=Condition(lambda: not get_app().current_buffer.text))
    def _(event: KeyPressEvent) -> None:
        """F5 runs the last block of the answer, F6 pages the last output of a tool."""
        event.current_buffer.text = ":run" if event.key_sequence[0].key == Keys.F5 else ":expand"
        event.current_buffer.validate_and_handle()

    @keys.add("c-z")
    def _(event: KeyPressEvent) -> None:
        """Does nothing, as in bash: no program runs that could be suspended."""

    return keys


def _editor_keys(edit_line: Callable[[Buffer], Coroutine[Any, Any, None]]) -> KeyBindings:
    keys = KeyBindings()

    @keys.add("c-x", "c-e")
    @keys.add("v", filter=vi_navigation_mode)
    def _(event: KeyPressEvent) -> None:
        event.app.create_background_task(edit_line(event.current_buffer))

    return keys
