"""Runs a child on a pseudo-terminal, which is the controlling terminal of its session. POSIX only: import it lazily.

    async with Pty.start(ProcessSpec(argv=("bash", "-i"), inherit=("*",)), size=(24, 80), take=show) as pty:
        pty.write(b"...")

`child` owns the process and ends its whole session. This module moves the bytes: output is passed to `take` in pieces
as it arrives; a consumer that cannot keep up calls `pause`, and the child waits. Input is queued up to a bound. The
child's side of the terminal stays open here, too, by a nonblocking descriptor: that allows restoring its modes and
taking back unread input.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import msgspec

from aish.errors import ProcessError
from aish.process import process_groups
from aish.process.child import ChildProcess, ProcessSpec
from aish.process.terminal import (
    WindowSize,
    drain_input,
    is_reading_secret,
    open_nonblocking,
    restore_line_modes,
    set_window_size,
)

__all__ = ["Pty", "WindowSize"]

_READ_BYTES = 64 * 1024
# Pieces read per loop iteration: a terminal gives at most 4 KiB at once, and an iteration costs more than such a read.
_READS_PER_TURN = 16
# More than a terminal can buffer. Bounded, because a background process may write forever.
_READS_AFTER_EXIT = 256
_INPUT_MAX_BYTES = 1024 * 1024


class Pty:
    """A running child on its terminal. Create it with `start`."""

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
        ours = open_nonblocking(slave)
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
        """Waits until it has exited and all of its output was passed on. Returns the exit code."""
        code = await self._child.wait()
        self.resume()
        for _ in range(_READS_AFTER_EXIT):
            if not self._read_some():
                break
        return code

    def write(self, data: bytes) -> None:
        """Queues input. Raises ProcessError if far more is queued than a terminal takes (see `is_full`)."""
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
        """Whether the child's terminal has no room for input: the caller should not read more of it."""
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
        """Sets the size. The kernel notifies the programs in the foreground."""
        set_window_size(self._master, size)

    def foreground_group(self) -> int:
        """The process group that has the terminal, or the child's group."""
        try:
            return os.tcgetpgrp(self._master) or self.pid
        except OSError:
            return self.pid

    def signal_foreground(self, number: int) -> None:
        """Signals the group that has the terminal, or the child itself if it has the terminal or the group is gone."""
        group = self.foreground_group()
        if group == self.pid or not process_groups.signal_group(group, number):
            self.signal_child(number)

    def signal_child(self, number: int) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def spare_groups(self, groups: frozenset[int]) -> None:
        """Sets the groups that are not ended with the session."""
        self._child.spare_groups(groups)

    def interrupt(self) -> None:
        """Sends SIGINT to the child's group and to the one in the foreground, as Ctrl-C does."""
        for group in {self.pid: None, self.foreground_group(): None}:
            process_groups.signal_group(group, signal.SIGINT)

    async def end_descendants(self) -> None:
        """Ends all descendants of the child; the child itself keeps running."""
        await self._child.end_descendants()

    def kill(self) -> None:
        """Sends SIGKILL to the whole session."""
        self._child.kill()

    @property
    def is_reading_secret(self) -> bool:
        return is_reading_secret(self._slave)

    def restore_line_modes(self) -> None:
        """Restores line mode and echo, if a program left the terminal raw or without echo."""
        restore_line_modes(self._slave)

    def take_unread_input(self) -> bytes:
        """Takes input that was typed and not read. Call it only while no program reads."""
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
        except OSError:  # the child's side is closed
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
