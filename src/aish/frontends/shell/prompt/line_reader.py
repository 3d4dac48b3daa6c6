"""Lines typed by a person, read without blocking the loop. What is asked stands on stderr: stdout is the answer's, and
may be a file.

The reading thread is a daemon: a person who never presses return must not keep aish from ending. A read that was given
up (Ctrl-C at a question) leaves its thread waiting for a line; the next read takes that line over instead of losing it.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from typing import Protocol

from aish.frontends.shell.prompt.terminal_echo import echoed


class Lines(Protocol):
    """Where a person's answers come from: what stands before them, and what stands there already."""

    async def read(self, prompt: str, typed: str = "") -> str | None: ...


class LineSource:
    def __init__(self) -> None:
        self._pending: asyncio.Future[str | None] | None = None

    async def read(self, prompt: str, typed: str = "") -> str | None:
        """One line without its end; None when there are no more."""
        if self._pending is None:
            loop = asyncio.get_running_loop()
            self._pending = loop.create_future()
            asked = (loop, self._pending, prompt)
            threading.Thread(target=_read, args=asked, name="aish-input", daemon=True).start()
        else:
            _show(prompt)
        line = None
        try:
            line = await asyncio.shield(self._pending)
        finally:
            if line is None:  # nobody ended the line
                _show("\n")
        self._pending = None
        return line


def _show(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def drop_typed_ahead() -> None:
    """Forget what is waiting to be read from the terminal."""
    try:
        import termios
    except ImportError:  # Windows
        return
    with contextlib.suppress(OSError, ValueError, termios.error):  # not a terminal
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def _read(loop: asyncio.AbstractEventLoop, future: asyncio.Future[str | None], prompt: str) -> None:
    """What is typed as soon as the question stands there is echoed, too."""
    try:
        with echoed():
            _show(prompt)
            line: str | None = input()
    except (EOFError, UnicodeDecodeError, OSError):
        line = None
    # The loop may be gone by the time a line comes: then nobody waits for it.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(_settle, future, line)


def _settle(future: asyncio.Future[str | None], line: str | None) -> None:
    if not future.done():
        future.set_result(line)
