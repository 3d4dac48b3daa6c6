"""Opens a connection to an origin, passes bytes between its transport and the exchange that uses it, and parses them.

Life of a connection: opened by the pool, lent to one exchange after another, idle in between, aborted or lost once.
Never reopened.

httptools does the grammar and the framing of responses. Added here: skipping 1xx heads, the end of a body without
framing, HEAD requests (no body), and the bound on everything that is not body.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Protocol, cast

import httptools

from aish.errors import BadResponse, ConnectFailed, TooLarge, WireError, WireTimeout
from aish.net.event_loop import WriteBatcher, get_write_batcher, limit_read_size
from aish.net.http.message import NO_HEADERS, Headers, Target

_NO_ANSWER = (errno.EHOSTUNREACH, errno.ETIMEDOUT)
_WRONG_PORT = "Is this the right port, and is it http rather than https?"


class Borrower(Protocol):
    """The exchange that uses a connection, as the connection and its pool see it."""

    def feed(self, data: bytes) -> None: ...

    def write_resumed(self) -> None: ...

    def handle_closed(self, cause: Exception | None) -> None:
        """The connection was closed: in an orderly way, or because of `cause`."""

    def fail(self, error: WireError) -> None: ...


class Connection(asyncio.Protocol):
    """`on_lost` is called once, when the transport is gone for good."""

    # Set while there is a transport.
    parser: ResponseParser
    batcher: WriteBatcher
    write_batched: Callable[[bytes], None]

    def __init__(self, target: Target, max_header_bytes: int, on_lost: Callable[[Connection], None]) -> None:
        self.target = target
        self.borrower: Borrower | None = None
        self.reused = False
        self.write_paused = False
        self.idle_since_s = 0.0
        self._transport: asyncio.Transport | None = None
        self._max_header_bytes = max_header_bytes
        self._on_lost = on_lost

    @property
    def lost(self) -> bool:
        return self._transport is None

    @property
    def usable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def lend(self, borrower: Borrower, *, head_only: bool) -> None:
        """Gives the connection to an exchange, which is told if it was lost while it was handed over."""
        self.parser.begin(head_only=head_only)
        self.borrower = borrower
        if not self.usable:
            borrower.handle_closed(None)

    def write(self, data: bytes | memoryview) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def pause_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def abort(self) -> None:
        """Closes at once, without writing what is still buffered."""
        if self._transport is not None:
            self._transport.abort()

    # Called by the transport. TCP_NODELAY is already on: every event loop sets it for TCP.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.parser = ResponseParser(self.target.origin, self._max_header_bytes)
        self.batcher = get_write_batcher(asyncio.get_running_loop())
        self.write_batched = partial(self.batcher.put, self._transport)
        limit_read_size(transport)

    def data_received(self, data: bytes) -> None:
        if self.borrower is not None:
            self.borrower.feed(data)
        else:
            self.abort()  # data without a request: nothing on this connection can be trusted any more

    def eof_received(self) -> None:
        self._close(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._close(exc)
        self.parser.release()
        self._on_lost(self)

    def pause_writing(self) -> None:
        self.write_paused = True

    def resume_writing(self) -> None:
        self.write_paused = False
        if self.borrower is not None:
            self.borrower.write_resumed()

    def _close(self, exc: Exception | None) -> None:
        if self.borrower is not None:
            self.borrower.handle_closed(exc)
        self.abort()


async def open_connection(
    target: Target,
    max_header_bytes: int,
    on_lost: Callable[[Connection], None],
    tls: ssl.SSLContext | None,
    may_reach: Callable[[str], bool] | None = None,
) -> Connection:
    """Raises ConnectFailed or WireTimeout. The caller sets the deadline. `may_reach` as in HttpClient."""
    loop = asyncio.get_running_loop()
    connection = Connection(target, max_header_bytes, on_lost)
    try:
        host = target.host if may_reach is None or target.socket_path else await _resolve_checked(target, may_reach)
        if target.socket_path:
            await loop.create_unix_connection(lambda: connection, target.socket_path)
        else:
            await loop.create_connection(
                lambda: connection,
                host,
                target.port,
                ssl=tls,
                server_hostname=target.host if tls is not None else None,
            )
    except (OSError, NotImplementedError, AttributeError, UnicodeError) as exc:
        raise explain_connect_error(exc, target.origin) from exc
    return connection


async def _resolve_checked(target: Target, may_reach: Callable[[str], bool]) -> str:
    """The address to connect to. Resolved once: a second lookup could give another address than the one checked."""
    found = await asyncio.get_running_loop().getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    addresses = [str(entry[4][0]) for entry in found]
    if not addresses or not all(map(may_reach, addresses)):
        raise ConnectFailed(
            f"{target.origin}: leads to an address that is not public",
            hint="Name the host itself where it may be connected to.",
        )
    return addresses[0]


def explain_connect_error(exc: Exception, origin: str) -> ConnectFailed | WireTimeout:
    """Translates a failure to connect. A host that does not answer is a timeout, even if the operating system gave
    up."""
    if isinstance(exc, ssl.SSLCertVerificationError):
        return ConnectFailed(
            f"{origin}: its TLS certificate is not accepted: {exc.verify_message}",
            hint="If it is signed by your own authority, add that to the trusted ones of this system.",
        )
    if isinstance(exc, ssl.SSLError):
        return ConnectFailed(
            f"{origin}: the TLS handshake failed: {exc.reason or exc}",
            hint="Does it speak http rather than https there?",
        )
    if isinstance(exc, socket.gaierror | UnicodeError):
        return ConnectFailed(f"{origin}: no such host is known", hint="Check the host name and the network.")
    if isinstance(exc, ConnectionRefusedError):
        return ConnectFailed(f"{origin}: connection refused", hint="Is the server running, and on this port?")
    if isinstance(exc, FileNotFoundError):
        return ConnectFailed(f"{origin}: there is no such socket", hint="Is the server running?")
    if isinstance(exc, OSError):
        message = f"{origin}: cannot connect: {exc.strerror or exc}"
        return WireTimeout(message, phase="connect") if exc.errno in _NO_ANSWER else ConnectFailed(message)
    return ConnectFailed(f"{origin}: unix sockets do not exist on this system")


class _ExtraData(Exception):
    """Stops the parser at the first byte after the response."""


class ResponseParser:
    """Parses the responses of one connection, one after another. Each is fed from `begin` until `complete` or `error`.

    Only `keep_alive` may change after that. If it is false, the connection cannot be used again.
    """

    def __init__(self, origin: str, max_header_bytes: int) -> None:
        self._origin = origin
        self._max_header_bytes = max_header_bytes
        self._parts: list[bytes] = []
        self.on_body = self._parts.append  # called from C
        self._parser = httptools.HttpResponseParser(self)
        self._head_only = False

    def begin(self, *, head_only: bool) -> None:
        if self._head_only:  # the old parser still waits for a body
            self._parser = httptools.HttpResponseParser(self)
        self.status = 0
        self.reason = ""
        self.headers = NO_HEADERS
        self.has_head = False  # status and headers are set
        self.complete = False
        self.keep_alive = False  # complete, and the connection may carry another request
        self.error: WireError | None = None
        self._head_only = head_only
        self._until_close = False
        self._raw_headers: list[tuple[bytes, bytes]] = []
        self._header_bytes = 0
        self._overhead_bytes = 0  # received since the last byte of body: heads, trailers, chunk extensions

    def feed(self, data: bytes) -> bytes:
        """The body bytes in `data`. `complete` and `error` apply after them."""
        if self.complete:
            self.keep_alive = False
            return b""
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as exc:
            self._handle_parser_error(exc)
        parts = self._parts
        if not parts:
            self._count_overhead(len(data))
            return b""
        self._overhead_bytes = 0
        piece = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        if self._head_only:
            self.keep_alive = False
            return b""
        return piece

    def end(self) -> None:
        """The peer closed the connection in an orderly way."""
        if self.has_head and self._until_close:
            self.complete = True
        self.keep_alive = False

    def release(self) -> None:
        """Breaks the reference cycle with the C parser, so that memory is freed with the connection."""
        del self._parser, self.on_body

    def _handle_parser_error(self, exc: Exception) -> None:
        self.keep_alive = False
        if self.complete or self.error is not None:
            return
        if self.has_head:
            self.error = BadResponse(f"{self._origin}: the body breaks the rules of HTTP: {exc}")
        else:
            self.error = BadResponse(f"{self._origin}: the answer is not HTTP: {exc}", hint=_WRONG_PORT)
        self.error.__cause__ = exc

    def _count_overhead(self, count: int) -> None:
        # httptools buffers a header until its end, so an endless one has to be stopped here.
        self._overhead_bytes += count
        if self._overhead_bytes > self._max_header_bytes and not self.complete and self.error is None:
            self.error = self._too_large()

    def _too_large(self) -> TooLarge:
        return TooLarge(f"{self._origin}: the headers are larger than {self._max_header_bytes} bytes")

    # Called by httptools.

    def on_message_begin(self) -> None:
        if self.complete:
            raise _ExtraData
        self._reason = b""

    def on_status(self, text: bytes) -> None:
        self._reason += text

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_bytes += len(name) + len(value) + 4
        if self._header_bytes > self._max_header_bytes:
            self.error = self._too_large()
            raise self.error
        if not self.has_head:
            self._raw_headers.append((name.lower(), value))  # later headers are trailers, which are dropped

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status == 101:
            self.error = BadResponse(f"{self._origin}: switches to another protocol without being asked to")
            raise self.error
        if status < 200:
            self._raw_headers.clear()
            return
        self.status = status
        self.reason = self._reason.decode("latin-1")
        self.headers = Headers(self._raw_headers)
        self.has_head = True
        # Without keep-alive and without framing, the body ends with the connection.
        self._until_close = not (self._parser.should_keep_alive() or _is_framed(self._raw_headers))
        if self._head_only:
            self.on_message_complete()

    def on_message_complete(self) -> None:
        if self.has_head and not self.complete:
            self.complete = True
            self.keep_alive = self._parser.should_keep_alive()


def _is_framed(headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether the head defines the end of the body. The last coding decides; httptools refuses contradictions."""
    framed = False
    for name, value in headers:
        if name == b"content-length":
            framed = True
        elif name == b"transfer-encoding":
            framed = value.lower().rpartition(b",")[2].strip() == b"chunked"
    return framed
