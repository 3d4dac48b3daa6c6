"""A reply under way and the client it goes to.

One small task a request looks after three things: a client that goes away takes its turn with it; a stream that is
silent gets a sign of life; a client that stops reading is given up. Headers wait a moment for the first news, so that
what fails at once is an error with its own status; they do not wait longer, since clients count until they come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Protocol

from aish.faces.asgi import Exchange
from aish.faces.http.problems import ShutDown

# How long the headers wait for the first news.
HEADERS_S = 1.0
# Most requests of programs are over before this; those need no looking after.
_SOON_S = 0.02


class Encoder(Protocol):
    heartbeat: bytes

    def opening(self) -> bytes:
        """What begins the stream, before any news."""


class ClientGone(Exception):
    """Nobody is there to be answered any more."""


class Watch:
    """`encoder` None: the reply is sent as a whole at the end."""

    def __init__(
        self, exchange: Exchange, encoder: Encoder | None, *, heartbeat_s: float, send_timeout_s: float
    ) -> None:
        self._exchange = exchange
        self._encoder = encoder
        self._heartbeat_s = heartbeat_s
        self._send_timeout_s = send_timeout_s
        self._loop = asyncio.get_running_loop()
        self._sent_s = self._loop.time()
        self._sending_since_s: float | None = None
        self._gone = False
        self._watcher: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Watch:
        self._task = asyncio.current_task()
        self._beginning = self._loop.call_later(_SOON_S, self._begin)
        return self

    def _begin(self) -> None:
        self._watcher = self._loop.create_task(self._look_after())

    def _end(self) -> None:
        self._beginning.cancel()
        if self._watcher is not None:
            self._watcher.cancel()

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()
        if self._gone and isinstance(exc, asyncio.CancelledError) and self._task is not None:
            self._task.uncancel()
            raise ClientGone from exc

    @contextmanager
    def until_shut_down(self) -> Iterator[None]:
        """Whoever is cancelled in here although the client is there is told by ShutDown, and can still say so."""
        try:
            yield
        except asyncio.CancelledError as exc:
            if self._gone or self._task is None:
                raise
            self._task.uncancel()
            raise ShutDown from exc

    async def send(self, data: bytes) -> None:
        if not self._exchange.started:
            await self._start()
        self._sending_since_s = self._sent_s = self._loop.time()
        await self._exchange.send_piece(data)
        self._sending_since_s = None

    async def finish(self) -> None:
        self._end()
        if not self._exchange.started:
            await self._start()
        await self._exchange.send_piece(b"", last=True)

    async def _start(self) -> None:
        await self._exchange.start_stream()
        if self._encoder is not None and (opening := self._encoder.opening()):
            await self._exchange.send_piece(opening)

    async def _look_after(self) -> None:
        wait_s = HEADERS_S if self._encoder is not None else self._heartbeat_s
        while True:
            try:
                async with asyncio.timeout(wait_s):
                    await self._exchange.gone()
                self._give_up()
                return
            except TimeoutError:
                wait_s = self._heartbeat_s
            if not await self._tick():
                return

    async def _tick(self) -> bool:
        """A sign of life if one is due. False: the client does not read."""
        now_s = self._loop.time()
        if self._sending_since_s is not None:
            if now_s - self._sending_since_s < self._send_timeout_s:
                return True
            self._give_up()
            return False
        if self._encoder is None:
            return True
        if not self._exchange.started:
            await self._start()
        elif now_s - self._sent_s >= self._heartbeat_s / 2:
            self._sent_s = now_s
            await self._exchange.send_piece(self._encoder.heartbeat)
        return True

    def _give_up(self) -> None:
        self._gone = True
        if self._task is not None:
            self._task.cancel()
