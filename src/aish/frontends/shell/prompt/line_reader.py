"""Reads lines that the user types, without blocking the event loop. Questions go to stderr: stdout may be a file.

The reading thread is a daemon, so that a line that is never entered does not keep aish from ending. A read that was
given up (Ctrl-C at a question) leaves its thread waiting; the next read takes the line of that thread, so no line is
lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from typing import Protocol

from aish.frontends.shell.prompt.terminal_echo import echo_on


class AnswerReader(Protocol):
    """Reads the user's answers to questions."""

    async def read(self, prompt: str, typed: str = "") -> str | None:
        """One line; None at the end of input. `typed` is a text to edit."""

    def drop_typed_ahead(self) -> None:
        """Discards the keys that wait to be read: typed before a question was shown, they do not answer it."""


class StdinReader:
    def __init__(self) -> None:
        self._pending: asyncio.Future[str | None] | None = None

    async def read(self, prompt: str, typed: str = "") -> str | None:
        """One line without its end; None when there are no more."""
        if self._pending is None:
            loop = asyncio.get_running_loop()
            self._pending = loop.create_future()
            arguments = (loop, self._pending, prompt)
            threading.Thread(target=_read, args=arguments, name="aish-input", daemon=True).start()
        else:
            _show(prompt)
        line = None
        try:
            line = await asyncio.shield(self._pending)
        finally:
            if line is None:  # the user has not ended the line
                _show("\n")
        self._pending = None
        return line

    def drop_typed_ahead(self) -> None:
        drop_typed_ahead()


def _show(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def drop_typed_ahead() -> None:
    """Discards the keys that wait to be read from the terminal."""
    try:
        import termios
    except ImportError:  # Windows
        return
    with contextlib.suppress(OSError, ValueError, termios.error):  # not a terminal
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def has_unread_keys() -> bool:
    """Whether keys wait to be read from the terminal."""
    import select

    with contextlib.suppress(OSError, ValueError):
        return bool(select.select([sys.stdin.fileno()], [], [], 0)[0])
    return False


def _read(loop: asyncio.AbstractEventLoop, future: asyncio.Future[str | None], prompt: str) -> None:
    try:
        with echo_on():  # before the question, so that the first key after it is echoed, too
            _show(prompt)
            line: str | None = input()
    except (EOFError, UnicodeDecodeError, OSError):
        line = None
    with contextlib.suppress(RuntimeError):  # the loop has closed
        loop.call_soon_threadsafe(_set_line, future, line)


def _set_line(future: asyncio.Future[str | None], line: str | None) -> None:
    if not future.done():
        future.set_result(line)
