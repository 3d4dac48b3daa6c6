"""The HTTP/1.1 client: `async with client.request(...) as response`.

Leaving that context before the body has ended closes the connection at once, and that is how an upstream request is
cancelled; leaving it after the end keeps the connection for the next request. Redirects are answers like any other.
All failures are WireErrors that name the origin, never the query or a header. A request that makes no sense is a
UsageError.

Written for streams of small pieces from few origins. Behind a proxy it hands over to aiohttp (see `http_proxy`).
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Self

from aish.errors import ConnectFailed
from aish.net.http.exchange import Exchange
from aish.net.http.message import HeaderItems, Headers, HttpBounds, Response, Timeouts, finish_head, prepare_head
from aish.net.http.pool import Pool
from aish.net.http.target import ProxySettings, find_proxy, parse_url

if TYPE_CHECKING:
    from aish.net.http.proxy import ProxyClient

__all__ = ["Headers", "HttpBounds", "HttpClient", "ProxySettings", "Response", "Timeouts"]

_DEFAULT_BOUNDS = HttpBounds()
_DEFAULT_TIMEOUTS = Timeouts()


class HttpClient:
    """Keeps connections between requests, so there is one for many requests, on one event loop, closed by its owner."""

    def __init__(
        self,
        *,
        bounds: HttpBounds = _DEFAULT_BOUNDS,
        proxies: ProxySettings | None = None,
        ssl_context: ssl.SSLContext | None = None,
        reaches: Callable[[str], bool] | None = None,
    ) -> None:
        """`reaches` says of an address whether it may be connected to; None: all may. It is asked about what a name
        leads to, and that is then connected to. Behind a proxy it is not asked."""
        self._bounds = bounds
        self._proxies = proxies
        self._tls = ssl_context
        self._pool = Pool(bounds, ssl_context, reaches)
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
        """Entering sends the request and waits for the head of the answer."""
        target = parse_url(url)
        if self._closed:
            raise ConnectFailed(f"{target.origin}: the client is closed")
        pairs = headers if isinstance(headers, tuple) else _pairs(headers)
        method, head = prepare_head(method, target, pairs)
        if (proxy := find_proxy(target, self._proxies)) is not None:
            return self._proxy_client().request(method, url, target, proxy, pairs, body, timeouts)
        head = finish_head(method, head, len(body))
        return Exchange(self._pool, self._bounds, target, method, head, body, timeouts)

    async def aclose(self) -> None:
        """Close every connection; answers still open end with ConnectionLost. Idempotent."""
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
            from aish.net.http.proxy import ProxyClient  # few need it

            self._through_proxy = ProxyClient(self._bounds, self._tls)
        return self._through_proxy


def _pairs(headers: HeaderItems) -> tuple[tuple[str, str], ...]:
    return tuple(headers.items()) if isinstance(headers, Mapping) else tuple(headers)
