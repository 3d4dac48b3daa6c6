"""Waits for a response while the client is connected. Progress notes turn the reply into an event stream."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import Any

from aish.frontends.asgi import Exchange

_PING_S = 15.0  # proxies drop a stream that is silent for a minute or so
_END_S = 15.0  # more than the engine gives a tool that is cancelled
_MAX_NOTES = 256  # for a client that does not read; more are dropped


class Relay:
    def __init__(self, exchange: Exchange, *, ping_s: float = _PING_S) -> None:
        self._exchange = exchange
        self._ping_s = ping_s
        self._notes: deque[bytes] = deque()
        self._news = asyncio.Event()
        self.streaming = False

    def note(self, message: bytes) -> None:
        if self._exchange.takes_stream and len(self._notes) < _MAX_NOTES:
            self._notes.append(message)
            self._news.set()

    async def run(self, work: asyncio.Future[Any]) -> bool:
        """Waits until `work` is done. Returns False if the client has gone; `work` is then cancelled."""
        gone = asyncio.ensure_future(self._exchange.gone())
        for future in (work, gone):
            future.add_done_callback(lambda _: self._news.set())
        try:
            while not gone.done():
                finished = work.done()
                await self._send_notes()
                if finished:
                    return True
                await self._wait()
            return False
        finally:
            for future in (work, gone):
                future.cancel()
            await asyncio.wait({work, gone}, timeout=_END_S)

    async def finish(self, message: bytes) -> None:
        """Ends the stream, with a last event unless the message is empty."""
        await self._exchange.send_piece(_event(message) if message else b"", last=True)

    async def _send_notes(self) -> None:
        self._news.clear()
        while self._notes:
            if not self.streaming:
                self.streaming = True
                await self._exchange.start_stream()
            await self._exchange.send_piece(_event(self._notes.popleft()))

    async def _wait(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._ping_s):
                await self._news.wait()
                return
        if self.streaming:
            await self._exchange.send_piece(b": ping\n\n")


def _event(message: bytes) -> bytes:
    return b"event: message\ndata: " + message + b"\n\n"
