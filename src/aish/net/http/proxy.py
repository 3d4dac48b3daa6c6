"""Makes requests through a proxy, with aiohttp. Imported only when a proxy is used, since aiohttp is slow to import.

Nothing here is tuned for speed: a request through a proxy is slow anyway.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING

import msgspec

from aish.errors import BadResponse, ConnectFailed, ConnectionLost, TooLarge, WireError
from aish.net.http.connection import explain_connect_error
from aish.net.http.deadlines import Phase, timeout_error
from aish.net.http.message import Headers, HttpBounds, Response, Target, Timeouts
from aish.net.http.pool import default_tls

try:
    import aiohttp
    from aiohttp.http_exceptions import LineTooLong
    from yarl import URL
except ImportError:  # reported when a request needs it, like any other failure to connect
    if not TYPE_CHECKING:
        aiohttp = None


class ProxyClient:
    """One aiohttp session, opened by the first request."""

    def __init__(self, bounds: HttpBounds, tls: ssl.SSLContext | None) -> None:
        self._bounds = bounds
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    def request(
        self,
        method: str,
        url: str,
        target: Target,
        proxy: str,
        headers: Sequence[tuple[str, str]],
        body: bytes,
        timeouts: Timeouts,
    ) -> AbstractAsyncContextManager[Response]:
        return _ProxiedCall(self, self._bounds, method, url, target, proxy, headers, body, timeouts)

    async def open_session(self, target: Target) -> aiohttp.ClientSession:
        if aiohttp is None:
            raise ConnectFailed(
                f"{target.origin}: a proxy is set, and the part of aish that speaks to proxies is not installed",
                hint="pip install 'aish-runtime[proxy]', or add the host to no_proxy.",
            )
        if self._tls is None:
            self._tls = await asyncio.to_thread(default_tls)
        if self._closed:
            raise ConnectFailed(f"{target.origin}: the client is closed")
        if self._session is None:
            self._session = self._new_session(self._tls)
        return self._session

    def _new_session(self, tls: ssl.SSLContext) -> aiohttp.ClientSession:
        bounds = self._bounds
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                ssl=tls,
                limit=0,
                limit_per_host=bounds.max_connections_per_origin,
                keepalive_timeout=bounds.idle_expiry_s,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            read_bufsize=bounds.high_water_bytes,
            max_line_size=bounds.max_header_bytes,
            max_field_size=bounds.max_header_bytes,
            skip_auto_headers=("user-agent", "accept", "content-type"),
        )

    async def aclose(self) -> None:
        self._closed = True
        if self._session is not None:
            await self._session.close()


class ProxiedResponse(Response):
    def __init__(
        self,
        target: Target,
        bounds: HttpBounds,
        timeouts: Timeouts,
        total_due_s: float | None,
        inner: aiohttp.ClientResponse,
    ) -> None:
        self._target = target
        self._bounds = bounds
        self.status = inner.status
        self.reason = inner.reason or ""
        self.headers = Headers([(name.lower(), value) for name, value in inner.raw_headers])
        self._timeouts = timeouts
        self._total_due_s = total_due_s
        self._inner = inner
        self._is_rest_optional = False

    async def next_piece(self) -> bytes:
        try:
            return await self._read()
        except WireError:
            if self._is_rest_optional:
                return b""
            raise

    async def _read(self) -> bytes:
        phase, due_s = _earlier("idle", self._timeouts.idle_s, self._total_due_s)
        try:
            async with asyncio.timeout_at(due_s):
                return await self._inner.content.readany()
        except TimeoutError as exc:
            self.close()
            raise timeout_error(self._target.origin, self._timeouts, phase) from exc
        except (aiohttp.ClientError, OSError) as exc:
            raise _translate(exc, self._target.origin, self._timeouts) from exc

    def limit_silence(self, seconds: float) -> None:
        self._timeouts = msgspec.structs.replace(self._timeouts, idle_s=seconds)

    def make_rest_optional(self, seconds: float) -> None:
        self._is_rest_optional = True
        due_s = asyncio.get_running_loop().time() + seconds
        self._total_due_s = due_s if self._total_due_s is None else min(self._total_due_s, due_s)

    def close(self) -> None:
        """Returns the connection to aiohttp's pool if the body has ended; otherwise closes it."""
        if self._inner.content.at_eof() and self._inner.content.exception() is None:
            self._inner.release()
        else:
            self._inner.close()


