"""One bash from its start to its end: what comes from its terminal, sorted; lines offered to it, one at a time.

States: starting → waiting ⇄ running → gone. `waiting` means it sits in its prompt hook and does not touch the terminal.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from aish.process.pty import Pty
from aish.tools.bash.channel import Channel, Mode, Status
from aish.tools.bash.markers import Mark, MarkParser

# A line that was interrupted before it started is offered again; whoever interrupts more often than this means it.
_OFFERS = 3


class Listener(Protocol):
    """Whoever runs a line: `inside` is what the line printed, `outside` what came around it."""

    def started(self) -> None: ...
    def inside(self, data: bytes) -> None: ...
    def outside(self, data: bytes) -> None: ...


class Life:
    def __init__(self, channel: Channel, on_idle_output: Callable[[bytes], None], cwd: str) -> None:
        self.channel = channel
        self.waiting = asyncio.Event()
        self.gone = asyncio.Event()
        self.returncode: int | None = None
        self.status = Status("", 0, cwd, 0, "emacs")
        self.duration_s = 0.0
        self.talked_to = False  # somebody typed while it was starting
        self.on_waiting: Callable[[], None] = lambda: None
        self._on_idle_output = on_idle_output
        self._parser = MarkParser()
        self._parser.expect(channel.first_nonce)
        self._nonce = channel.first_nonce
        self._mode: Mode = "user"
        self._listener: Listener | None = None
        self._inside = False
        self._started_s = 0.0
        self._offer_again: Callable[[], None] | None = None
        self._offers = 0

    def begin(self, pty: Pty, line: str, mode: Mode, listener: Listener) -> None:
        """Only while it waits."""
        self._offers = 0
        self._offer(pty, line, mode)  # if that fails, it waits as before
        self.waiting.clear()
        self._listener = listener
        self.duration_s = 0.0

    def _offer(self, pty: Pty, line: str, mode: Mode) -> None:
        before = self._nonce
        pty.mend_modes()
        self._nonce, trigger = self.channel.offer(line, mode)
        self._mode = mode
        self._parser.expect(self._nonce, before=before, echo=trigger[:-1] + b"\r\n")
        self._started_s = time.monotonic()
        self._offers += 1
        pty.write(trigger)

        def again() -> None:
            pty.take_back_input()  # what is left of what we typed
            self._offer(pty, line, mode)

        self._offer_again = again if self._offers < _OFFERS else None

    def listen(self, listener: Listener | None) -> None:
        """Who gets what comes while no line runs: the rc file may want to talk to the person."""
        self._listener = listener

    @property
    def was_ready(self) -> bool:
        return bool(self.status.nonce)

    async def until_waiting(self) -> bool:
        """False when it went instead."""
        if not self.waiting.is_set() and not self.gone.is_set():
            tasks = {asyncio.ensure_future(event.wait()) for event in (self.waiting, self.gone)}
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
        return not self.gone.is_set()

    def take(self, data: bytes) -> None:
        for piece in self._parser.feed(data):
            if isinstance(piece, Mark):
                self._marked(piece)
            else:
                self._output(piece)

    def ended(self, returncode: int) -> None:
        held = self._parser.flush()
        if held:
            self._output(held)
        if self._inside:
            self.duration_s = time.monotonic() - self._started_s
        self.returncode = returncode
        self.gone.set()

    def _output(self, data: bytes) -> None:
        if self._listener is None:
            self._on_idle_output(data)
        elif self._inside:
            self._listener.inside(data)
        else:
            self._listener.outside(data)

    def _marked(self, mark: Mark) -> None:
        if mark is Mark.START:
            self._inside = True
            self._offer_again = None
            self._started_s = time.monotonic()
            if self._listener is not None:
                self._listener.started()
        elif mark is Mark.END and self._inside:
            self._inside = False
            self.duration_s = time.monotonic() - self._started_s
        elif mark is Mark.WAITING:
            self._waits()
        elif mark is Mark.STILL_WAITING and self._offer_again is not None:
            # A late signal interrupted it while it waited, just when it was told to go: it needs to hear it again.
            self.channel.say_go(self._nonce, self._mode)

    def _waits(self) -> None:
        status = self.channel.read_status()
        if status is None or status.nonce != self._nonce:
            return
        if self._offer_again is not None:  # interrupted before it came to the line
            self._offer_again()
            return
        self._inside = False
        self.status = status
        self.on_waiting()
        self.waiting.set()
