"""A person's line: their terminal is the program's until it ends, byte for byte; a copy is kept for the model.

The terminal is put back as it was in any case: its modes, and what a program left switched on (alternate screen, mouse,
hidden cursor).
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from aish.process.pty import Pty
from aish.process.terminal import RawTerminal
from aish.tools.bash.capture import OutputCapture
from aish.tools.bash.interrupt import stop
from aish.tools.bash.outcome import result_of
from aish.tools.bash.process import Life
from aish.types.live_shell import RunEnd, RunResult

_DRAIN_S = 2.0  # for the last of the output to reach a slow terminal


async def run_at_terminal(life: Life, pty: Pty, line: str, fd: int | None) -> RunResult:
    if fd is None:
        return await _run(life, pty, line, _Passthrough(life, pty, None))
    with RawTerminal(fd) as terminal, _following_size(terminal, pty):
        through = _Passthrough(life, pty, terminal)
        terminal.read_into(through.typed, full=lambda: pty.is_full)
        try:
            return await _run(life, pty, line, through)
        finally:
            terminal.stop_reading()
            pty.resume()
            terminal.write(through.capture.screen.undo())
            await terminal.drain(_DRAIN_S)


async def _run(life: Life, pty: Pty, line: str, through: _Passthrough) -> RunResult:
    life.listen(through)
    try:
        if await life.until_waiting():
            through.hold(pty.take_back_input())  # typed since the line was given, while the shell was starting
            life.begin(pty, line, "user", through)
            waits = await _until_waiting(life, pty)
            ahead = (pty.take_back_input() if waits and through.was_typed_to else b"") + through.held
            return result_of(life, line, through.capture, RunEnd.DONE, ahead)
        return result_of(life, line, through.capture, RunEnd.DONE)
    finally:
        life.listen(None)


async def _until_waiting(life: Life, pty: Pty) -> bool:
    try:
        return await life.until_waiting()
    except asyncio.CancelledError:  # nobody is at the terminal any more
        await asyncio.shield(asyncio.ensure_future(stop(life, pty)))
        raise


class _Passthrough:
    """Between the terminal and the shell's pty, in both directions.

    Keys are held while the shell itself reads the line from the pty, and when the line is over: then they are for the
    prompt.
    """

    def __init__(self, life: Life, pty: Pty, terminal: RawTerminal | None) -> None:
        self.capture = OutputCapture()
        self.was_typed_to = False
        self.held = b""
        self.was_started = False
        self._holds = False
        self._life = life
        self._pty = pty
        self._terminal = terminal

    def typed(self, data: bytes) -> None:
        if self._holds or (self.was_started and self._life.waiting.is_set()):
            self.held += data
            return
        self.was_typed_to = True
        self._life.talked_to = True
        self._pty.write(data)

    def hold(self, data: bytes) -> None:
        self._holds = True
        self.held += data

    def started(self) -> None:
        self._holds, self.was_started = False, True
        held, self.held = self.held, b""
        if held:
            self.typed(held)

    def inside(self, data: bytes) -> None:
        self.capture.add(data)
        self.outside(data)

    def outside(self, data: bytes) -> None:
        if self._terminal is None:
            return
        self._terminal.write(data)
        if self._terminal.is_behind and not self._pty.paused:
            self._pty.pause()
            self._terminal.when_caught_up(self._pty.resume)


@contextmanager
def _following_size(terminal: RawTerminal, pty: Pty) -> Iterator[None]:
    def follow() -> None:
        size = terminal.size
        if size is not None:
            pty.resize(size)

    follow()
    with _on_window_change(follow):
        yield


@contextmanager
def _on_window_change(call: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(signal.SIGWINCH, call)
    except (ValueError, RuntimeError):  # not in the main thread: signals are somebody else's
        yield
        return
    try:
        yield
    finally:
        with suppress(ValueError, RuntimeError):
            loop.remove_signal_handler(signal.SIGWINCH)
