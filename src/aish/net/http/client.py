"""The HTTP/1.1 client: `async with client.request(...) as response`.

Leaving the context before the body has ended closes the connection at once: that cancels an upstream request. Leaving
it after the end keeps the connection for the next request. Redirects are not followed. All failures are WireErrors that
name the origin, never the query or a header. An invalid request raises UsageError.

Designed for streams of small pieces from few origins. Requests through a proxy are made with aiohttp (`proxy`).
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Self

from aish.errors import ConnectFailed
from aish.net.http.exchange import ClientExchange
from aish.net.http.message import (
    HeaderItems,
    Headers,
    HttpBounds,
    ProxySettings,
    Response,
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
        if (proxy := find_proxy(target, self._proxies)) is not None:
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
