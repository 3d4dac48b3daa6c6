"""Modes, size and unread input of a terminal, by its file descriptor. POSIX only: import it lazily."""

from __future__ import annotations

import fcntl
import os
import struct
import termios
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
