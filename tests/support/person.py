"""A person at a terminal: a pty, one side of which is given to the program; keys to press, a screen to see."""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from support.eventually import eventually


class Person:
    def __init__(self) -> None:
        self._master, self.terminal = os.openpty()
        os.set_blocking(self._master, False)
        self.seen = b""
        self.seen_bytes = 0
        self.resize(24, 80)
        self._loop = asyncio.get_running_loop()
        self.look()

    def look(self) -> None:
        self._loop.add_reader(self._master, self._read)

    def look_away(self) -> None:
        self._loop.remove_reader(self._master)

    def _read(self) -> None:
        with suppress(OSError):
            data = os.read(self._master, 65536)
            self.seen_bytes += len(data)
            self.seen = (self.seen + data)[-200_000:]

    def press(self, keys: bytes) -> None:
        os.write(self._master, keys)

    async def sees(self, text: bytes, timeout_s: float = 10.0) -> None:
        await eventually(lambda: text in self.seen, timeout_s)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def modes(self) -> list[object]:
        return termios.tcgetattr(self.terminal)

    def leave(self) -> None:
        self.look_away()
        os.close(self._master)
        os.close(self.terminal)


@contextmanager
def person() -> Iterator[Person]:
    someone = Person()
    try:
        yield someone
    finally:
        someone.leave()
