"""A reply under way and the client it goes to.

Looks after two things: a client that goes away takes its turn with it; a stream that is silent gets a sign of life. One
that stops reading is made to go away by its connection. Headers wait a moment for the first news, so that what fails at
once is an error with its own status; they do not wait longer, since clients count until they come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Protocol, TypeVar

from aish.frontends.asgi import Exchange
from aish.frontends.http.server.http_errors import ShutDown
from aish.net.deadlines import PERIOD_S, Sweep, sweep_of

# How long the headers wait for the first news: a second, less what the sweep may come late.
HEADERS_S = 1.0 - PERIOD_S


Result = TypeVar("Result")


class Encoder(Protocol):
    @property
    def heartbeat(self) -> bytes: ...

    def opening(self) -> bytes:
        """What begins the stream, before any news."""


class ClientGone(Exception):
    """Nobody is there to be answered any more."""


class Watch:
    """`encoder` None: the reply is sent as a whole at the end, and nothing before it."""

    word: Callable[[str], bytes]  # how a word is told, where words are heard

    def __init__(self, exchange: Exchange, encoder: Encoder | None, *, heartbeat_s: float = 0.0) -> None:
        self._exchange = exchange
        self._encoder = encoder
        self._heartbeat_s = heartbeat_s
        self._sweep: Sweep | None = None
        self._gone = False
        self._sign: asyncio.Future[None] | None = None  # of life, or the headers
        if encoder is not None:
            self._loop = asyncio.get_running_loop()
            self._sweep = sweep_of(self._loop)
            self._sent_s = self._loop.time()
        self._has_sent = False  # since the last look: what time it is need not be asked for each piece

    def __enter__(self) -> Watch:
        self._task = asyncio.current_task()
        self._exchange.when_gone(self._give_up)
        if self._sweep is not None:
            self._sweep.add(self)
        return self

    def _leave_sweep(self) -> None:
        if self._sweep is not None:
            self._sweep.discard(self)
        if self._sign is not None:
            self._sign.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._exchange.stop_watching()
        if self._sweep is not None:
            self._leave_sweep()
        if self._gone and isinstance(exc, asyncio.CancelledError) and self._task is not None:
            self._task.uncancel()
            raise ClientGone from exc

    def check_shut_down(self, exc: asyncio.CancelledError) -> None:
        """Whoever is cancelled although the client is there is told by ShutDown, and can still say so."""
        if not self._gone and self._task is not None:
            self._task.uncancel()
            raise ShutDown from exc

    def send(self, data: bytes) -> Awaitable[None]:
        """Not a coroutine of its own: every piece of every answer comes through here."""
        self._has_sent = True
        if self._sign is not None and not self._sign.done():
            return self._send_after(self._sign, data)
        return self._exchange.send_piece(data) if self._exchange.started else self._start_with(data)

    def is_ready(self) -> bool:
        """Whether the next piece can be sent at once: nothing stands before it, and nobody is waited for."""
        return (self._sign is None or self._sign.done()) and self._exchange.is_open()

    def hear(self, text: str) -> bool:
        """The client as the engine's listener: what is said is sent to it in the same breath."""
        sign, exchange = self._sign, self._exchange
        if (sign is not None and not sign.done()) or not exchange.is_open():
            return False
        if data := self.word(text):
            self._has_sent = True
            exchange.send_now(data)
        return True

    async def _send_after(self, sign: asyncio.Future[None], data: bytes) -> None:
        """A client that takes its time has not had the opening yet."""
        await asyncio.wait({sign})
        await self.send(data)

    async def _start_with(self, data: bytes) -> None:
        await self._exchange.start_stream(at_once=True)
        await self._exchange.send_piece(self._opening() + data)

    async def finish(self) -> None:
        self._leave_sweep()  # nothing comes after the end
        await self._start()
        await self._exchange.send_piece(b"", last=True)
        self._exchange.stop_watching()

    async def _start(self) -> None:
        if self._exchange.started:
            return
        await self._exchange.start_stream()
        if opening := self._opening():
            await self._exchange.send_piece(opening)

    def _opening(self) -> bytes:
        return b"" if self._encoder is None else self._encoder.opening()

    def look(self, now_s: float) -> None:
        assert self._encoder is not None
        if self._has_sent:
            self._has_sent, self._sent_s = False, now_s
        if self._sign is not None and not self._sign.done():
            return
        if not self._exchange.started:
            if now_s - self._sent_s >= HEADERS_S:
                self._sign_by(self._start())
        elif now_s - self._sent_s >= self._heartbeat_s:
            self._sent_s = now_s
            self._sign_by(self._exchange.send_piece(self._encoder.heartbeat))

    def _sign_by(self, work: Awaitable[None]) -> None:
        self._sign = asyncio.ensure_future(work)

    def _give_up(self) -> None:
        """Once: to cancel again would break off what closes the turn."""
        if not self._gone and self._task is not None:
            self._gone = True
            self._task.cancel()


async def while_there(exchange: Exchange, work: Awaitable[Result]) -> Result:
    """What comes of it, for a reply that is sent as a whole. A client that goes breaks it off."""
    with Watch(exchange, None) as watch:
        try:
            return await work
        except asyncio.CancelledError as exc:
            watch.check_shut_down(exc)
            raise
