"""Copies what the store records to a thread that makes telemetry of it.

Recorded events contain no known secret, are the same for every frontend, and belong to this process. Copying them is an
append to a bounded queue: a turn never waits for telemetry, and no failure of it reaches a turn. Lines that do not fit
the queue are dropped.

The thread starts with the first line and ends with the store, which waits for it a bounded time. `export` makes and
sends the telemetry.
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
_PERIOD_S = 0.25
# How long closing waits for the last lines to be sent.
CLOSE_S = 3.0


class Sink(Protocol):
    def add(self, lines: bytes) -> None:
        """Takes recorded events of one turn."""

    def close(self) -> None:
        """Sends everything that is left."""


class Telemetry:
    """`make` builds the sink, in the thread, since its libraries are slow to import."""

    def __init__(self, make: Callable[[], Sink], *, max_bytes: int = MAX_BYTES) -> None:
        self._make = make
        self._max_bytes = max_bytes
        self._queue: deque[bytes] = deque()
        self._put_bytes = 0  # changed only by `put`
        self._taken_bytes = 0  # changed only by the thread
        self.dropped = 0
        self._has_failed = False
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def put(self, lines: bytes) -> None:
        if self._put_bytes - self._taken_bytes + len(lines) > self._max_bytes or self._closed.is_set():
            self.dropped += 1
            return
        self._put_bytes += len(lines)
        self._queue.append(lines)
        if self._thread is None:
            # A daemon, so that an endpoint that hangs does not keep the process from ending.
            self._thread = threading.Thread(target=self._run, name="aish-telemetry", daemon=True)
            self._thread.start()

    def close(self) -> None:
        self._closed.set()
        if self._thread is not None:
            self._thread.join(CLOSE_S)

    def _run(self) -> None:
        try:
            sink = self._make()
        except Exception:  # the top of the thread: a failure of telemetry affects nothing else
            log.exception("telemetry could not be set up; nothing is sent")
            self._closed.set()
            return
        while True:
            closing = self._closed.wait(_PERIOD_S)
            self._drain(sink)
            if closing:
                break
        if self.dropped:
            log.warning("telemetry left out %d pieces: there was more than could be sent", self.dropped)
        self._attempt(sink.close)

    def _drain(self, sink: Sink) -> None:
        while self._queue:
            lines = self._queue.popleft()
            self._taken_bytes += len(lines)
            self._attempt(partial(sink.add, lines))

    def _attempt(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception:  # as above; logged once
            if not self._has_failed:
                log.exception("telemetry failed on an event")
            self._has_failed = True


class TappedStore:
    """Passes everything to the store, and recorded lines to telemetry as well."""

    def __init__(self, store: Store, telemetry: Telemetry) -> None:
        self._store = store
        self._telemetry = telemetry

    def append_events(self, turn: str, first_seq: int, last_seq: int, lines: bytes) -> None:
        self._store.append_events(turn, first_seq, last_seq, lines)
        self._telemetry.put(lines)

    async def record_turn(self, turn: TurnRecord, last_seq: int, lines: bytes) -> None:
        await self._store.record_turn(turn, last_seq, lines)
        self._telemetry.put(lines)

    async def aclose(self) -> None:
        try:
            await self._store.aclose()
        finally:
            await asyncio.to_thread(self._telemetry.close)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def tap_store(store: Store, telemetry: Telemetry) -> Store:
    return cast("Store", TappedStore(store, telemetry))
