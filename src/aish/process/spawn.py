"""Starts a child and reads and writes its pipes, with any event loop that can watch descriptors.

asyncio starts children itself, but each event loop does it differently: uvloop passes on descriptors that it should
not, and does not notice when a child closes its input. This implementation is the same on all of them. POSIX only.
Stdin is a socket, since only a socket reports on every system that its other end was closed.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Any

from aish.net.event_loop import READ_BYTES

_STDIN, _STDOUT, _STDERR = 0, 1, 2
# Unread input at which writing pauses, and at which it resumes.
_HIGH_BYTES = 64 * 1024
_LOW_BYTES = 16 * 1024


def spawn_child(protocol: asyncio.SubprocessProtocol, argv: tuple[str, ...], **options: Any) -> ChildTransport:
    """Starts a child. Takes the options of Popen and raises what it raises; `stdin` None creates a pipe."""
    our_end: socket.socket | None = None
    child_end: socket.socket | None = None
    if options.get("stdin") is None:
        our_end, child_end = socket.socketpair()
        options["stdin"] = child_end
    try:
        child = subprocess.Popen(argv, bufsize=0, **options)
    except BaseException:
        if our_end is not None:
            our_end.close()
        raise
    finally:
        if child_end is not None:
            child_end.close()
    return ChildTransport(asyncio.get_running_loop(), protocol, child, our_end)


class ChildTransport(asyncio.SubprocessTransport):
    """Calls the protocol as asyncio's own transport does: data and end of each pipe, the exit, and the end of it
    all."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        protocol: asyncio.SubprocessProtocol,
        child: subprocess.Popen[bytes],
        stdin: socket.socket | None,
    ) -> None:
        super().__init__()
        self._loop = loop
        self._protocol = protocol
        self._child = child
        self._exited = False
        self._has_ended = False
        self._pipes: dict[int, _PipeReader | _PipeWriter] = {}
        if stdin is not None:
            self._pipes[_STDIN] = _PipeWriter(loop, self, stdin)
        for fd, file in ((_STDOUT, child.stdout), (_STDERR, child.stderr)):
            if file is not None:
                self._pipes[fd] = _PipeReader(loop, _PipeProtocol(self, fd), file)
        self._open = set(self._pipes)
        protocol.connection_made(self)
        for pipe in self._pipes.values():
            pipe.begin()
        self._watch_exit()

    def get_pid(self) -> int:
        return self._child.pid

    def get_returncode(self) -> int | None:
        return self._child.returncode

    def get_pipe_transport(self, fd: int) -> asyncio.BaseTransport | None:
        return self._pipes.get(fd)

    def send_signal(self, signal: int) -> None:
        self._child.send_signal(signal)

    def terminate(self) -> None:
        self._child.terminate()

    def kill(self) -> None:
        self._child.kill()

    def is_closing(self) -> bool:
        return not self._open

    def close(self) -> None:
        """Closes the pipes at once. The child is reaped when it exits."""
        for pipe in self._pipes.values():
            pipe.abort()

    # Called by the pipes.

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._protocol.pipe_data_received(fd, data)

    def pipe_ended(self, fd: int, exc: Exception | None) -> None:
        self._open.discard(fd)
        self._protocol.pipe_connection_lost(fd, exc)
        self._check_end()

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    def _check_end(self) -> None:
        if self._exited and not self._open and not self._has_ended:
            self._has_ended = True
            self._loop.call_soon(self._protocol.connection_lost, None)

    # The exit of the child.

    def _watch_exit(self) -> None:
        pidfd = _open_pidfd(self._child.pid)
        if pidfd is None:
            threading.Thread(target=self._wait_in_thread, name="aish-child", daemon=True).start()
        else:
            self._loop.add_reader(pidfd, self._reap, pidfd)

    def _reap(self, pidfd: int) -> None:
        self._loop.remove_reader(pidfd)
        os.close(pidfd)
        self._child.wait()
        self._handle_exit()

    def _wait_in_thread(self) -> None:
        self._child.wait()
        with suppress(RuntimeError):  # the loop has closed
            self._loop.call_soon_threadsafe(self._handle_exit)

    def _handle_exit(self) -> None:
        self._exited = True
        self._protocol.process_exited()
        self._check_end()


def _open_pidfd(pid: int) -> int | None:
    """None if the system has no pidfd."""
    opener = getattr(os, "pidfd_open", None)
    if opener is None:
        return None
    try:
        pidfd: int = opener(pid)
    except OSError:
        return None
    return pidfd


