"""One connection to an origin: opening it, and passing bytes between its transport and whoever has it.

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
from aish.net.http.response import AnswerParser
from aish.net.http.target import Target
from aish.net.read_size import read_little
from aish.net.write_batcher import Outbox, outbox_of

_NO_ANSWER = (errno.EHOSTUNREACH, errno.ETIMEDOUT)


class Borrower(Protocol):
    """Who has a connection, as the connection and its pool see it."""

    def feed(self, data: bytes) -> None: ...

    def write_resumed(self) -> None: ...

    def peer_left(self, cause: Exception | None) -> None:
        """The connection is gone: in an orderly way, or because of `cause`."""

    def fail(self, error: WireError) -> None: ...


class Connection(asyncio.Protocol):
    """`on_lost` is called once, when the transport is gone for good."""

    # While there is a transport.
    parser: AnswerParser
    outbox: Outbox
    write_together: Callable[[bytes], None]  # by the outbox

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
        """Close at once: nothing that is still to be written is waited for, so that the peer hears of it now."""
        if self._transport is not None:
            self._transport.abort()

    # Called by the transport. TCP_NODELAY is already on: every event loop sets it for TCP.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.parser = AnswerParser(self.target.origin, self._max_header_bytes)
        self.outbox = outbox_of(asyncio.get_running_loop())
        self.write_together = partial(self.outbox.put, self._transport)
        read_little(transport)

    def data_received(self, data: bytes) -> None:
        if self.borrower is not None:
            self.borrower.feed(data)
        else:
            self.abort()  # nobody asked: after this nothing on this connection could be trusted

    def eof_received(self) -> None:
        self._leave(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._leave(exc)
        self.parser.release()
        self._on_lost(self)

    def pause_writing(self) -> None:
        self.write_paused = True

    def resume_writing(self) -> None:
        self.write_paused = False
        if self.borrower is not None:
            self.borrower.write_resumed()

    def _leave(self, exc: Exception | None) -> None:
        if self.borrower is not None:
            self.borrower.peer_left(exc)
        self.abort()


async def open_connection(
    target: Target,
    max_header_bytes: int,
    on_lost: Callable[[Connection], None],
    tls: ssl.SSLContext | None,
    reaches: Callable[[str], bool] | None = None,
) -> Connection:
    """ConnectFailed or WireTimeout says why not. The caller sets the deadline. `reaches` as in HttpClient."""
    loop = asyncio.get_running_loop()
    connection = Connection(target, max_header_bytes, on_lost)
    try:
        host = target.host if reaches is None or target.socket_path else await _reachable(target, reaches)
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
        raise explain(exc, target.origin) from exc
    return connection


async def _reachable(target: Target, reaches: Callable[[str], bool]) -> str:
    """The address to connect to. Looked up once: asked again, a name could lead elsewhere."""
    found = await asyncio.get_running_loop().getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    addresses = [str(entry[4][0]) for entry in found]
    if not addresses or not all(map(reaches, addresses)):
        raise ConnectFailed(
            f"{target.origin}: leads to an address that is not public",
            hint="Name the host itself where it may be connected to.",
        )
    return addresses[0]


def explain(exc: Exception, origin: str) -> ConnectFailed | WireTimeout:
    """What a failure to connect means to a person. A host that does not answer is a matter of time, though it may be
    the system here that has lost its patience."""
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
