"""A program on a real terminal: keys in, a screen out (pyte), waits with deadlines."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import signal
import struct
import termios
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pyte

from support.eventually import eventually

DEADLINE_S = 20.0


class Terminal:
    def __init__(self, pid: int, master: int, rows: int, columns: int) -> None:
        self.pid = pid
        self._master = master
        self.screen = pyte.HistoryScreen(columns, rows, history=5000)
        self._stream = pyte.ByteStream(self.screen)
        self.screen.write_process_input = lambda data: os.write(master, data.encode())  # where the cursor is, if asked
        self.raw = b""
        self.code: int | None = None
        self.skims = False  # look only at the end of what comes in a flood: the screen is slower than the program
        asyncio.get_running_loop().add_reader(master, self._read)

    def _read(self) -> None:
        if not self._take():
            asyncio.get_running_loop().remove_reader(self._master)

    def _take(self) -> bool:
        """What there is to be read now. False: nothing."""
        try:
            data = os.read(self._master, 65536)
        except OSError:
            return False
        self.raw = (self.raw + data)[-2_000_000:]
        self._stream.feed(data[-100:] if self.skims and len(data) > 1000 else data)
        return bool(data)

    @property
    def text(self) -> str:
        """The screen and what scrolled away, without trailing blanks."""
        return "\n".join(row.rstrip() for row in self._rows()).rstrip()

    @property
    def unbroken(self) -> str:
        """The same with its rows one after the other: words are whole that the edge of the screen has cut."""
        return "".join(self._rows())

    def _rows(self) -> list[str]:
        past = ["".join(line[x].data for x in range(self.screen.columns)) for line in self.screen.history.top]
        return [*past, *self.screen.display]

    @property
    def last_line(self) -> str:
        return next((line.rstrip() for line in reversed(self.screen.display) if line.strip()), "")

    @property
    def echoes(self) -> bool:
        """Whether the terminal itself shows what is typed."""
        return bool(termios.tcgetattr(self._master)[3] & termios.ECHO)

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    async def enter(self, line: str) -> None:
        self.press(f"{line}\r")

    async def sees(self, text: str, timeout_s: float = DEADLINE_S) -> None:
        try:
            await eventually(lambda: text in self.text, timeout_s)
        except AssertionError:
            raise AssertionError(f"{text!r} never appeared on:\n{self.text}") from None

    async def prompts(self, ending: str = "›") -> None:
        """The prompt is back and empty."""
        try:
            await eventually(lambda: self.last_line.endswith(ending), DEADLINE_S)
        except AssertionError:
            raise AssertionError(f"no prompt on:\n{self.text}") from None

    async def ends(self) -> int:
        def gone() -> bool:
            if self.code is None:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                self.code = os.waitstatus_to_exitcode(status) if pid else None
            return self.code is not None

        await eventually(gone, DEADLINE_S)
        while self._take():  # its last words may come after its end
            pass
        assert self.code is not None
        return self.code

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen.resize(rows, columns)

    def close(self) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._master)
        if self.code is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(self.pid, 0)
        os.close(self._master)


@asynccontextmanager
async def terminal(
    words: Sequence[str], *, env: Mapping[str, str], cwd: Path, rows: int = 30, columns: int = 100
) -> AsyncIterator[Terminal]:
    pid, master = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        os.execve(words[0], list(words), dict(env))
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    os.set_blocking(master, False)
    shown = Terminal(pid, master, rows, columns)
    try:
        yield shown
    finally:
        shown.close()
