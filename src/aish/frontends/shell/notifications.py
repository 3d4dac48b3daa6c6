"""Tells a user who looks at another window that a question waits, or that a long turn is over: by the bell, and by a
notification of the desktop if the terminal shows them (OSC 9 or OSC 777).

Whether the user looks is known from the focus reports of the terminal. They are on only while a turn runs: the user
has just pressed Enter, so a turn begins with focus. The reports arrive among the keys, which wait unread until the turn
asks or ends. They are off while anything else reads the terminal: a question, the prompt, a program, another shell.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from aish.frontends.terminal import Output, visible

Notify = Literal["all", "bell", "off"]
_ON, _OFF = "\x1b[?1004h", "\x1b[?1004l"
_REPORT = re.compile(rb"\x1b\[([IO])")
_LEFT = b"O"
_MAX_CHARS = 120
# These know neither focus reports nor notifications, or print them.
_PLAIN_TERMINALS = ("", "dumb", "linux")


class Notifier:
    """`after_s`: a shorter turn ends without a notice. `env` says which terminal this is."""

    def __init__(
        self,
        output: Output,
        notify: Notify,
        env: Mapping[str, str],
        *,
        after_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._output = output
        self._notify = notify
        self._env = env
        self._after_s = after_s
        self._clock = clock
        self._reports = notify != "off" and env.get("TERM", "") not in _PLAIN_TERMINALS
        self._place = ""
        self._is_watching = False
        self._is_away = False  # and was not told since
        self._kept = b""  # keys typed during the last turn

    @contextmanager
    def watch(self, cwd: str) -> Iterator[None]:
        """Around a turn, while nothing else reads the terminal."""
        begun, self._place = self._clock(), Path(cwd).name or cwd
        self._is_watching, self._is_away = True, False
        self._switch_reports(on=True)
        try:
            with _on_suspend(lambda: self._switch_reports(on=False), lambda: self._switch_reports(on=True)):
                yield
        finally:
            self._switch_reports(on=False)
            self._is_watching = False
            self._kept = self.read_keys()
            if self._clock() - begun >= self._after_s:
                self._tell("the answer is ready")

    @contextmanager
    def question(self) -> Iterator[None]:
        """Around a question to the user, during a turn or after it. May be entered again inside."""
        was_watching, self._is_watching = self._is_watching, False
        if was_watching:
            self._switch_reports(on=False)
        self._tell("a question waits for you")
        try:
            yield
        finally:
            self._is_away = False  # a key was pressed here
            self._is_watching = was_watching
            if was_watching:
                self._switch_reports(on=True)

    def take_kept(self) -> str:
        """The keys that were typed during the last turn. The user is back."""
        kept, self._kept, self._is_away = self._kept, b"", False
        return kept.decode("utf-8", "replace")

    def read_keys(self) -> bytes:
        """Takes the keys that wait, and notes the focus reports among them."""
        keys, self._kept = self._kept + _read_waiting(), b""
        if reports := _REPORT.findall(keys):
            self._is_away = reports[-1] == _LEFT
        return _REPORT.sub(b"", keys)

    def _switch_reports(self, *, on: bool) -> None:
        if self._reports:
            self._output.control(_ON if on else _OFF)

    def _tell(self, what: str) -> None:
        if self._is_away and self._notify != "off":
            shown = notification(f"{what} in {self._place}", self._env) if self._notify == "all" else ""
            self._output.control(f"\a{shown}")
        self._is_away = False


def notification(text: str, env: Mapping[str, str]) -> str:
    """The sequence that shows a notification of the desktop. A terminal that knows both kinds gets one."""
    shown = visible(text).replace("\n", " ").replace(";", ",")[:_MAX_CHARS]
    is_other_kind = env.get("TERM", "").startswith(("rxvt", "foot")) or "VTE_VERSION" in env
    sequence = f"\x1b]777;notify;aish;{shown}\a" if is_other_kind else f"\x1b]9;aish: {shown}\a"
    if "TMUX" not in env:
        return sequence
    doubled = sequence.replace("\x1b", "\x1b\x1b")  # tmux passes it on if `allow-passthrough` is on
    return f"\x1bPtmux;{doubled}\x1b\\"


def _read_waiting() -> bytes:
    import termios  # not on Windows

    from aish.process.terminal import drain_input

    with suppress(OSError, ValueError, termios.error):
        return drain_input(sys.stdin.fileno()) if sys.stdin.isatty() else b""
    return b""


@contextmanager
def _on_suspend(before: Callable[[], None], after: Callable[[], None]) -> Iterator[None]:
    """Inside, Ctrl-Z calls `before` and then suspends aish as usual; `after` is called when it goes on."""
    loop = asyncio.get_running_loop()

    def suspend() -> None:
        before()
        loop.remove_signal_handler(signal.SIGTSTP)
        os.kill(os.getpid(), signal.SIGTSTP)

    def go_on() -> None:
        loop.add_signal_handler(signal.SIGTSTP, suspend)
        after()

    with suppress(ValueError, RuntimeError):  # not in the main thread, where signals cannot be handled
        loop.add_signal_handler(signal.SIGTSTP, suspend)
        loop.add_signal_handler(signal.SIGCONT, go_on)
    try:
        yield
    finally:
        with suppress(ValueError, RuntimeError):
            loop.remove_signal_handler(signal.SIGTSTP)
            loop.remove_signal_handler(signal.SIGCONT)
