"""The HTTP/1.1 client: `async with client.request(...) as response`.

Leaving the context before the body has ended closes the connection at once: that cancels an upstream request. Leaving
it after the end keeps the connection for the next request. Redirects are not followed. All failures are WireErrors that
name the origin, never the query or a header. An invalid request raises UsageError.

Bytes are parsed in the callback of the protocol, and the one waiter is woken by a future, without a task or a queue in
between. A piece that a direct consumer takes in the callback itself does not even wake the waiter.

Designed for streams of small pieces from few origins. Requests through a proxy are made with aiohttp (`proxy`).
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self

from aish.errors import ConnectFailed, ConnectionLost, UsageError, WireError
from aish.net.http.connection import Connection, ResponseParser
from aish.net.http.deadlines import Watchdog
from aish.net.http.message import (
    HeaderItems,
    Headers,
    HttpBounds,
    ProxySettings,
    Response,
    Target,
    Timeouts,
    find_proxy,
    finish_head,
    parse_url,
    prepare_head,
)
from aish.net.http.pool import Pool

if TYPE_CHECKING:
    from aish.net.http.proxy import ProxyClient

__all__ = ["Headers", "HttpBounds", "HttpClient", "ProxySettings", "Response", "Timeouts"]

_DEFAULT_BOUNDS = HttpBounds()
_DEFAULT_TIMEOUTS = Timeouts()
_SLICE_BYTES = 64 * 1024  # asyncio's own write high-water mark: more at once would only be copied into its buffer


class HttpClient:
    """Keeps connections between requests. Use one client for many requests, on one event loop, and close it at the
    end."""

    def __init__(
        self,
        *,
        bounds: HttpBounds = _DEFAULT_BOUNDS,
        proxies: ProxySettings | None = None,
        ssl_context: ssl.SSLContext | None = None,
        may_reach: Callable[[str], bool] | None = None,
    ) -> None:
        """`may_reach` decides whether an address may be connected to; None allows all. It is called with the addresses
        that a host name resolves to, and not for requests through a proxy."""
        self._bounds = bounds
        self._proxies = proxies
        self._tls = ssl_context
        self._pool = Pool(bounds, ssl_context, may_reach)
        self._through_proxy: ProxyClient | None = None
        self._closed = False

    def request(
        self,
        method: str,
        url: str,
        *,
        headers: HeaderItems = (),
        body: bytes = b"",
        timeouts: Timeouts = _DEFAULT_TIMEOUTS,
    ) -> AbstractAsyncContextManager[Response]:
        """Entering the context sends the request and waits for the head of the response."""
        target = parse_url(url)
        if self._closed:
            raise ConnectFailed(f"{target.origin}: the client is closed")
        pairs = headers if isinstance(headers, tuple) else _pairs(headers)
        method, head = prepare_head(method, target, pairs)
        if self._proxies is not None and (proxy := find_proxy(target, self._proxies)) is not None:
            return self._proxy_client().request(method, url, target, proxy, pairs, body, timeouts)
        head = finish_head(method, head, len(body))
        return ClientExchange(self._pool, self._bounds, target, method, head, body, timeouts)

    async def aclose(self) -> None:
        """Closes every connection; responses that are still open end with ConnectionLost. Idempotent."""
        self._closed = True
        await self._pool.aclose()
        if self._through_proxy is not None:
            await self._through_proxy.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _proxy_client(self) -> ProxyClient:
        if self._through_proxy is None:
            from aish.net.http.proxy import ProxyClient  # slow to import

            self._through_proxy = ProxyClient(self._bounds, self._tls)
        return self._through_proxy


def _pairs(headers: HeaderItems) -> tuple[tuple[str, str], ...]:
    return tuple(headers.items()) if isinstance(headers, Mapping) else tuple(headers)


class ClientExchange(Response):
    """One request and its response: takes a connection, sends, waits, buffers what has arrived, hands out the body.

    Entering returns it as the response once the head has arrived; leaving ends it.
    """

    # Set on entering, and again for a second attempt.
    _watch: Watchdog
    _loop: asyncio.AbstractEventLoop
    _connection: Connection
    _parser: ResponseParser

    def __init__(
        self,
        pool: Pool,
        bounds: HttpBounds,
        target: Target,
        method: str,
        head: bytes,
        body: bytes,
        timeouts: Timeouts,
    ) -> None:
        self._pool = pool
        self._bounds = bounds
        self._target = target
        self._method = method
        self._head = head
        self._body = body
        self._timeouts = timeouts
        self._flush_count_at_put = -1  # of the batcher, when the request was put there
        self._has_received = False  # any byte of the response
        self._complete = False  # the whole response has arrived
        self._is_rest_optional = False
        self._waiter: asyncio.Future[bytes] | None = None  # gets the next piece, or b"" if something else happened
        self._take: Callable[[bytes], bool] | None = None  # the direct consumer, which is offered a piece first
        self._raised: Exception | None = None  # by the direct consumer
        self._error: WireError | None = None
        self._sent = False
        self._pieces: deque[bytes] = deque()
        self._buffered_bytes = 0
        self._paused = False

    @property
    def waiting(self) -> bool:
        return self._waiter is not None and not self._waiter.done()

    @property
    def at_end(self) -> bool:
        return self._complete and not self._pieces and self._error is None

    # Called by the caller of the client.

    async def __aenter__(self) -> Response:
        pool, target = self._pool, self._target
        self._loop = pool.loop
        self._watch = watch = Watchdog(pool.loop, pool.deadlines, self._timeouts, target.origin)
        connection = pool.find_idle(target) or await pool.acquire(target, watch)
        reused = connection.reused
        try:
            return await self._ask(connection)
        except ConnectionLost:
            # The peer may close an idle connection just as we use it, so the request is tried once on a new one.
            if not reused or self._has_received:
                raise
        return await self._ask(await pool.acquire(target, watch))

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    async def _ask(self, connection: Connection) -> Response:
        self._connection, self._error, self._sent = connection, None, False
        self._parser = parser = connection.parser
        try:
            connection.lend(self, head_only=self._method == "HEAD")
            if len(self._body) <= _SLICE_BYTES:
                self._watch.watch(self, "first_byte")
                self._flush_count_at_put = connection.batcher.flush_count
                connection.write_batched(self._head + self._body)
                self._sent = True
            else:
                await self._send_slices(memoryview(self._body))
            while not parser.has_head:
                if self._error is not None:
                    raise self._error
                self._waiter = self._loop.create_future()
                self._put_back(await self._waiter)
        except BaseException:
            self._leave()
            raise
        self.status, self.reason, self.headers = parser.status, parser.reason, parser.headers
        if self._complete:  # the caller may take any time to read it
            self._watch.stop()
        else:
            self._watch.start_phase("idle")
        return self

    async def _send_slices(self, body: memoryview) -> None:
        """Sends the body as fast as the peer takes it. Stops if the response begins before its end."""
        connection = self._connection
        self._watch.watch(self, "send")
        connection.write(self._head)
        for start in range(0, len(body), _SLICE_BYTES):
            connection.write(body[start : start + _SLICE_BYTES])
            while connection.write_paused and not self._has_response():
                self._waiter = self._loop.create_future()
                self._put_back(await self._waiter)
            if self._has_response():
                return
        self._sent = True
        self._watch.start_phase("first_byte")

    def _has_response(self) -> bool:
        return self._parser.has_head or self._error is not None

    async def next_piece(self) -> bytes:
        while not self._pieces:
            if self._raised is not None:
                self._reraise()
            if self._error is not None:
                if self._is_rest_optional:
                    return b""
                raise self._error
            if self._complete:
                return b""
            if self._waiter is not None:
                raise UsageError("two tasks read one answer at the same time")
            self._watch.stamp = self._loop.time()
            waiter: asyncio.Future[bytes] = self._loop.create_future()
            self._waiter = waiter
            try:
                if piece := await waiter:
                    return piece
            except asyncio.CancelledError:
                if self._waiter is waiter:
                    self._waiter = None
                if not waiter.cancelled():  # the piece has already been delivered: it stays for the next read
                    self._put_back(waiter.result())
                raise
        piece = self._pieces.popleft()
        self._buffered_bytes -= len(piece)
        if self._paused and self._buffered_bytes <= self._bounds.high_water_bytes // 2:
            self._paused = False
            self._connection.resume_reading()
        return piece

    def offer_to(self, take: Callable[[bytes], bool]) -> None:
        self._take = take

    def limit_silence(self, seconds: float) -> None:
        if not self._complete:
            self._watch.limit_silence(seconds)

    def make_rest_optional(self, seconds: float) -> None:
        if not self._complete:
            self._is_rest_optional = True
            self._watch.limit_rest(seconds)

    def _leave(self) -> None:
        """Ends the exchange in any state, and returns the connection to the pool."""
        self._watch.stop()
        self._take = self._raised = None  # they refer back to this object
        if self._paused:
            self._paused = False
            self._connection.resume_reading()
        if not self._complete:
            # A new error, since the traceback of the raised one refers back to this object.
            self._error = ConnectionLost(f"{self._target.origin}: the answer was left before its end")
        reusable = self._complete and self._sent and self._parser.keep_alive
        self._pool.release(self._connection, reusable=reusable)

    def _reraise(self) -> NoReturn:
        """Raises what the direct consumer raised."""
        raised, self._raised = self._raised, None
        try:
            assert raised is not None
            raise raised
        finally:
            raised = None  # breaks the reference cycle

    def _put_back(self, piece: bytes) -> None:
        """Returns a piece to the front of the buffer."""
        if piece:
            self._pieces.appendleft(piece)
            self._buffered_bytes += len(piece)

    # Called by the connection.

    def feed(self, data: bytes) -> None:
        if not self._has_received:
            if self._flush_count_at_put == self._connection.batcher.flush_count:
                self.fail(ConnectionLost(f"{self._target.origin}: it answers before it is asked"))
                return
            self._has_received = True
        parser = self._parser
        piece = parser.feed(data)
        self._complete = parser.complete
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            try:
                if self._take is None or not piece or self._complete or not self._take(piece):
                    self._deliver(piece, waiter)
                else:
                    self._watch.has_received = True
            except Exception as exc:  # raised where the caller reads, and not in the event loop
                self._raised = exc
                self._deliver(b"", waiter)
        elif piece:
            self._buffer(piece)
        if parser.error is not None:
            self.fail(parser.error)

    def _deliver(self, piece: bytes, waiter: asyncio.Future[bytes]) -> None:
        self._waiter = None
        waiter.set_result(piece)

    def _buffer(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._buffered_bytes += len(piece)
        if self._buffered_bytes > self._bounds.high_water_bytes and not self._paused:
            self._paused = True
            self._connection.pause_reading()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(b"")

    def write_resumed(self) -> None:
        self._watch.stamp = self._loop.time()
        self._wake()

    def fail(self, error: WireError) -> None:
        """Ends the response: what has arrived can still be read, then `error` is raised."""
        if self._error is None and not self._complete:
            self._error = error
        self._connection.abort()
        self._wake()

    def handle_closed(self, cause: Exception | None) -> None:
        if cause is None:
            self._parser.end()
            self._complete = self._parser.complete
        if not self._complete and self._error is None:
            when = "in the middle of its answer" if self._has_received else "before it answered"
            self._error = ConnectionLost(f"{self._target.origin}: the connection was closed {when}")
            self._error.__cause__ = cause
        self._wake()
