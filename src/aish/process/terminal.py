"""Modes, size and unread input of a terminal, and `RawTerminal`, which lends the user's terminal to a program: raw and
nonblocking in both directions, and always restored afterwards.

    with RawTerminal(fd) as terminal:
        terminal.read_into(pty.write, full=lambda: pty.is_full)
        terminal.write(b"...")

The terminal is opened again by its name: the nonblocking flag would otherwise apply to all processes that share the
descriptor, from the parent shell to our own prompt. POSIX only: import it lazily.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import termios
import tty
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, NamedTuple

# The flags that a shell needs to read a line with echo. Flags that users choose are left alone.
_INPUT = termios.ICRNL
_OUTPUT = termios.OPOST | termios.ONLCR
_LOCAL = termios.ICANON | termios.ECHO | termios.ISIG | termios.IEXTEN
_IFLAG, _OFLAG, _LFLAG, _CC = 0, 1, 3, 6
_DRAIN_MAX_BYTES = 64 * 1024


class WindowSize(NamedTuple):
    rows: int
    columns: int


def open_nonblocking(fd: int) -> int:
    """Opens the same terminal with a nonblocking descriptor. Setting the flag on `fd` would affect all who share it."""
    try:
        return os.open(os.ttyname(fd), os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:  # it has no name in this namespace: a shared descriptor that may block
        return os.dup(fd)


def window_size(fd: int) -> WindowSize | None:
    """The size of the terminal. None if it is no terminal or does not know its size."""
    try:
        rows, columns, _, _ = struct.unpack("HHHH", fcntl.ioctl(fd, termios.TIOCGWINSZ, bytes(8)))
    except OSError:
        return None
    return WindowSize(rows, columns) if rows and columns else None


def set_window_size(fd: int, size: WindowSize) -> None:
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", size.rows, size.columns, 0, 0))


def restore_line_modes(fd: int) -> None:
    modes = termios.tcgetattr(fd)
    wrong = _INPUT & ~modes[_IFLAG] or _OUTPUT & ~modes[_OFLAG] or _LOCAL & ~modes[_LFLAG]
    if wrong or modes[_IFLAG] & (termios.IGNCR | termios.INLCR):
        modes[_IFLAG] = (modes[_IFLAG] | _INPUT) & ~(termios.IGNCR | termios.INLCR)
        modes[_OFLAG] |= _OUTPUT
        modes[_LFLAG] |= _LOCAL | termios.ECHOE | termios.ECHOK
        termios.tcsetattr(fd, termios.TCSANOW, modes)


def is_reading_secret(fd: int) -> bool:
    """Whether a program reads a line without echo, such as a password."""
    try:
        local = int(termios.tcgetattr(fd)[_LFLAG])
    except termios.error:
        return False
    return bool(local & termios.ICANON) and not local & termios.ECHO


def drain_input(fd: int) -> bytes:
    """Reads all unread input, including an unfinished line."""
    before = termios.tcgetattr(fd)
    modes: list[Any] = termios.tcgetattr(fd)
    modes[_LFLAG] &= ~termios.ICANON
    modes[_CC][termios.VMIN], modes[_CC][termios.VTIME] = 0, 0
    termios.tcsetattr(fd, termios.TCSANOW, modes)
    waiting = b""
    try:
        while len(waiting) < _DRAIN_MAX_BYTES:
            piece = os.read(fd, 4096)
            if not piece:
                break
            waiting += piece
    except BlockingIOError:  # no more input, or another process is reading it
        pass
    finally:
        termios.tcsetattr(fd, termios.TCSANOW, before)
    return waiting


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
