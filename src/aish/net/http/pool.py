"""Keeps connections for reuse, and limits their number per origin.

A slot is a connection that is open or being opened. Every acquired connection must be released; a freed slot goes to
the caller that has waited longest. A connection that is lost or expires while idle is removed at once. A pool belongs
to one event loop.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from functools import cached_property

from aish.errors import ConnectFailed, ConnectionLost
from aish.net.event_loop import DeadlineTimer, get_deadline_timer
from aish.net.http.connection import Connection, open_connection
from aish.net.http.deadlines import Watchdog
from aish.net.http.message import HttpBounds, Target

_CLOSE_S = 2.0  # an aborted transport is gone within an iteration of the loop; more means that the loop itself is stuck


class _Origin:
    __slots__ = ("idle", "slots", "waiters")

    def __init__(self) -> None:
        self.idle: list[Connection] = []  # the most recently used is reused first, so that the others can expire
        self.slots = 0
        self.waiters: deque[asyncio.Future[Connection | None]] = deque()


class Pool:
    def __init__(
        self, bounds: HttpBounds, tls: ssl.SSLContext | None, may_reach: Callable[[str], bool] | None = None
    ) -> None:
        self._bounds = bounds
        self._tls = tls
        self._may_reach = may_reach
        self._origins: dict[str, _Origin] = {}
        self._alive: set[Connection] = set()
        self._expiry_timer: asyncio.TimerHandle | None = None
        self._is_empty: asyncio.Future[None] | None = None
        self._closed = False

    @cached_property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that the pool belongs to. Cached, since asking for the running loop takes a system call."""
        return asyncio.get_running_loop()

    @cached_property
    def deadlines(self) -> DeadlineTimer:
        return get_deadline_timer(self.loop)

    def find_idle(self, target: Target) -> Connection | None:
        """Takes an idle connection, if there is one."""
        origin = self._origins.get(target.origin)
        while origin is not None and origin.idle:
            connection = origin.idle.pop()
            if connection.usable:
                return connection
            origin.slots -= 1  # the peer has closed it, and the loop has not reported that yet
        return None

    async def acquire(self, target: Target, watch: Watchdog) -> Connection:
        """Opens a connection, or waits for one that another exchange releases."""
        if self._closed:
            raise self._closed_error(target)
        origin = self._origins.get(target.origin) or self._origins.setdefault(target.origin, _Origin())
        try:
            async with asyncio.timeout_at(watch.connect_due()):
                return await self._acquire(origin, target)
        except TimeoutError as exc:
            raise watch.connect_error() from exc

    def release(self, connection: Connection, *, reusable: bool) -> None:
        """Takes back a connection of `find_idle` or `acquire`. Closes it if it is not reusable."""
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
        if self._expiry_timer is None:
            self._expiry_timer = self.loop.call_later(self._bounds.idle_expiry_s, self._close_expired)

    async def aclose(self) -> None:
        self._closed = True
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
        for name, origin in self._origins.items():
            while (waiter := _next_waiter(origin)) is not None:
                waiter.set_exception(ConnectFailed(f"{name}: the client was closed"))
        for connection in list(self._alive):
            if connection.borrower is not None:
                name = connection.target.origin
                connection.borrower.fail(ConnectionLost(f"{name}: the client was closed in the middle of an answer"))
            connection.abort()
        if self._alive:
            self._is_empty = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._is_empty], timeout=_CLOSE_S)

    async def _acquire(self, origin: _Origin, target: Target) -> Connection:
        if origin.slots < self._bounds.max_connections_per_origin:
            origin.slots += 1
        elif origin.idle:
            origin.idle.pop(0).abort()  # takes over its slot
        else:
            connection = await self._wait_for_slot(origin, target)
            if connection is not None:
                return connection
        try:
            connection = await open_connection(
                target, self._bounds.max_header_bytes, self._handle_lost, await self._find_tls(target), self._may_reach
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
        """A connection that another exchange released, or None for the slot of one that was closed."""
        waiter: asyncio.Future[Connection | None] = asyncio.get_running_loop().create_future()
        origin.waiters.append(waiter)
        try:
            return await waiter
        except BaseException:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._return(waiter.result(), target, origin)
            raise

    def _return(self, granted: Connection | None, target: Target, origin: _Origin) -> None:
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

    def _close_expired(self) -> None:
        """Closes connections that were idle for too long, and sets the timer for the next one."""
        loop = asyncio.get_running_loop()
        expired_s = loop.time() - self._bounds.idle_expiry_s
        idle = [connection for origin in self._origins.values() for connection in origin.idle]
        for connection in idle:
            if connection.idle_since_s <= expired_s:
                self._drop_idle(connection)
                connection.abort()
        left = [connection.idle_since_s for connection in idle if connection.usable]
        due_s = min(left) + self._bounds.idle_expiry_s if left else None
        self._expiry_timer = loop.call_at(due_s, self._close_expired) if due_s is not None else None

    def _handle_lost(self, connection: Connection) -> None:
        self._alive.discard(connection)
        self._drop_idle(connection)
        if self._is_empty is not None and not self._alive and not self._is_empty.done():
            self._is_empty.set_result(None)

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
