"""Switches the terminal's echo off while aish does not read: early keystrokes are drawn by the next prompt instead.

This runs before anything else of the shell is loaded, so it imports next to nothing. Without a terminal, or without
`termios` (Windows), it does nothing.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

_LFLAG, _CC = 3, 6


@contextlib.contextmanager
def echo_off() -> Iterator[None]:
    """Inside, keys are buffered by the terminal, without echo or line editing. Ctrl-C and Ctrl-Z still work."""
    with _change_modes(_without_echo):
        yield


@contextlib.contextmanager
def echo_on() -> Iterator[None]:
    """Inside, a line is typed as usual, also within `echo_off`."""
    with _change_modes(_with_echo):
        yield


def _without_echo(modes: list[Any]) -> None:
    import termios

    modes[_LFLAG] &= ~(termios.ECHO | termios.ICANON)
    modes[_CC][termios.VMIN], modes[_CC][termios.VTIME] = 1, 0


def _with_echo(modes: list[Any]) -> None:
    import termios

    modes[_LFLAG] |= termios.ECHO | termios.ICANON


@contextlib.contextmanager
def _change_modes(change: Callable[[list[Any]], None]) -> Iterator[None]:
    """Changes the modes of the terminal and restores them afterwards."""
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
