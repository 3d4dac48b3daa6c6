"""The three pipes of a child: stdout with back-pressure, stderr into a ring buffer, stdin with flow control.

Knows nothing of groups, signals or the owner of the child (`child` does).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from aish.net.event_loop import limit_read_size

STDIN, STDOUT, STDERR = 0, 1, 2
# Longer lines are cut before they are redacted. That is far more than is shown, so no secret in view is cut in half.
_LINE_MAX_BYTES = 16 * 1024


class StderrRing:
    """The last lines of a child's stderr, redacted and cut. Counts the lines before them."""

    def __init__(self, *, lines: int, line_bytes: int, redact: Callable[[str], str] | None = None) -> None:
        self._lines: deque[str] = deque(maxlen=lines)
        self._line_bytes = line_bytes
        self._redact = redact
        self._partial = b""
        self._skipping = False  # the rest of a line that was too long
        self.dropped = 0

    def feed(self, data: bytes) -> None:
        *complete, rest = data.split(b"\n")
        for piece in complete:
            self._extend(piece)
            if not self._skipping:
                self._push(self._partial)
            self._partial, self._skipping = b"", False
        self._extend(rest)

    def _extend(self, piece: bytes) -> None:
        if self._skipping:
            return
        self._partial += piece
        if len(self._partial) > _LINE_MAX_BYTES:
            self._push(self._partial[:_LINE_MAX_BYTES])
            self._partial, self._skipping = b"", True

    def _push(self, line: bytes) -> None:
        if len(self._lines) == self._lines.maxlen:
            self.dropped += 1
        self._lines.append(self._format(line))

    def _format(self, line: bytes) -> str:
        # A progress bar redraws itself after \r: only its last state is kept.
        text = line.rstrip(b"\r").rpartition(b"\r")[2].decode("utf-8", "replace")
        if self._redact is not None:
            text = self._redact(text)
        encoded = text.encode()
        if len(encoded) <= self._line_bytes:
            return text
        return encoded[: self._line_bytes].decode("utf-8", "ignore") + "…"

    def tail(self) -> str:
        lines = [*self._lines, *([self._format(self._partial)] if self._partial else [])]
        head = [f"[{self.dropped} lines before]"] if self.dropped else []
        return "\n".join(head + lines)


class ByteStream:
    """Pieces as they arrive, for one consumer. Reading pauses while `max_bytes` are buffered."""

    def __init__(self, max_bytes: int) -> None:
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._max_bytes = max_bytes
        self._news = asyncio.Event()
        self._source: asyncio.ReadTransport | None = None
        self._take: Callable[[bytes], None] | None = None
        self.paused = False
        self.ended = False

    def attach(self, source: asyncio.ReadTransport) -> None:
        self._source = source

    def deliver_to(self, take: Callable[[bytes], None]) -> None:
        """Passes pieces to `take` as they arrive, without a task in between. Iterating then waits for the end.

        `take` must be fast and must not raise.
        """
        while self._pieces:
            take(self._pieces.popleft())
        self._size = 0
        self._take = take
        if self.paused:
            self._resume()

    def feed(self, data: bytes) -> None:
        if self.ended:
            return
        if self._take is not None:
            self._take(data)
            return
        self._pieces.append(data)
        self._size += len(data)
        self._news.set()
        if self._size >= self._max_bytes and not self.paused and self._source is not None:
            self._source.pause_reading()
            self.paused = True

    def end(self) -> None:
        self.ended = True
        self._news.set()

    def __aiter__(self) -> ByteStream:
        return self

    async def __anext__(self) -> bytes:
        while not self._pieces:
            if self.ended:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        piece = self._pieces.popleft()
        self._size -= len(piece)
        if self.paused and self._size <= self._max_bytes // 2:
            self._resume()
        return piece

    def _resume(self) -> None:
        self.paused = False
        if self._source is not None and not self._source.is_closing():
            self._source.resume_reading()


class _DirectStdout(asyncio.Protocol):
    """Passes stdout on directly, without the loop iteration that asyncio's own protocol takes for every piece.

    Pieces that arrived before it was set are queued, and the loop runs them before it reads again: the order is kept.
    """

    def __init__(self, before: asyncio.BaseProtocol, pipes: ChildPipes) -> None:
        self._before = before
        self._pipes = pipes

    def data_received(self, data: bytes) -> None:
        self._pipes.pipe_data_received(STDOUT, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._before.connection_lost(exc)


class ChildPipes(asyncio.SubprocessProtocol):
    """Turns the callbacks of asyncio into events to wait for."""

    # How long the pipes may be silent after the child's exit before they count as ended: a process in another session
    # may have inherited them and keep them open forever.
    LINGER_S = 0.25

    def __init__(self, ring: StderrRing, stdout: ByteStream) -> None:
        self.ring = ring
        self.stdout = stdout
        self.exited = asyncio.Event()
        self.drained = asyncio.Event()  # exited, and stdout and stderr have ended
        self.closed = asyncio.Event()
        self.writable = asyncio.Event()
        self.writable.set()
        self.stdin_lost = False
        self._open = {STDOUT, STDERR}
        self._has_data = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)
        source = transport.get_pipe_transport(STDOUT)
        if source is None:
            self.pipe_connection_lost(STDOUT, None)
        else:
            assert isinstance(source, asyncio.ReadTransport)
            limit_read_size(source)
            self.stdout.attach(source)
            source.set_protocol(_DirectStdout(source.get_protocol(), self))

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._has_data = True
        if fd == STDERR:
            self.ring.feed(data)
        else:
            self.stdout.feed(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == STDIN:
            self.stdin_lost = True
            self.writable.set()
            return
        self._open.discard(fd)
        if fd == STDOUT:
            self.stdout.end()
        self._check_drained()

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def process_exited(self) -> None:
        self.exited.set()
        self.writable.set()
        self._check_drained()
        self._linger()

    def connection_lost(self, exc: Exception | None) -> None:
        self._open.clear()
        self.stdout.end()
        self._check_drained()
        self.closed.set()

    def _check_drained(self) -> None:
        if self.exited.is_set() and not self._open:
            self.drained.set()

    def _linger(self) -> None:
        self._has_data = False
        asyncio.get_running_loop().call_later(self.LINGER_S, self._end_if_silent)

    def _end_if_silent(self) -> None:
        if self.drained.is_set():
            return
        if self._has_data or self.stdout.paused:  # paused: our consumer is slow
            self._linger()
            return
        self._open.clear()
        self.stdout.end()
        self._check_drained()
