"""One HTTP request and its reply over ASGI: reads a bounded body, sends a reply or a stream.

Used by every frontend that is mounted in a server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, MutableMapping, Sequence
from typing import Any, Protocol
from urllib.parse import parse_qsl

import msgspec

from aish.errors import ConnectionLost

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Pairs = Iterable[tuple[bytes, bytes]]

# Keys in an ASGI scope.
TOOLS = "aish.tools"  # globs of the tools that the caller may use, if that is known
OWNER = "aish.owner"  # the key of a tenant, "" for the local user and for administrators
CONNECTION = "aish.connection"  # a ServerLink, if the server is our own

# After a body of this size, memory is given back to the system.
LARGE_BODY_BYTES = 1024 * 1024
_BODY_S = 30.0  # for all of a body to arrive: a few megabytes on a slow line
_JSON = (b"content-type", b"application/json")
_STREAM_HEADERS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)


class ReplySink(Protocol):
    """Sends a reply."""

    def send_head(self, status: int, headers: Pairs, *, at_once: bool) -> Awaitable[None]:
        """`at_once`: the first piece of the body follows right away."""

    def send_piece(self, data: bytes, *, last: bool = False) -> Awaitable[None]: ...

    def send_whole(self, status: int, headers: Pairs, body: bytes) -> Awaitable[None]: ...

    def is_open(self) -> bool:
        """Whether the next piece can be sent without waiting."""

    def send_now(self, data: bytes) -> None:
        """Sends a piece without waiting. Call it only if `is_open`."""


class ServerLink(ReplySink, Protocol):
    """Direct access to our own server, without an ASGI message for each piece of a body. `on_gone` is called once when
    the client has gone."""

    on_gone: Callable[[], None] | None

    @property
    def is_gone(self) -> bool: ...

    @property
    def more_body(self) -> bool:
        """Whether more of the body is still to arrive."""

    def take_body(self) -> bytes: ...

    def send(self, message: MutableMapping[str, Any]) -> Awaitable[None]: ...


class _AsgiSink:
    """Sends a reply as ASGI messages, for any other server."""

    def __init__(self, send: Send) -> None:
        self._send = send

    def send_head(self, status: int, headers: Pairs, *, at_once: bool) -> Awaitable[None]:
        return self._send({"type": "http.response.start", "status": status, "headers": list(headers)})

    def send_piece(self, data: bytes, *, last: bool = False) -> Awaitable[None]:
        return self._send({"type": "http.response.body", "body": data, "more_body": not last})

    async def send_whole(self, status: int, headers: Pairs, body: bytes) -> None:
        await self.send_head(status, headers, at_once=True)
        await self.send_piece(body, last=True)

    def is_open(self) -> bool:
        return False

    def send_now(self, data: bytes) -> None:
        raise RuntimeError("sending an ASGI message has to be awaited")


class HttpRefusal(Exception):
    """The request is answered with this status, possibly before its body was read."""

    def __init__(self, status: int, why: str, headers: Pairs = ()) -> None:
        super().__init__(why)
        self.status = status
        self.headers = tuple(headers)


class RequestHeaders(msgspec.Struct, frozen=True):
    """Request headers: all in their order, and the first value of each lower-case name."""

    pairs: Sequence[tuple[bytes, bytes]]
    raw: dict[bytes, bytes]

    def __repr__(self) -> str:
        return "RequestHeaders(…)"  # they contain keys and cookies

    def get(self, name: str) -> str | None:
        value = self.raw.get(name.encode("latin-1"))
        return None if value is None else value.decode("latin-1").strip(" \t")

    def first(self, names: Sequence[bytes]) -> str:
        """The value of the first of these headers that is present and not empty, or ""."""
        if self.raw.keys().isdisjoint(names):
            return ""
        for name in names:
            if value := self.raw.get(name):
                return value.decode("latin-1").strip(" \t")
        return ""

    def is_repeated(self, name: str) -> bool:
        wanted = name.encode("latin-1")
        return sum(key.lower() == wanted for key, _ in self.pairs) > 1


class Exchange:
    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers = RequestHeaders(scope["headers"], dict(reversed(scope["headers"])))  # ASGI has them in lower case
        self._scope = scope
        self.owner: str = scope.get(OWNER, "")
        self._link: ServerLink | None = scope.get(CONNECTION)
        # If middleware wraps `send`, the reply goes through it.
        is_direct = self._link is not None and send == self._link.send
        self._sink: ReplySink = self._link if self._link is not None and is_direct else _AsgiSink(send)
        self.send_piece = self._sink.send_piece
        self.is_open, self.send_now = self._sink.is_open, self._sink.send_now
        self._waiting: asyncio.Future[None] | None = None
        self._when_gone: Callable[[], None] | None = None
        self._receive = receive
        self.id = ""  # of the request, if the frontend assigns one
        self.extra: list[tuple[bytes, bytes]] = []  # headers of every reply
        self.has_large_body = False
        self.started = False
        self.status = 0  # of the reply, once it has begun
        self.failed_status = 0  # the status of a failure after a stream had begun

    @property
    def takes_stream(self) -> bool:
        accept = self.headers.get("accept") or ""
        return "text/event-stream" in accept.lower() or "*/*" in accept

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(self._scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True))

    async def body(self, max_bytes: int) -> bytes:
        """Reads the body. Raises HttpRefusal if it is too large or too slow, ConnectionLost if the client goes away."""
        if self._link is not None and not self._link.more_body:
            body = self._link.take_body()
            if len(body) > max_bytes:
                raise _too_large(max_bytes)
            return body
        announced = self.headers.get("content-length") or "0"
        if announced.isdigit() and (len(announced) > 18 or int(announced) > max_bytes):
            raise _too_large(max_bytes)
        # Not asyncio.timeout, which costs as much as reading a small body does.
        task = asyncio.current_task()
        assert task is not None
        loop = asyncio.get_running_loop()
        due_s = loop.time() + _BODY_S
        timer = loop.call_at(due_s, task.cancel)
        try:
            return await self._read_body(max_bytes)
        except asyncio.CancelledError:
            if loop.time() < due_s:
                raise
            task.uncancel()
            raise HttpRefusal(408, "the body did not arrive in time", [(b"connection", b"close")]) from None
        finally:
            timer.cancel()

    async def _read_body(self, max_bytes: int) -> bytes:
        pieces: list[bytes] = []
        size = 0
        while True:
            event = await self._receive()
            if event["type"] != "http.request":
                raise ConnectionLost("the client went away")
            pieces.append(event.get("body", b""))
            size += len(pieces[-1])
            self.has_large_body = size > LARGE_BODY_BYTES
            if size > max_bytes:
                raise _too_large(max_bytes)
            if not event.get("more_body"):
                return b"".join(pieces)

    async def wait_until_gone(self) -> None:
        """Returns when the client has closed the connection. Only after the body was read."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def when_gone(self, tell: Callable[[], None]) -> None:
        """Calls `tell` once when the client has gone, until `stop_watching`. Use it only after the body was read."""
        self._when_gone = tell
        if self._link is None:
            self._waiting = asyncio.ensure_future(self.wait_until_gone())
            self._waiting.add_done_callback(lambda ended: None if ended.cancelled() or ended.exception() else tell())
            return
        self._link.on_gone = tell
        if self._link.is_gone:
            asyncio.get_running_loop().call_soon(self._tell_gone)

    def _tell_gone(self) -> None:
        if self._when_gone is not None:
            self._when_gone()

    def stop_watching(self) -> None:
        if self._link is not None and self._link.on_gone is self._when_gone:
            self._link.on_gone = None
        elif self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
        self._when_gone = None

    def reply(self, status: int, body: bytes = b"", headers: Sequence[tuple[bytes, bytes]] = ()) -> Awaitable[None]:
        """JSON, unless `headers` name another type."""
        described = [*self.extra, *headers]
        if status != 204:
            described.append((b"content-length", b"%d" % len(body)))
        if body and not (headers and b"content-type" in dict(headers)):
            described.append(_JSON)
        self.started, self.status = True, status
        return self._sink.send_whole(status, described, body)

    def start_stream(self, headers: Pairs = (), *, at_once: bool = False) -> Awaitable[None]:
        return self.start(200, [*_STREAM_HEADERS, *self.extra, *headers], at_once=at_once)

    def start(self, status: int, headers: Pairs, *, at_once: bool = False) -> Awaitable[None]:
        """Sends the head, with exactly these headers. Pieces follow; `at_once`: the first right away."""
        self.started, self.status = True, status
        return self._sink.send_head(status, headers, at_once=at_once)


def _too_large(max_bytes: int) -> HttpRefusal:
    return HttpRefusal(413, f"a message may have {max_bytes} bytes")
