"""A line that a model proposed and the person chose: in their shell, but with no input, a time limit, and a way to stop
it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aish.process.pty import Pty
from aish.tools.bash.capture import OutputCapture
from aish.tools.bash.interrupt import stop
from aish.tools.bash.outcome import result_of
from aish.tools.bash.process import Life
from aish.types.live_shell import RunEnd, RunResult


async def run_unattended(
    life: Life,
    pty: Pty,
    line: str,
    timeout_s: float,
    on_text: Callable[[str], None] | None,
    on_other: Callable[[bytes], None],
) -> RunResult:
    listener = _Unattended(pty, OutputCapture(on_text), on_other)
    try:
        if not await life.until_waiting():
            return result_of(life, line, listener.capture, RunEnd.DONE)
        ahead = pty.take_back_input()  # what a person typed last, too late for the line before
        life.begin(pty, line, "model", listener)
        end = await _until_end(life, pty, listener, timeout_s)
        return result_of(life, line, listener.capture, end, ahead)
    finally:
        life.listen(None)


async def _until_end(life: Life, pty: Pty, listener: _Unattended, timeout_s: float) -> RunEnd:
    waiting = asyncio.ensure_future(life.until_waiting())
    asking = asyncio.ensure_future(listener.asked.wait())
    try:
        await asyncio.wait({waiting, asking}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            return RunEnd.DONE
        end = RunEnd.ASKED if asking.done() else RunEnd.TIMED_OUT
        await stop(life, pty)
        return end
    except asyncio.CancelledError:
        await asyncio.shield(asyncio.ensure_future(stop(life, pty)))
        raise
    finally:
        waiting.cancel()
        asking.cancel()


class _Unattended:
    def __init__(self, pty: Pty, capture: OutputCapture, on_other: Callable[[bytes], None]) -> None:
        self.capture = capture
        self.asked = asyncio.Event()
        self._pty = pty
        self._on_other = on_other

    def started(self) -> None:
        """Nobody waits for it."""

    def inside(self, data: bytes) -> None:
        self.capture.add(data)
        # A program that wants a password switches the echo off and then asks: nobody would ever answer.
        if not data.endswith(b"\n") and self._pty.asks_for_secret:
            self.asked.set()

    def outside(self, data: bytes) -> None:
        self._on_other(data)
