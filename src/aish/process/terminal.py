"""Lends the user's terminal to a program: raw and nonblocking in both directions, and always restored afterwards.

    with RawTerminal(fd) as terminal:
        terminal.read_into(pty.write, full=lambda: pty.is_full)
        terminal.write(b"...")

The terminal is opened again by its name: the nonblocking flag would otherwise apply to all processes that share the
descriptor, from the parent shell to our own prompt. POSIX only: import it lazily.
"""

from __future__ import annotations

import asyncio
import os
import termios
import tty
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

from aish.process.pty_modes import WindowSize, open_nonblocking, window_size

_READ_BYTES = 4096
# Unwritten output at which the producer should pause, and at which it may resume.
_HIGH_BYTES, _LOW_BYTES = 256 * 1024, 128 * 1024
_WRITE_BYTES = 64 * 1024
_RETRY_S = 0.005


class RawTerminal:
    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self._own = -1
        self._before: list[int | list[bytes | int]] | None = None
        self._unwritten = bytearray()
        self._writing = False
        self._drained = asyncio.Event()
        self._drained.set()
        self._take: Callable[[bytes], None] = lambda data: None
        self._is_full: Callable[[], bool] = lambda: False
        self._resume: Callable[[], None] | None = None
        self.hung_up = False

    def __enter__(self) -> RawTerminal:
        self._own = open_nonblocking(self._fd)
        with suppress(termios.error):
            self._before = termios.tcgetattr(self._fd)
            tty.setraw(self._fd, termios.TCSADRAIN)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.remove_reader(self._own)
        self._loop.remove_writer(self._own)
        if self._before is not None:
            with suppress(termios.error):
                termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)
        os.close(self._own)
        self._own = -1

    @property
    def size(self) -> WindowSize | None:
        return window_size(self._fd)

    def read_into(self, take: Callable[[bytes], None], *, full: Callable[[], bool]) -> None:
        """Passes what is typed to `take`. While `full` returns True, it stays in the terminal."""
        self._take, self._is_full = take, full
        self._loop.add_reader(self._own, self._read)

    def stop_reading(self) -> None:
        self._loop.remove_reader(self._own)

    def write(self, data: bytes) -> None:
        if self.hung_up:
            return
        if not self._unwritten:
            data = data[self._write_some(data) :]
        if data:
            self._unwritten += data
            self._drained.clear()
            if not self._writing:
                self._writing = True
                self._loop.add_writer(self._own, self._flush)

    @property
    def is_behind(self) -> bool:
        return len(self._unwritten) > _HIGH_BYTES

    def when_caught_up(self, resume: Callable[[], None]) -> None:
        """Calls `resume` once when there is room for more output."""
        self._resume = resume

    async def drain(self, timeout_s: float) -> None:
        """Waits until everything is written, or the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._drained.wait()

    def _read(self) -> None:
        if self._is_full():
            self._loop.remove_reader(self._own)
            self._loop.call_later(_RETRY_S, self._read_again)
            return
        try:
            data = os.read(self._own, _READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if data:
            self._take(data)
        else:  # the terminal was closed
            self._hang_up()

    def _read_again(self) -> None:
        if self._own >= 0 and not self.hung_up:
            self._loop.add_reader(self._own, self._read)

    def _write_some(self, data: bytes | bytearray) -> int:
        try:
            return os.write(self._own, data[:_WRITE_BYTES])
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            self._hang_up()
            return len(data)

    def _flush(self) -> None:
        del self._unwritten[: self._write_some(self._unwritten)]
        if self._resume is not None and len(self._unwritten) <= _LOW_BYTES:
            resume, self._resume = self._resume, None
            resume()
        if not self._unwritten:
            self._writing = False
            self._loop.remove_writer(self._own)
            self._drained.set()

    def _hang_up(self) -> None:
        self.hung_up = True
        self._loop.remove_reader(self._own)
