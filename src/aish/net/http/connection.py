"""Opens a connection to an origin, and passes bytes between its transport and the exchange that uses it.

Life: opened by the pool, lent to one exchange after another, idle in between, aborted or lost once. Never reopened.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Protocol, cast

from aish.errors import ConnectFailed, WireError, WireTimeout
from aish.net.event_loop import WriteBatcher, get_write_batcher, limit_read_size
from aish.net.http.message import Target
from aish.net.http.response import ResponseParser

_NO_ANSWER = (errno.EHOSTUNREACH, errno.ETIMEDOUT)


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
