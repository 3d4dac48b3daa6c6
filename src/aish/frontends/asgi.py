"""One HTTP request and its reply over ASGI: a bounded body in, a reply or a stream out.

For every frontend that is mounted in a server.
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

# In a scope: globs of the tools that the asker may use, where that is known.
TOOLS = "aish.tools"
OWNER = "aish.owner"  # the key of a tenant, "" for the local user and for administrators
# In a scope: the request on its connection, where the server is ours.
CONNECTION = "aish.connection"

_BODY_S = 30.0  # for a body to arrive whole; a few megabytes on a slow line
_JSON = (b"content-type", b"application/json")
_STREAM_HEADERS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)


class Out(Protocol):
    """How a server takes a reply."""

    def send_head(self, status: int, headers: Pairs, *, at_once: bool) -> Awaitable[None]:
        """`at_once`: the first of the body comes right after it."""

    def send_piece(self, data: bytes, *, last: bool = False) -> Awaitable[None]: ...

    def send_whole(self, status: int, headers: Pairs, body: bytes) -> Awaitable[None]: ...

    def is_open(self) -> bool:
        """Whether the next piece would be sent at once, without anybody waiting for it."""

    def send_now(self, data: bytes) -> None:
        """A piece, and only where that is so."""


class Link(Out, Protocol):
    """What a server of ours tells of a request, and how it takes the reply: without a message for each piece of it.
    `on_gone` is called once when the client has gone."""

    on_gone: Callable[[], None] | None

    @property
    def is_gone(self) -> bool: ...

    @property
    def more_body(self) -> bool:
        """Not all of it is there."""

    def take_body(self) -> bytes: ...

    def send(self, message: MutableMapping[str, Any]) -> Awaitable[None]: ...


class _Messages:
    """How any other server takes it."""

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
        raise RuntimeError("whoever takes messages has to be waited for")


class HttpRefusal(Exception):
    """Answered with this status before it was even read."""

    def __init__(self, status: int, why: str, headers: Pairs = ()) -> None:
        super().__init__(why)
        self.status = status
        self.headers = tuple(headers)


class Headers(msgspec.Struct, frozen=True):
    """As they came: all of them, and by lower-case name, where the first of several counts."""

    pairs: Sequence[tuple[bytes, bytes]]
    raw: dict[bytes, bytes]

    def __repr__(self) -> str:
        return "Headers(…)"  # keys and cookies are among them

    def get(self, name: str) -> str | None:
        value = self.raw.get(name.encode("latin-1"))
        return None if value is None else value.decode("latin-1").strip(" \t")

    def first(self, names: Sequence[bytes]) -> str:
        """Of the first of these that is there and not empty; "" for none."""
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
        self.headers = Headers(scope["headers"], dict(reversed(scope["headers"])))  # ASGI has them in lower case
        self._scope = scope
        self.owner: str = scope.get(OWNER, "")
        self._link: Link | None = scope.get(CONNECTION)
        # Nothing goes past what somebody has put around `send`.
        is_ours = self._link is not None and send == self._link.send
        self._out: Out = self._link if self._link is not None and is_ours else _Messages(send)
        self.send_piece = self._out.send_piece
        self.is_open, self.send_now = self._out.is_open, self._out.send_now
        self._waiting: asyncio.Future[None] | None = None
        self._when_gone: Callable[[], None] | None = None
        self._receive = receive
        self.id = ""  # of the request, where the frontend gives it one
        self.extra: list[tuple[bytes, bytes]] = []  # headers of every reply
        self.started = False
        self.status = 0  # of the reply, once it has begun
        self.failed_status = 0  # what the status would have been, where a stream had begun before it failed

    @property
    def takes_stream(self) -> bool:
        accept = self.headers.get("accept") or ""
        return "text/event-stream" in accept.lower() or "*/*" in accept

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(self._scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True))

    async def body(self, max_bytes: int) -> bytes:
        """HttpRefusal if it is too large or too slow, ConnectionLost if it never ends."""
        if self._link is not None and not self._link.more_body:
            body = self._link.take_body()
            if len(body) > max_bytes:
                raise _too_large(max_bytes)
            return body
        announced = self.headers.get("content-length") or "0"
        if announced.isdigit() and (len(announced) > 18 or int(announced) > max_bytes):
            raise _too_large(max_bytes)
        # By hand: asyncio.timeout costs as much as reading a small body does.
        task = asyncio.current_task()
        assert task is not None
        loop = asyncio.get_running_loop()
        due_s = loop.time() + _BODY_S
        timer = loop.call_at(due_s, task.cancel)
        try:
            return await self._whole_body(max_bytes)
        except asyncio.CancelledError:
            if loop.time() < due_s:
                raise
            task.uncancel()
            raise HttpRefusal(408, "the body did not arrive in time", [(b"connection", b"close")]) from None
        finally:
            timer.cancel()

    async def _whole_body(self, max_bytes: int) -> bytes:
        pieces: list[bytes] = []
        size = 0
        while True:
            event = await self._receive()
            if event["type"] != "http.request":
                raise ConnectionLost("the client went away")
            pieces.append(event.get("body", b""))
            size += len(pieces[-1])
            if size > max_bytes:
                raise _too_large(max_bytes)
            if not event.get("more_body"):
                return b"".join(pieces)

    async def gone(self) -> None:
        """Returns when the client has closed the connection. Only after the body was read."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def when_gone(self, tell: Callable[[], None]) -> None:
        """Has it told, once, when the client has gone. Only after the body was read; ends with `stop_watching`."""
        self._when_gone = tell
        if self._link is None:
            self._waiting = asyncio.ensure_future(self.gone())
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
        return self._out.send_whole(status, described, body)

    def start_stream(self, headers: Pairs = (), *, at_once: bool = False) -> Awaitable[None]:
        return self.start(200, [*_STREAM_HEADERS, *self.extra, *headers], at_once=at_once)

    def start(self, status: int, headers: Pairs, *, at_once: bool = False) -> Awaitable[None]:
        """With exactly these headers. Pieces follow; the first `at_once`."""
        self.started, self.status = True, status
        return self._out.send_head(status, headers, at_once=at_once)


def _too_large(max_bytes: int) -> HttpRefusal:
    return HttpRefusal(413, f"a message may have {max_bytes} bytes")
