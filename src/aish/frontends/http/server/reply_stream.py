"""Writes a reply piece by piece, keeps a silent one alive, and ends the work when the client has gone.

When the client goes away, the task of the request is cancelled. (A client that stops reading is disconnected by its
connection.) A silent stream gets a heartbeat. Headers wait briefly for the first data, so an early failure can be
answered with its own status; not longer, because clients time the wait for headers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Protocol, TypeVar

from aish.frontends.asgi import Exchange
from aish.frontends.http.server.http_errors import ShutDown
from aish.net.event_loop import PERIOD_S, DeadlineTimer, get_deadline_timer

# How long the headers wait for the first data: a second, less the period of the timer that checks it.
HEADERS_S = 1.0 - PERIOD_S


Result = TypeVar("Result")


class Encoder(Protocol):
    @property
    def heartbeat(self) -> bytes: ...

    def opening(self) -> bytes:
        """The beginning of the stream, before any event."""


class ClientDisconnected(Exception):
    """The client went away."""


class ReplyStream:
    """A context around the work on one reply. `encoder` None: no opening and no heartbeats, as for a reply that is sent
    as a whole at the end, or for a download.

    `encode_word` encodes one word of text, where the engine may pass words directly.
    """

    def __init__(
        self,
        exchange: Exchange,
        encoder: Encoder | None,
        *,
        heartbeat_s: float = 0.0,
        encode_word: Callable[[str], bytes] | None = None,
    ) -> None:
        self._exchange = exchange
        self._encoder = encoder
        self._encode_word = encode_word
        self._heartbeat_s = heartbeat_s
        self._deadlines: DeadlineTimer | None = None
        self._is_gone = self._has_finished = False
        self._pending: asyncio.Future[None] | None = None  # a heartbeat or the headers, being sent
        self._has_sent = False  # since the last tick: saves asking for the time with each piece

    def __enter__(self) -> ReplyStream:
        self._task = asyncio.current_task()
        self._exchange.when_gone(self._cancel_turn)
        if self._encoder is not None:
            loop = asyncio.get_running_loop()
            self._sent_s = loop.time()
            self._deadlines = get_deadline_timer(loop)
            self._deadlines.add(self)
        return self

    def _stop_deadlines(self) -> None:
        if self._deadlines is not None:
            self._deadlines.discard(self)
        if self._pending is not None:
            self._pending.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._has_finished:
            self._exchange.stop_watching()
            if self._deadlines is not None:
                self._stop_deadlines()
        if self._is_gone and isinstance(exc, asyncio.CancelledError) and self._task is not None:
            self._task.uncancel()
            raise ClientDisconnected from exc

    def check_shut_down(self, exc: asyncio.CancelledError) -> None:
        """Raises ShutDown if the task was cancelled although the client is there. The client can still be told."""
        if not self._is_gone and self._task is not None:
            self._task.uncancel()
            raise ShutDown from exc

    def send(self, data: bytes) -> Awaitable[None]:
        """Not a coroutine of its own, because every piece of every reply comes through here."""
        self._has_sent = True
        if self._pending is not None and not self._pending.done():
            return self._send_after(self._pending, data)
        return self._exchange.send_piece(data) if self._exchange.started else self._start_with(data)

    def is_open(self) -> bool:
        """Whether the next piece would be written at once."""
        return (self._pending is None or self._pending.done()) and self._exchange.is_open()

    def write(self, text: str) -> None:
        """Writes a word of the model to the client at once, as the engine's text sink."""
        assert self._encode_word is not None
        if data := self._encode_word(text):
            self._has_sent = True
            self._exchange.send_now(data)

    async def _send_after(self, pending: asyncio.Future[None], data: bytes) -> None:
        """For a slow client, which has not taken the opening yet."""
        await asyncio.wait({pending})
        await self.send(data)

    async def _start_with(self, data: bytes) -> None:
        await self._exchange.start_stream(at_once=True)
        await self._exchange.send_piece(self._opening() + data)

    async def finish(self) -> None:
        self._stop_deadlines()  # nothing comes after the end
        await self._start()
        await self._exchange.send_piece(b"", last=True)
        self._exchange.stop_watching()
        self._has_finished = True

    async def _start(self) -> None:
        if self._exchange.started:
            return
        await self._exchange.start_stream()
        if opening := self._opening():
            await self._exchange.send_piece(opening)

    def _opening(self) -> bytes:
        return b"" if self._encoder is None else self._encoder.opening()

    def check_deadlines(self, now_s: float) -> None:
        assert self._encoder is not None
        if self._has_sent:
            self._has_sent, self._sent_s = False, now_s
        if self._pending is not None and not self._pending.done():
            return
        if not self._exchange.started:
            if now_s - self._sent_s >= HEADERS_S:
                self._send_in_background(self._start())
        elif now_s - self._sent_s >= self._heartbeat_s:
            self._sent_s = now_s
            self._send_in_background(self._exchange.send_piece(self._encoder.heartbeat))

    def _send_in_background(self, work: Awaitable[None]) -> None:
        self._pending = asyncio.ensure_future(work)

    def _cancel_turn(self) -> None:
        """Cancels once only: a second cancel would break off the closing of the turn."""
        if not self._is_gone and self._task is not None:
            self._is_gone = True
            self._task.cancel()


async def run_while_connected(exchange: Exchange, work: Awaitable[Result]) -> Result:
    """Awaits the work for a reply that is sent as a whole, and cancels it when the client goes away."""
    with ReplyStream(exchange, None) as reply_stream:
        try:
            return await work
        except asyncio.CancelledError as exc:
            reply_stream.check_shut_down(exc)
            raise
