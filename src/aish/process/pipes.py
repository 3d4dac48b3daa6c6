"""The three pipes of a child: stdout with back-pressure, stderr into a ring, stdin with a sign when it is full.

Knows nothing of groups, signals or who owns the child; `process` does.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from aish.net.read_size import read_little

STDIN, STDOUT, STDERR = 0, 1, 2
# A line this long is cut before it is redacted; far past what is shown, so that no secret is cut in half on display.
_LINE_MAX_BYTES = 16 * 1024


class StderrRing:
    """The last lines a child wrote to stderr, each redacted and cut; how many came before them is counted."""

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
        self._lines.append(self._shown(line))

    def _shown(self, line: bytes) -> str:
        # A progress bar redraws itself after \r: what counts is what it showed last.
        text = line.rstrip(b"\r").rpartition(b"\r")[2].decode("utf-8", "replace")
        if self._redact is not None:
            text = self._redact(text)
        encoded = text.encode()
        if len(encoded) <= self._line_bytes:
            return text
        return encoded[: self._line_bytes].decode("utf-8", "ignore") + "…"

    def tail(self) -> str:
        lines = [*self._lines, *([self._shown(self._partial)] if self._partial else [])]
        head = [f"[{self.dropped} lines before]"] if self.dropped else []
        return "\n".join(head + lines)


class ByteStream:
    """Pieces as they arrive, for one consumer. `pause` and `resume` hold the writer back at `max_bytes`."""

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
        """From now on pieces are handed over as they arrive, without a task in between; iterating waits for the end.

        For a consumer that keeps up and never fails.
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


class _Straight(asyncio.Protocol):
    """Hears a pipe without the turn of the loop that asyncio's own protocol takes for every piece.

    What came before it took over is already queued, and the loop runs that before it reads again: order is kept.
    """

    def __init__(self, before: asyncio.BaseProtocol, pipes: ChildPipes) -> None:
        self._before = before
        self._pipes = pipes

    def data_received(self, data: bytes) -> None:
        self._pipes.pipe_data_received(STDOUT, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._before.connection_lost(exc)


class ChildPipes(asyncio.SubprocessProtocol):
    """asyncio's callbacks turned into things to wait for."""

    # How long after its exit a child's pipes may stay silent before they count as ended: somebody in another session
    # may have inherited them and keep them open for ever.
    LINGER_S = 0.25

    def __init__(self, ring: StderrRing, stdout: ByteStream) -> None:
        self.ring = ring
        self.stdout = stdout
        self.exited = asyncio.Event()
        self.drained = asyncio.Event()  # exited, and nothing more to come from stdout and stderr
        self.closed = asyncio.Event()
        self.writable = asyncio.Event()
        self.writable.set()
        self.stdin_lost = False
        self._open = {STDOUT, STDERR}
        self._heard = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)
        source = transport.get_pipe_transport(STDOUT)
        if source is None:
            self.pipe_connection_lost(STDOUT, None)
        else:
            assert isinstance(source, asyncio.ReadTransport)
            read_little(source)
            self.stdout.attach(source)
            source.set_protocol(_Straight(source.get_protocol(), self))

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._heard = True
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
        self._listen_a_little_longer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._open.clear()
        self.stdout.end()
        self._check_drained()
        self.closed.set()

    def _check_drained(self) -> None:
        if self.exited.is_set() and not self._open:
            self.drained.set()

    def _listen_a_little_longer(self) -> None:
        self._heard = False
        asyncio.get_running_loop().call_later(self.LINGER_S, self._give_up_if_silent)

    def _give_up_if_silent(self) -> None:
        if self.drained.is_set():
            return
        if self._heard or self.stdout.paused:  # paused: it is our reader who is slow
            self._listen_a_little_longer()
            return
        self._open.clear()
        self.stdout.end()
        self._check_drained()
