"""The terminal's own echo, held back: what is typed while nobody reads it belongs to the next prompt, which draws it.

It begins before anything else of the shell is loaded, so it imports next to nothing. Where there is no terminal, or no
`termios` (Windows), it does nothing.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

_LFLAG, _CC = 3, 6


@contextlib.contextmanager
def unechoed() -> Iterator[None]:
    """While inside, keys wait as they were pressed, unseen: none edits a line, none is the end of input. Ctrl-C and
    Ctrl-Z still work."""
    with _changed(_without_echo):
        yield


@contextlib.contextmanager
def echoed() -> Iterator[None]:
    """While inside, a line is typed as usual, though this is inside `unechoed`."""
    with _changed(_with_echo):
        yield


def _without_echo(modes: list[Any]) -> None:
    import termios

    modes[_LFLAG] &= ~(termios.ECHO | termios.ICANON)
    modes[_CC][termios.VMIN], modes[_CC][termios.VTIME] = 1, 0


def _with_echo(modes: list[Any]) -> None:
    import termios

    modes[_LFLAG] |= termios.ECHO | termios.ICANON


@contextlib.contextmanager
def _changed(change: Callable[[list[Any]], None]) -> Iterator[None]:
    """The terminal with its modes changed, given back as it was."""
    try:
        import termios
    except ImportError:
        yield
        return
    try:
        terminal = sys.stdin.fileno()
        before, modes = termios.tcgetattr(terminal), termios.tcgetattr(terminal)
        change(modes)
        termios.tcsetattr(terminal, termios.TCSANOW, modes)
    except (OSError, ValueError, termios.error):
        yield
        return
    try:
        yield
    finally:
        with contextlib.suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(terminal, termios.TCSANOW, before)
