"""Connections kept for reuse, counted per origin.

A slot is a connection open or being opened. Whoever is given one releases it, always; a freed slot goes to the longest
waiting caller. A connection that dies or expires while idle leaves at once. Belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from functools import cached_property

from aish.errors import ConnectFailed, ConnectionLost
from aish.net.deadlines import Sweep, sweep_of
from aish.net.http.connection import Connection, open_connection
from aish.net.http.deadlines import Watchdog
from aish.net.http.message import HttpBounds
from aish.net.http.target import Target

_CLOSE_S = 2.0  # an aborted transport is gone within an iteration of the loop; more means that the loop itself is stuck


class _Origin:
    __slots__ = ("idle", "slots", "waiters")

    def __init__(self) -> None:
        self.idle: list[Connection] = []  # the last used is the first reused, so that the others can expire
        self.slots = 0
        self.waiters: deque[asyncio.Future[Connection | None]] = deque()


class Pool:
    def __init__(
        self, bounds: HttpBounds, tls: ssl.SSLContext | None, reaches: Callable[[str], bool] | None = None
    ) -> None:
        self._bounds = bounds
        self._tls = tls
        self._reaches = reaches
        self._origins: dict[str, _Origin] = {}
        self._alive: set[Connection] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._emptied: asyncio.Future[None] | None = None
        self._closed = False

    @cached_property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The one it belongs to. Kept: to ask for it takes a system call, each time."""
        return asyncio.get_running_loop()

    @cached_property
    def sweep(self) -> Sweep:
        return sweep_of(self.loop)

    def find_idle(self, target: Target) -> Connection | None:
        """One that was used before, for one exchange."""
        origin = self._origins.get(target.origin)
        while origin is not None and origin.idle:
            connection = origin.idle.pop()
            if connection.usable:
                return connection
            origin.slots -= 1  # the peer closed it, and the loop has not come round to telling us
        return None

    async def obtain(self, target: Target, watch: Watchdog) -> Connection:
        """One that is not idle now: new, or handed over by whoever has it."""
        if self._closed:
            raise self._closed_error(target)
        origin = self._origins.get(target.origin) or self._origins.setdefault(target.origin, _Origin())
        try:
            async with asyncio.timeout_at(watch.connect_due()):
                return await self._obtain(origin, target)
        except TimeoutError as exc:
            raise watch.connect_error() from exc

    def release(self, connection: Connection, *, reusable: bool) -> None:
        """Take back what `find_idle` or `obtain` gave. What cannot be used again is closed now."""
        connection.borrower = None
        origin = self._origins[connection.target.origin]
        if not (reusable and connection.usable) or self._closed:
            connection.abort()
            self._free_slot(connection.target, origin)
            return
        connection.reused = True
        if origin.waiters and (waiter := _next_waiter(origin)) is not None:
            waiter.set_result(connection)
            return
        connection.idle_since_s = self.loop.time()
        origin.idle.append(connection)
        if self._sweeper is None:
            self._sweeper = self.loop.call_later(self._bounds.idle_expiry_s, self._sweep)

    async def aclose(self) -> None:
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        for name, origin in self._origins.items():
            while (waiter := _next_waiter(origin)) is not None:
                waiter.set_exception(ConnectFailed(f"{name}: the client was closed"))
        for connection in list(self._alive):
            if connection.borrower is not None:
                name = connection.target.origin
                connection.borrower.fail(ConnectionLost(f"{name}: the client was closed in the middle of an answer"))
            connection.abort()
        if self._alive:
            self._emptied = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._emptied], timeout=_CLOSE_S)

    async def _obtain(self, origin: _Origin, target: Target) -> Connection:
        if origin.slots < self._bounds.max_connections_per_origin:
            origin.slots += 1
        elif origin.idle:
            origin.idle.pop(0).abort()  # its slot becomes ours
        else:
            connection = await self._wait_for_slot(origin, target)
            if connection is not None:
                return connection
        try:
            connection = await open_connection(
                target, self._bounds.max_header_bytes, self._lost, await self._find_tls(target), self._reaches
            )
        except BaseException:
            self._free_slot(target, origin)
            raise
        if not connection.lost:
            self._alive.add(connection)
        if self._closed:
            self.release(connection, reusable=False)
            raise self._closed_error(target)
        return connection

    async def _wait_for_slot(self, origin: _Origin, target: Target) -> Connection | None:
        """Somebody's connection, or None for the slot of one that was closed."""
        waiter: asyncio.Future[Connection | None] = asyncio.get_running_loop().create_future()
        origin.waiters.append(waiter)
        try:
            return await waiter
        except BaseException:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._give_back(waiter.result(), target, origin)
            raise

    def _give_back(self, granted: Connection | None, target: Target, origin: _Origin) -> None:
        if granted is None:
            self._free_slot(target, origin)
        else:
            self.release(granted, reusable=True)

    def _free_slot(self, target: Target, origin: _Origin) -> None:
        waiter = _next_waiter(origin)
        if waiter is not None:
            waiter.set_result(None)
            return
        origin.slots -= 1
        if origin.slots == 0:
            self._origins.pop(target.origin, None)

    def _sweep(self) -> None:
        """Close what has been idle for too long; come again when the next one will have been."""
        loop = asyncio.get_running_loop()
        expired_s = loop.time() - self._bounds.idle_expiry_s
        idle = [connection for origin in self._origins.values() for connection in origin.idle]
        for connection in idle:
            if connection.idle_since_s <= expired_s:
                self._drop_idle(connection)
                connection.abort()
        left = [connection.idle_since_s for connection in idle if connection.usable]
        due_s = min(left) + self._bounds.idle_expiry_s if left else None
        self._sweeper = loop.call_at(due_s, self._sweep) if due_s is not None else None

    def _lost(self, connection: Connection) -> None:
        self._alive.discard(connection)
        self._drop_idle(connection)
        if self._emptied is not None and not self._alive and not self._emptied.done():
            self._emptied.set_result(None)

    def _drop_idle(self, connection: Connection) -> None:
        origin = self._origins.get(connection.target.origin)
        if origin is not None and connection in origin.idle:
            origin.idle.remove(connection)
            self._free_slot(connection.target, origin)

    async def _find_tls(self, target: Target) -> ssl.SSLContext | None:
        if target.scheme != "https":
            return None
        if self._tls is None:
            self._tls = await asyncio.to_thread(default_tls)  # reads the system's certificates
        return self._tls

    def _closed_error(self, target: Target) -> ConnectFailed:
        return ConnectFailed(f"{target.origin}: the client is closed")


def default_tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def _next_waiter(origin: _Origin) -> asyncio.Future[Connection | None] | None:
    while origin.waiters:
        waiter = origin.waiters.popleft()
        if not waiter.done():
            return waiter
    return None