class _ProxiedCall(AbstractAsyncContextManager[Response]):
    def __init__(
        self,
        client: ProxyClient,
        bounds: HttpBounds,
        method: str,
        url: str,
        target: Target,
        proxy: str,
        headers: Sequence[tuple[str, str]],
        body: bytes,
        timeouts: Timeouts,
    ) -> None:
        self._client = client
        self._bounds = bounds
        self._method = method
        self._url = url
        self._target = target
        self._proxy = proxy
        self._headers = headers
        self._body = body
        self._timeouts = timeouts
        self._response: ProxiedResponse | None = None

    async def __aenter__(self) -> Response:
        session = await self._client.open_session(self._target)
        timeouts = self._timeouts
        now_s = asyncio.get_running_loop().time()
        total_due_s = None if timeouts.total_s is None else now_s + timeouts.total_s
        phase, due_s = _earlier("first_byte", timeouts.connect_s + timeouts.first_byte_s, total_due_s)
        try:
            async with asyncio.timeout_at(due_s):
                inner = await self._ask(session)
        except (TimeoutError, aiohttp.ServerTimeoutError) as exc:
            late: Phase = "connect" if isinstance(exc, aiohttp.ServerTimeoutError) else phase
            raise timeout_error(self._target.origin, timeouts, late) from exc
        except (aiohttp.ClientError, OSError, ValueError) as exc:
            raise _translate(exc, self._target.origin, timeouts) from exc
        self._response = ProxiedResponse(self._target, self._bounds, timeouts, total_due_s, inner)
        return self._response

    async def _ask(self, session: aiohttp.ClientSession) -> aiohttp.ClientResponse:
        return await session.request(
            self._method,
            URL(self._url, encoded=True),
            headers=[*self._headers, ("accept-encoding", "identity")],
            data=self._body or None,
            proxy=self._proxy,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=None, connect=self._timeouts.connect_s),
        )

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._response is not None:
            self._response.close()


def _earlier(phase: Phase, limit_s: float, total_due_s: float | None) -> tuple[Phase, float]:
    due_s = asyncio.get_running_loop().time() + limit_s
    if total_due_s is not None and total_due_s <= due_s:
        return "total", total_due_s
    return phase, due_s


def _translate(exc: Exception, origin: str, timeouts: Timeouts) -> WireError:
    """Translates an error of aiohttp. Its own messages may contain the URL or the proxy's password and are dropped."""
    if isinstance(exc, aiohttp.ClientConnectorCertificateError):
        return explain_connect_error(exc.certificate_error, origin)
    if isinstance(exc, aiohttp.ClientHttpProxyError):
        return ConnectFailed(
            f"{origin}: the proxy refused with status {exc.status}", hint="Check the proxy's settings."
        )
    if isinstance(exc, aiohttp.ClientConnectorError):
        return explain_connect_error(exc.os_error, f"{origin} through a proxy")
    if isinstance(exc, aiohttp.ServerTimeoutError):
        return timeout_error(origin, timeouts, "idle")
    if _is_line_too_long(exc):
        return TooLarge(f"{origin}: the headers are too large")
    if isinstance(exc, aiohttp.ClientResponseError):
        return BadResponse(f"{origin}: the answer that came through the proxy is not HTTP")
    if isinstance(exc, aiohttp.InvalidURL | ValueError):
        return ConnectFailed(f"{origin}: the proxy's address makes no sense", hint="Check the proxy's settings.")
    return ConnectionLost(f"{origin}: the connection through the proxy was closed in the middle")


def _is_line_too_long(exc: BaseException | None) -> bool:
    while exc is not None and not isinstance(exc, LineTooLong):
        exc = exc.__cause__
    return exc is not None
