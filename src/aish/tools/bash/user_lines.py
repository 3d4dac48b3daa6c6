"""Runs lines in the user's shell at the terminal: typed ones, and proposals of a model that the user chose.

Data passes byte for byte, and a copy of the output is captured for the model.

Afterwards the terminal is always restored: its modes, and whatever the program left switched on (alternate screen,
mouse, hidden cursor).
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from aish.process.pty import Pty
from aish.process.terminal import RawTerminal
from aish.tools.bash.capture import OutputCapture
from aish.tools.bash.channel import Mode
from aish.tools.bash.running_bash import BashProcess, build_result, interrupt_line
from aish.types.live_shell import RunEnd, RunResult

_DRAIN_S = 2.0  # for the last output to reach a slow terminal


async def run_at_terminal(bash: BashProcess, pty: Pty, line: str, fd: int | None, mode: Mode) -> RunResult:
    if fd is None:
        return await _run_with(bash, pty, line, mode, _TerminalPassthrough(bash, pty, None))
    with RawTerminal(fd) as terminal, _follow_size(terminal, pty):
        through = _TerminalPassthrough(bash, pty, terminal)
        terminal.read_into(through.send_keys, full=lambda: pty.is_full)
        try:
            return await _run_with(bash, pty, line, mode, through)
        finally:
            terminal.stop_reading()
            pty.resume()
            terminal.write(through.capture.screen.restore_sequence())
            await terminal.drain(_DRAIN_S)


async def _run_with(bash: BashProcess, pty: Pty, line: str, mode: Mode, through: _TerminalPassthrough) -> RunResult:
    bash.set_listener(through)
    try:
        if await bash.wait_until_waiting():
            through.buffer(pty.take_unread_input())  # typed after the line was given, while the shell was starting
            bash.begin(pty, line, mode, through)
            waits = await _wait_until_waiting(bash, pty)
            ahead = (pty.take_unread_input() if waits and through.was_typed_to else b"") + through.buffered
            return build_result(bash, line, through.capture, RunEnd.DONE, ahead)
        return build_result(bash, line, through.capture, RunEnd.DONE)
    finally:
        bash.set_listener(None)


async def _wait_until_waiting(bash: BashProcess, pty: Pty) -> bool:
    try:
        return await bash.wait_until_waiting()
    except asyncio.CancelledError:  # the terminal was closed
        await asyncio.shield(asyncio.ensure_future(interrupt_line(bash, pty)))
        raise


class _TerminalPassthrough:
    """Passes data between the terminal and the shell's pty, in both directions.

    Keys are buffered while the shell itself reads the line from the pty, and after the line has ended: then they are
    for the prompt.
    """

    def __init__(self, bash: BashProcess, pty: Pty, terminal: RawTerminal | None) -> None:
        self.capture = OutputCapture()
        self.was_typed_to = False
        self.buffered = b""
        self.was_started = False
        self._is_buffering = False
        self._bash = bash
        self._pty = pty
        self._terminal = terminal

    def send_keys(self, data: bytes) -> None:
        if self._is_buffering or (self.was_started and self._bash.waiting.is_set()):
            self.buffered += data
            return
        self.was_typed_to = True
        self._bash.note_typing()
        self._pty.write(data)

    def buffer(self, data: bytes) -> None:
        self._is_buffering = True
        self.buffered += data

    def on_start(self) -> None:
        self._is_buffering, self.was_started = False, True
        buffered, self.buffered = self.buffered, b""
        if buffered:
            self.send_keys(buffered)

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
def _follow_size(terminal: RawTerminal, pty: Pty) -> Iterator[None]:
    def follow() -> None:
        size = terminal.size
        if size is not None:
            pty.resize(size)

    follow()
    with _on_resize(follow):
        yield


@contextmanager
def _on_resize(call: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(signal.SIGWINCH, call)
    except (ValueError, RuntimeError):  # not in the main thread, where signals cannot be handled
        yield
        return
    try:
        yield
    finally:
        with suppress(ValueError, RuntimeError):
            loop.remove_signal_handler(signal.SIGWINCH)