class _PipeProtocol(asyncio.Protocol):
    """Passes the data of a pipe to the child's transport. The default protocol of a pipe."""

    def __init__(self, child: ChildTransport, fd: int) -> None:
        self._child = child
        self._fd = fd

    def data_received(self, data: bytes) -> None:
        self._child.pipe_data_received(self._fd, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._child.pipe_ended(self._fd, exc)


class _PipeReader(asyncio.ReadTransport):
    def __init__(self, loop: asyncio.AbstractEventLoop, protocol: asyncio.Protocol, file: IO[bytes]) -> None:
        super().__init__()
        self._loop = loop
        self._protocol = protocol
        self._file = file
        self._fd = file.fileno()
        self._closed = False
        self._paused = False
        os.set_blocking(self._fd, False)

    def begin(self) -> None:
        if not self._paused:
            self._loop.add_reader(self._fd, self._ready)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol)
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def is_closing(self) -> bool:
        return self._closed

    def is_reading(self) -> bool:
        return not self._closed and not self._paused

    def pause_reading(self) -> None:
        if self.is_reading():
            self._paused = True
            self._loop.remove_reader(self._fd)

    def resume_reading(self) -> None:
        if self._paused and not self._closed:
            self._paused = False
            self._loop.add_reader(self._fd, self._ready)

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        self._end(None)

    def _ready(self) -> None:
        try:
            data = os.read(self._fd, READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as exc:
            self._end(exc)
            return
        if data:
            self._protocol.data_received(data)
        else:
            self._end(None)

    def _end(self, exc: Exception | None) -> None:
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._fd)
        self._file.close()
        self._loop.call_soon(self._protocol.connection_lost, exc)


class _PipeWriter(asyncio.WriteTransport):
    def __init__(self, loop: asyncio.AbstractEventLoop, child: ChildTransport, end: socket.socket) -> None:
        super().__init__()
        self._loop = loop
        self._child = child
        self._socket = end
        self._fd = end.fileno()
        self._unsent = bytearray()
        self._paused = False
        self._closing = False
        self._closed = False
        end.setblocking(False)

    def begin(self) -> None:
        self._loop.add_reader(self._fd, self._ready)  # only to notice that the other end was closed

    def is_closing(self) -> bool:
        return self._closing

    def get_write_buffer_size(self) -> int:
        return len(self._unsent)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing:
            return
        if not self._unsent:
            data = memoryview(data)[self._send(data) :]
        if len(data) and not self._closed:
            if not self._unsent:
                self._loop.add_writer(self._fd, self._flush)
            self._unsent += data
            if len(self._unsent) > _HIGH_BYTES and not self._paused:
                self._paused = True
                self._child.pause_writing()

    def close(self) -> None:
        """Closes after all data has been written."""
        self._closing = True
        if not self._unsent:
            self._end(None)

    def abort(self) -> None:
        self._end(None)

    def _send(self, data: bytes | bytearray | memoryview) -> int:
        try:
            return self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as exc:
            self._end(exc)
            return 0

    def _flush(self) -> None:
        del self._unsent[: self._send(self._unsent)]
        if self._closed:
            return
        if self._paused and len(self._unsent) <= _LOW_BYTES:
            self._paused = False
            self._child.resume_writing()
        if not self._unsent:
            self._loop.remove_writer(self._fd)
            if self._closing:
                self._end(None)

    def _ready(self) -> None:
        try:
            if self._socket.recv(1):  # the child writes to its stdin: stop watching, or this would be called forever
                self._loop.remove_reader(self._fd)
                return
            lost: Exception | None = None
        except (BlockingIOError, InterruptedError):
            return
        except OSError as exc:
            lost = exc
        self._end(lost)

    def _end(self, exc: Exception | None) -> None:
        if self._closed:
            return
        self._closed = self._closing = True
        self._loop.remove_reader(self._fd)
        self._loop.remove_writer(self._fd)
        self._unsent.clear()
        self._socket.close()
        self._loop.call_soon(self._child.pipe_ended, _STDIN, exc)


def run_quickly(argv: Sequence[str], stdin: str, *, timeout_s: float) -> str | None:
    """Blocks while it runs a program that takes milliseconds and has no side effects. Any other is `child`'s.

    Returns what the program writes to stderr, with an empty environment; None if it cannot be run in time.
    """
    try:
        done = subprocess.run(
            list(argv),
            input=stdin.encode("utf-8", "replace"),
            capture_output=True,
            timeout=timeout_s,
            env={"LC_ALL": "C"},
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stderr.decode("utf-8", "replace")


def run_in_foreground(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Runs a program that the user ends, such as an editor, on the user's terminal. Returns its status. Blocks."""
    return subprocess.run(argv, env=dict(env), check=False).returncode
