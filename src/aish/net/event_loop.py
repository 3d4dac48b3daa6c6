"""What the connections of one event loop share: a timer for deadlines, batched writes, and smaller reads."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol
from weakref import WeakKeyDictionary, ref

# asyncio reads up to 256 KiB. For such a buffer glibc maps new memory and unmaps it after each read, which takes 16 µs:
# half of the cost of a small message. Buffers of 64 KiB come from free memory, and a pipe holds no more than that.
READ_BYTES = 64 * 1024


def limit_read_size(transport: asyncio.BaseTransport) -> None:
    """Limits how much the event loop reads at once.

    Works on asyncio's own transports for sockets and pipes; does nothing for TLS and for other event loops."""
    if hasattr(transport, "max_size"):
        transport.max_size = READ_BYTES


PERIOD_S = 0.25


class HasDeadlines(Protocol):
    def check_deadlines(self, now_s: float) -> None:
        """Called in every period with the time of the event loop."""


class DeadlineTimer:
    """Checks many deadlines with one timer, a few times a second.

    Nearly every deadline is cancelled before it is due. A timer of the event loop for each of them costs more to set
    and to cancel than the rest of a small request; joining a shared timer costs nothing. It serves deadlines of a
    second or more, for which a quarter of a second does not matter.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = ref(loop)  # weak, and no timer handle: both would keep the loop alive
        self._watched: set[HasDeadlines] = set()
        self._has_timer = False

    def add(self, watched: HasDeadlines) -> None:
        self._watched.add(watched)
        if not self._has_timer:
            self._set_timer()

    def discard(self, watched: HasDeadlines) -> None:
        self._watched.discard(watched)

    def _set_timer(self) -> asyncio.AbstractEventLoop:
        loop = self._loop()
        assert loop is not None, "only a running loop has deadlines"
        loop.call_later(PERIOD_S, self._run)
        self._has_timer = True
        return loop

    def _run(self) -> None:
        self._has_timer = False
        if not self._watched:
            return
        now_s = self._set_timer().time()
        for watched in list(self._watched):
            watched.check_deadlines(now_s)


_timers: WeakKeyDictionary[asyncio.AbstractEventLoop, DeadlineTimer] = WeakKeyDictionary()


def get_deadline_timer(loop: asyncio.AbstractEventLoop) -> DeadlineTimer:
    """The timer of this loop. Callers ask once and keep it."""
    timer = _timers.get(loop)
    if timer is None:
        timer = _timers[loop] = DeadlineTimer(loop)
    return timer


log = logging.getLogger(__name__)


class WriteBatcher:
    """Batches writes to several connections in one iteration of the event loop, and writes them together at its end.

    A write wakes the process that reads, and waking a sleeping process costs more than the rest of a small write. Of
    several writes in a row only the first pays for it: the reader is still awake at the others. With a single active
    request nothing is delayed.

    A batched write happens before any callback that is scheduled afterwards. Code that closes a connection, or writes
    to it directly, flushes first. Data for a transport that closes in the meantime is dropped.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = ref(loop)  # as in `DeadlineTimer`
        self._waiting: list[tuple[asyncio.WriteTransport, bytes]] = []
        self.flush_count = 0  # data put since the last flush is not written yet
        self.active_requests = 0  # requests of a server's clients that are being answered; the server counts them

    def put(self, transport: asyncio.WriteTransport, data: bytes) -> None:
        self._waiting.append((transport, data))
        if self.active_requests < 2:
            self.flush()
        elif len(self._waiting) == 1:
            loop = self._loop()
            assert loop is not None, "only a running loop writes"
            loop.call_soon(self.flush)

    def flush(self) -> None:
        """Writes everything that waits. A failing transport does not affect the others."""
        waiting, self._waiting = self._waiting, []
        self.flush_count += 1
        for transport, data in waiting:
            if not transport.is_closing():
                try:
                    transport.write(data)
                except Exception as exc:
                    log.error("a connection takes no more", exc_info=exc)
                    transport.abort()


_batchers: WeakKeyDictionary[asyncio.AbstractEventLoop, WriteBatcher] = WeakKeyDictionary()


def get_write_batcher(loop: asyncio.AbstractEventLoop) -> WriteBatcher:
    """The batcher of this loop. Callers ask once and keep it."""
    batcher = _batchers.get(loop)
    if batcher is None:
        batcher = _batchers[loop] = WriteBatcher(loop)
    return batcher
