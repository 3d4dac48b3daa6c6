"""A child on a pseudo-terminal: its own session, the terminal its controlling one. POSIX only; imported in leaves.

    async with Pty.start(ProcessSpec(argv=("bash", "-i"), inherit=("*",)), size=(24, 80), take=show) as pty:
        pty.write(b"...")

`process` owns the child and ends its whole session. Here are the bytes: what it writes is handed to `take` as it
arrives, in pieces; whoever cannot keep up calls `pause`, and the child waits. What is written to it is queued up to a
bound. We keep the child's side of the terminal open as well, by a descriptor of our own that never waits: its modes can
be mended, and what nobody read of its input can be taken back.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import msgspec

from aish.errors import ProcessError
from aish.process import orphan_guard
from aish.process.child import ChildProcess, ProcessSpec
from aish.process.pty_modes import WindowSize, asks_for_secret, drain_input, mend_modes, open_again, set_window_size

__all__ = ["Pty", "WindowSize"]

_READ_BYTES = 64 * 1024
# Pieces taken per turn of the loop: a terminal gives at most 4 KiB at once, and each turn costs more than such a read.
_READS_PER_TURN = 16
# What a terminal can hold when its last writer goes is less; somebody in the background may write for ever.
_READS_AFTER_EXIT = 256
_INPUT_MAX_BYTES = 1024 * 1024


class Pty:
    """A running child on its terminal; made by `start`."""

    def __init__(self, master: int, slave: int, child: ChildProcess, take: Callable[[bytes], None]) -> None:
        self._master = master
        self._slave = slave
        self._child = child
        self._take = take
        self._loop = asyncio.get_running_loop()
        self._unwritten = bytearray()
        self._paused = False
        self._loop.add_reader(master, self._read)

    @classmethod
    @asynccontextmanager
    async def start(cls, spec: ProcessSpec, *, size: WindowSize, take: Callable[[bytes], None]) -> AsyncIterator[Pty]:
        """Raises SpawnFailed."""
        master, slave = os.openpty()
        ours = open_again(slave)
        pty: Pty | None = None
        try:
            os.set_blocking(master, False)
            set_window_size(master, size)
            async with ChildProcess.start(msgspec.structs.replace(spec, terminal=slave)) as child:
                pty = cls(master, ours, child, take)
                yield pty
        finally:
            if pty is not None:
                pty._detach()
            for fd in (master, slave, ours):
                os.close(fd)

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def returncode(self) -> int | None:
        return self._child.returncode

    @property
    def paused(self) -> bool:
        return self._paused

    async def wait(self) -> int:
        """Until it has exited and all it wrote has been handed over."""
        code = await self._child.wait()
        self.resume()
        for _ in range(_READS_AFTER_EXIT):
            if not self._read_some():
                break
        return code

    def write(self, data: bytes) -> None:
        """Queue input; raises ProcessError when far more waits than a terminal takes. See `is_full`."""
        if len(self._unwritten) + len(data) > _INPUT_MAX_BYTES:
            raise ProcessError(f"{self._child.spec.title} does not read its input")
        if not self._unwritten:
            data = data[self._write_some(data) :]
            if not data:
                return
            self._loop.add_writer(self._master, self._flush)
        self._unwritten += data

    @property
    def is_full(self) -> bool:
        """Whether input waits because the child's terminal has no room: do not read more of it from elsewhere."""
        return bool(self._unwritten)

    def pause(self) -> None:
        if not self._paused:
            self._paused = True
            self._loop.remove_reader(self._master)

    def resume(self) -> None:
        if self._paused:
            self._paused = False
            self._loop.add_reader(self._master, self._read)

    def resize(self, size: WindowSize) -> None:
        """The kernel tells the programs in the foreground."""
        set_window_size(self._master, size)

    def foreground_group(self) -> int:
        """The process group that has the terminal; the child's when there is none."""
        try:
            return os.tcgetpgrp(self._master) or self.pid
        except OSError:
            return self.pid

    def signal_foreground(self, number: int) -> None:
        """To the group that has the terminal; to the child itself when it has it, or when nobody else may."""
        group = self.foreground_group()
        if group == self.pid or not orphan_guard.signal_group(group, number):
            self.signal_child(number)

    def signal_child(self, number: int) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def spare(self, groups: frozenset[int]) -> None:
        """These are left alone when the session is ended, in place of those named before."""
        self._child.spared = groups

    def interrupt(self) -> None:
        """SIGINT to the child's group, and to the one in the foreground: each at once, as Ctrl-C does it."""
        for group in {self.pid: None, self.foreground_group(): None}:
            orphan_guard.signal_group(group, signal.SIGINT)

    async def end_descendants(self) -> None:
        """All that came from the child; the child lives on."""
        await self._child.end_descendants()

    def kill(self) -> None:
        """SIGKILL to the whole session, now."""
        self._child.kill()

    @property
    def asks_for_secret(self) -> bool:
        return asks_for_secret(self._slave)

    def mend_modes(self) -> None:
        """Make it a terminal for lines again, if a program left it raw or without echo."""
        mend_modes(self._slave)

    def take_back_input(self) -> bytes:
        """What was typed and nobody read; only while nobody reads."""
        self._loop.remove_writer(self._master)
        waiting = drain_input(self._slave) + bytes(self._unwritten)
        self._unwritten.clear()
        return waiting

    def _read(self) -> None:
        for _ in range(_READS_PER_TURN):
            if self._paused or not self._read_some():
                return

    def _read_some(self) -> bool:
        try:
            data = os.read(self._master, _READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:  # the other side is closed for good
            data = b""
        if not data:
            self._loop.remove_reader(self._master)
            return False
        self._take(data)
        return True

    def _write_some(self, data: bytes | bytearray) -> int:
        try:
            return os.write(self._master, data)
        except (BlockingIOError, InterruptedError):
            return 0

    def _flush(self) -> None:
        try:
            del self._unwritten[: self._write_some(self._unwritten)]
        except OSError:
            self._unwritten.clear()
        if not self._unwritten:
            self._loop.remove_writer(self._master)

    def _detach(self) -> None:
        with suppress(OSError):
            self._loop.remove_reader(self._master)
            self._loop.remove_writer(self._master)
