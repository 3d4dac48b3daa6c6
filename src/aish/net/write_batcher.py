"""What is written to several connections in one round of the event loop, written together at the end of it.

To write wakes whoever reads, and to wake a process that sleeps costs more than all else about a small write. Of several
that follow each other at once only the first pays for it: the reader is still awake at the others. Who has the loop to
itself is not kept waiting.

Life: what is put is written before anything that is scheduled afterwards runs. What arrives from outside may be handled
before it: whoever ends a connection, or writes to it past the outbox, there flushes first. For a transport that closes
meanwhile nothing is kept.
"""

from __future__ import annotations

import asyncio
import logging
from weakref import WeakKeyDictionary, ref

log = logging.getLogger(__name__)


class Outbox:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = ref(loop)  # as in `deadlines`
        self._waiting: list[tuple[asyncio.WriteTransport, bytes]] = []
        self.flushed = 0  # how often: what was put since the last time is not written yet
        self.at_work = 0  # requests of a server's clients that are being answered; counted by whoever does

    def put(self, transport: asyncio.WriteTransport, data: bytes) -> None:
        self._waiting.append((transport, data))
        if self.at_work < 2:
            self.flush()
        elif len(self._waiting) == 1:
            loop = self._loop()
            assert loop is not None, "only a loop that runs has something to write"
            loop.call_soon(self.flush)

    def flush(self) -> None:
        """Now. Nothing happens where nothing waits. What cannot be written keeps nothing from the others."""
        waiting, self._waiting = self._waiting, []
        self.flushed += 1
        for transport, data in waiting:
            if not transport.is_closing():
                try:
                    transport.write(data)
                except Exception as exc:
                    log.error("a connection takes no more", exc_info=exc)
                    transport.abort()


_outboxes: WeakKeyDictionary[asyncio.AbstractEventLoop, Outbox] = WeakKeyDictionary()


def outbox_of(loop: asyncio.AbstractEventLoop) -> Outbox:
    """The one of this loop. Ask once and keep it."""
    outbox = _outboxes.get(loop)
    if outbox is None:
        outbox = _outboxes[loop] = Outbox(loop)
    return outbox
