"""Hears what the store is given to record, and hands it to a thread that makes spans of it.

What is recorded holds no known secret, is the same for every frontend, and is only this process's own. Hearing it costs
an append to a bounded queue: a turn never waits for telemetry, and nothing that goes wrong with it reaches a turn.
What does not fit the queue is left out.

Life: the thread begins with the first line and ends with the store, which waits for it a bounded time. It does not know
what becomes of the lines (`export` does).
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, cast

from aish.ports import Store
from aish.types.records import TurnRecord

log = logging.getLogger(__name__)

# Half a minute of a busy server.
MAX_BYTES = 8 * 1024 * 1024
# Waking the thread for each line would cost more than the line.
_LOOK_S = 0.25
# The most that closing waits for the last of it to be sent.
CLOSE_S = 3.0


class Sink(Protocol):
    def see(self, lines: bytes) -> None:
        """Events of one turn, as recorded."""

    def close(self) -> None:
        """Sends what is left."""


class Telemetry:
    """`make` builds the sink, in the thread: its libraries are heavy."""

    def __init__(self, make: Callable[[], Sink], *, max_bytes: int = MAX_BYTES) -> None:
        self._make = make
        self._max_bytes = max_bytes
        self._queue: deque[bytes] = deque()
        self._put_bytes = 0  # only changed by those who put
        self._taken_bytes = 0  # only changed by the thread
        self.left_out = 0
        self._has_failed = False
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def take(self, lines: bytes) -> None:
        if self._put_bytes - self._taken_bytes + len(lines) > self._max_bytes or self._closed.is_set():
            self.left_out += 1
            return
        self._put_bytes += len(lines)
        self._queue.append(lines)
        if self._thread is None:
            # A daemon: an endpoint that hangs must not keep the process.
            self._thread = threading.Thread(target=self._run, name="aish-telemetry", daemon=True)
            self._thread.start()

    def close(self) -> None:
        self._closed.set()
        if self._thread is not None:
            self._thread.join(CLOSE_S)

    def _run(self) -> None:
        try:
            sink = self._make()
        except Exception:  # top of an owner thread: telemetry is nobody's concern but its own
            log.exception("telemetry could not be set up; nothing is sent")
            self._closed.set()
            return
        while True:
            closing = self._closed.wait(_LOOK_S)
            self._drain(sink)
            if closing:
                break
        if self.left_out:
            log.warning("telemetry left out %d pieces: there was more than could be sent", self.left_out)
        self._attempt(sink.close)

    def _drain(self, sink: Sink) -> None:
        while self._queue:
            lines = self._queue.popleft()
            self._taken_bytes += len(lines)
            self._attempt(partial(sink.see, lines))

    def _attempt(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception:  # as above; once is enough to know
            if not self._has_failed:
                log.exception("telemetry failed on an event")
            self._has_failed = True


class TappedStore:
    """A store that tells what it is given. Everything else is the store's own."""

    def __init__(self, store: Store, telemetry: Telemetry) -> None:
        self._store = store
        self._telemetry = telemetry

    def append_events(self, turn: str, first_seq: int, last_seq: int, lines: bytes) -> None:
        self._store.append_events(turn, first_seq, last_seq, lines)
        self._telemetry.take(lines)

    async def record_turn(self, turn: TurnRecord, last_seq: int, lines: bytes) -> None:
        await self._store.record_turn(turn, last_seq, lines)
        self._telemetry.take(lines)

    async def aclose(self) -> None:
        try:
            await self._store.aclose()
        finally:
            await asyncio.to_thread(self._telemetry.close)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def tapped(store: Store, telemetry: Telemetry) -> Store:
    return cast(Store, TappedStore(store, telemetry))
