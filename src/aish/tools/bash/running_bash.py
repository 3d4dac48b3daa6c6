"""Follows one bash from start to exit: sorts its output and gives it lines, one at a time.

States: starting → waiting ⇄ running → gone. `waiting` means that it is in its prompt hook and does not touch the
terminal.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import msgspec

from aish.process.pty import Pty
from aish.tools.bash.capture import OutputCapture
from aish.tools.bash.channel import Channel, Mode, ShellStatus
from aish.tools.bash.markers import Mark, MarkParser
from aish.types.live_shell import RunEnd, RunResult

# A line that was interrupted before it started is offered again. Further interrupts are meant for the line.
_OFFERS = 3


class LineListener(Protocol):
    """Receives the output of a line: `inside` is printed by the line, `outside` comes before or after it."""

    def on_start(self) -> None: ...
    def inside(self, data: bytes) -> None: ...
    def outside(self, data: bytes) -> None: ...


class BashProcess:
    """`on_waiting` is called whenever bash waits for a line."""

    def __init__(
        self,
        channel: Channel,
        cwd: str,
        *,
        on_idle_output: Callable[[bytes], None],
        on_waiting: Callable[[], None],
    ) -> None:
        self.channel = channel
        self.waiting = asyncio.Event()
        self.exited = asyncio.Event()
        self.returncode: int | None = None
        self.status = ShellStatus("", 0, cwd, 0, "emacs", "")
        self.duration_s = 0.0
        self.was_typed_to = False  # the user typed while it was starting
        self._on_waiting = on_waiting
        self._on_idle_output = on_idle_output
        self._parser = MarkParser()
        self._parser.expect(channel.first_nonce)
        self._nonce = channel.first_nonce
        self._mode: Mode = "user"
        self._listener: LineListener | None = None
        self._inside = False
        self._started_s = 0.0
        self._offer_again: Callable[[], None] | None = None
        self._offers = 0

    def begin(self, pty: Pty, line: str, mode: Mode, listener: LineListener) -> None:
        """Call only while it waits."""
        self._offers = 0
        self._offer(pty, line, mode)  # if that fails, it still waits
        self.waiting.clear()
        self._listener = listener
        self.duration_s = 0.0

    def _offer(self, pty: Pty, line: str, mode: Mode) -> None:
        before = self._nonce
        pty.restore_line_modes()
        self._nonce, trigger = self.channel.write_line(line, mode)
        self._mode = mode
        self._parser.expect(self._nonce, before=before, echo=trigger[:-1] + b"\r\n")
        self._started_s = time.monotonic()
        self._offers += 1
        pty.write(trigger)

        def again() -> None:
            pty.take_unread_input()  # remaining bytes that we typed
            self._offer(pty, line, mode)

        self._offer_again = again if self._offers < _OFFERS else None

    def set_listener(self, listener: LineListener | None) -> None:
        """Sets the receiver of output while no line runs: the rc file may ask the user something."""
        self._listener = listener

    @property
    def is_at_exit_alias(self) -> bool:
        """Whether its last line is an alias of `exit`."""
        return self.channel.is_exit_alias(self._nonce)

    @property
    def mode(self) -> Mode:
        """Of the last line."""
        return self._mode

    @property
    def was_ready(self) -> bool:
        return bool(self.status.nonce)

    def note_typing(self) -> None:
        """Records that the user types, so that a slow rc file is not given up."""
        self.was_typed_to = True

    async def wait_until_waiting(self) -> bool:
        """Returns False if it has exited instead."""
        if not self.waiting.is_set() and not self.exited.is_set():
            tasks = {asyncio.ensure_future(event.wait()) for event in (self.waiting, self.exited)}
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
        return not self.exited.is_set()

    def feed(self, data: bytes) -> None:
        for piece in self._parser.feed(data):
            if isinstance(piece, Mark):
                self._handle_mark(piece)
            else:
                self._output(piece)

    def note_exit(self, returncode: int) -> None:
        held = self._parser.flush()
        if held:
            self._output(held)
        if self._inside:
            self.duration_s = time.monotonic() - self._started_s
        self.returncode = returncode
        self.exited.set()

    def _output(self, data: bytes) -> None:
        if self._listener is None:
            self._on_idle_output(data)
        elif self._inside:
            self._listener.inside(data)
        else:
            self._listener.outside(data)

    def _handle_mark(self, mark: Mark) -> None:
        if mark is Mark.START:
            self._inside = True
            self._offer_again = None
            self._started_s = time.monotonic()
            if self._listener is not None:
                self._listener.on_start()
        elif mark is Mark.END and self._inside:
            self._inside = False
            self.duration_s = time.monotonic() - self._started_s
        elif mark is Mark.WAITING:
            self._handle_waiting()
        elif mark is Mark.STILL_WAITING and self._offer_again is not None:
            # A late signal interrupted bash while it waited and we told it to go, so the message is repeated.
            self.channel.send_go(self._nonce, self._mode)

    def _handle_waiting(self) -> None:
        status = self.channel.read_status()
        if status is None or status.nonce != self._nonce:
            return
        if self._offer_again is not None:  # interrupted before the line started
            self._offer_again()
            return
        self._inside = False
        self.status = status
        self._on_waiting()
        self.waiting.set()


# First politely, then firmly, then by force; once more for a process that the line started next.
_LADDER = ((signal.SIGINT, 0.5), (signal.SIGTERM, 1.0), (signal.SIGKILL, 1.0), (signal.SIGKILL, 2.0))
_KILLED_S = 5.0
_PROC = Path("/proc")


async def interrupt_line(bash: BashProcess, pty: Pty) -> None:
    """Stops the running line until the shell waits again. A shell that does not is killed and replaced."""
    for number, wait_s in _LADDER:
        if number is not signal.SIGINT:  # bash must have it before the command ends, or it continues with the line
            pty.signal_child(signal.SIGINT)
        pty.signal_foreground(number if pty.foreground_group() != pty.pid else signal.SIGINT)
        try:
            async with asyncio.timeout(wait_s):
                await bash.wait_until_waiting()
                return
        except TimeoutError:
            continue
    pty.kill()
    with suppress(TimeoutError):
        async with asyncio.timeout(_KILLED_S):
            await bash.wait_until_waiting()


def find_disowned_groups(bash: int, jobs: frozenset[int] | None) -> frozenset[int]:
    """Finds jobs that bash was told to `disown`: its children in process groups that are not in its list of jobs.

    Call it when bash waits, so that nothing in the foreground is among them. `jobs` are the groups that bash knows,
    None if it has not listed them. Without /proc, or with a plain sh, the result is empty.
    """
    if jobs is None:
        return frozenset()
    groups = {_group_of(child, bash) for child in _children(bash)}
    return frozenset(groups) - jobs - {0, bash}


def _children(pid: int) -> list[int]:
    with suppress(OSError, ValueError):
        return [int(child) for child in (_PROC / str(pid) / "task" / str(pid) / "children").read_bytes().split()]
    return []


def _group_of(pid: int, session: int) -> int:
    """Returns 0 for dead processes and those that left the session."""
    with suppress(OSError, ValueError):
        state, _, group, found, *_ = (_PROC / str(pid) / "stat").read_bytes().rpartition(b") ")[2].split()
        return int(group) if int(found) == session and state not in b"ZX" else 0
    return 0


def build_result(
    bash: BashProcess, line: str, capture: OutputCapture, end: RunEnd, typed_ahead: bytes = b""
) -> RunResult:
    capture.finish()
    status = bash.status.code
    if bash.exited.is_set():
        code = bash.returncode or 0
        status = code if code >= 0 else 128 - code
        end = RunEnd.EXITED if code >= 0 else RunEnd.LOST
    ahead = typed_ahead.decode("utf-8", "replace")
    result = capture.result(
        line, status, bash.status.cwd, bash.duration_s, end, jobs=bash.status.jobs, typed_ahead=ahead
    )
    if bash.mode == "own" or bash.exited.is_set():
        return result
    expanded = bash.channel.read_expanded_line() if bash.status.is_expanded else None
    return msgspec.structs.replace(result, line=expanded or line, is_kept=bash.status.is_kept)
