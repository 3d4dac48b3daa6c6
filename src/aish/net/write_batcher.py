"""Batches writes to several connections in one iteration of the event loop, and writes them together at its end.

A write wakes the process that reads, and waking a sleeping process costs more than the rest of a small write. Of
several writes in a row only the first pays for it: the reader is still awake at the others. With a single active
request nothing is delayed.

A batched write happens before any callback that is scheduled afterwards. Code that closes a connection, or writes to it
directly, flushes first. Data for a transport that closes in the meantime is dropped.
"""

from __future__ import annotations

import asyncio
import logging
from weakref import WeakKeyDictionary, ref

log = logging.getLogger(__name__)


class WriteBatcher:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = ref(loop)  # as in `deadlines`
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
