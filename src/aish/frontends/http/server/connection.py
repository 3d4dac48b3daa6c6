"""A client's connection under uvicorn's server, which accepts it and ends it.

A request has a bounded time to say what it wants: or a client that sends a header now and then holds a connection for
ever. One that does not read what it is sent is dropped, for the same reason. Whoever answers is told at once when the
client goes away. And the application is told when connections are to end: a worker has no other way to learn it, and a
stream without an end would hold it up.

It is our own since uvicorn's costs a small request more than anything else that is done for it. The parser is the same.
"""

from __future__ import annotations

import asyncio
import logging
import select
from collections import deque
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

import httptools

from aish.frontends.asgi import CONNECTION, Scope
from aish.frontends.http.server.request_cycle import Served
from aish.net.deadlines import sweep_of
from aish.net.read_size import read_little
from aish.net.write_batcher import outbox_of

if TYPE_CHECKING:
    from uvicorn import Config
    from uvicorn.server import ServerState

# For a whole head to arrive. A slow phone takes a second.
HEAD_S = 20.0
# For a client that is still sending to notice that it has been answered, and will not be read.
_LINGER_S = 2.0
# Requests that wait for the one before them, and are still read: who does not read learns late that a client has gone.
_MAX_WAITING = 16
# They may all have come in one read. Whoever sends more at once is answered so many.
_MAX_HELD = 1000
# For a client to read what it was sent, where the application does not say.
_SEND_S = 30.0
# So much has to be read within that time, or a client that takes a byte now and then would stay for ever.
_LEAST_READ_BYTES = 16 * 1024
# Of a body that nobody has taken yet.
_HIGH_WATER_BYTES = 64 * 1024
# Read without anything coming of it: of a head, of what follows a body, of what is said about a chunk. The parser keeps
# it. Four times what browsers send at most.
_MAX_UNHEARD_BYTES = 64 * 1024
_KEPT_URL_BYTES = 200  # a longer one is nobody's habit, and 256 of them would be much to keep
_ASGI = {"version": "3.0", "spec_version": "2.3"}
_TIMEOUT = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_REFUSAL = b"HTTP/1.1 %b\r\ncontent-type: text/plain\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b"
_BAD = b"this is not a request of HTTP"
_BAD_REPLY = _REFUSAL % (b"400 Bad Request", len(_BAD), _BAD)
_HOSTS = b"a request has one Host header, no less and no more"
_HOSTS_REPLY = _REFUSAL % (b"400 Bad Request", len(_HOSTS), _HOSTS)
_LONG = b"the headers may have %d bytes" % _MAX_UNHEARD_BYTES
_LONG_REPLY = _REFUSAL % (b"431 Request Header Fields Too Large", len(_LONG), _LONG)

log = logging.getLogger(__name__)


class _UnclearHost(httptools.HttpParserError):
    """Whoever stands before us may have read another one than we do."""


class Connection(asyncio.Protocol):
    def __init__(self, config: Config, server_state: ServerState, app_state: dict[str, Any], _loop: Any = None) -> None:
        if not config.loaded:
            config.load()
        self.app = config.loaded_app
        self._state = server_state
        self._keep_alive_s = config.timeout_keep_alive
        self._parser = self._new_parser()
        self._unheard_bytes = 0
        self._is_deaf = False  # what still comes is thrown away
        self.pipeline: deque[Served] = deque()  # those that wait for the one before them
        self._current: Served | None = None  # the one being answered
        self._newest: Served | None = None  # the one being read
        self._head_due_s: float | None = None
        self._idle_due_s: float | None = None
        self._unread_since_s: float | None = None  # more is waiting to be sent than is kept, or it is the last
        self._unread_bytes = 0
        self._writable: asyncio.Event | None = None
        self._is_reading = True
        self.is_full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        read_little(transport)
        self.transport = cast(asyncio.Transport, transport)
        self.write = self.transport.write
        self._loop = asyncio.get_running_loop()
        self._time = self._loop.time
        self.done: asyncio.Future[None] = self._loop.create_future()
        self.done.set_result(None)
        self._client, self._server = _address(transport, "peername"), _address(transport, "sockname")
        self._head_due_s = self._time() + HEAD_S
        self._sweep, self._outbox = sweep_of(self._loop), outbox_of(self._loop)
        self.write_together = partial(self._outbox.put, self.transport)
        self._sweep.add(self)
        self._state.connections.add(cast(Any, self))

    def connection_lost(self, exc: Exception | None) -> None:
        self._sweep.discard(self)
        self._state.connections.discard(cast(Any, self))
        self.is_full = False
        if self._writable is not None:
            self._writable.set()
        for served in (self._current, *self.pipeline):
            if served is not None:
                served.leave()
        self.pipeline.clear()

    def eof_received(self) -> None:
        """Whoever sends no more is taken to have gone."""
        self.close()

    # What comes in

    def data_received(self, data: bytes) -> None:
        if self._is_deaf:
            return
        if self._current is None and self._head_due_s is None:
            self._idle_due_s = None
            self._head_due_s = self._time() + HEAD_S
        self._unheard_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as exc:
            self._stay(data, exc.args[0])
        except httptools.HttpParserError as exc:
            self._refuse(_reply_to(exc))
        else:
            if self._unheard_bytes > _MAX_UNHEARD_BYTES:
                self._refuse(_LONG_REPLY)

    def _new_parser(self) -> httptools.HttpRequestParser:
        parser = httptools.HttpRequestParser(self)
        # What follows a request that ends the connection is not read; the request is answered all the same.
        parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return parser

    def _stay(self, data: bytes, heard: int) -> None:
        """Whoever asks for another protocol is answered as if it had not: a parser that has not stopped at the question
        hears the same head without it. Java asks with every first request, bodies included."""
        rest = memoryview(data)
        try:
            while heard:  # each time there is less left, by a head
                rest, head, heard = rest[heard:], self._head_without_question(), 0
                self._parser = self._new_parser()
                self._parser.feed_data(head)
                try:
                    self._parser.feed_data(rest)
                except httptools.HttpParserUpgrade as exc:
                    heard = exc.args[0]
        except httptools.HttpParserError:
            self._refuse(_BAD_REPLY)

    def _head_without_question(self) -> bytes:
        method, version = self._parser.get_method(), self._parser.get_http_version().encode()
        if method == b"CONNECT":
            raise httptools.HttpParserError("nobody is connected through")
        lines = [b"%b %b HTTP/%b" % (method, self._url, version)]
        lines += [b"%b: %b" % pair for pair in self._headers if pair[0] != b"upgrade"]
        return b"\r\n".join([*lines, b"", b""])

    def on_message_begin(self) -> None:
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self._head_due_s = self._idle_due_s = None
        self._unheard_bytes = 0
        parser = self._parser
        if parser.should_upgrade():  # and stops here
            return
        if self._is_deaf or len(self.pipeline) >= _MAX_HELD:
            self._stop_hearing()
            return
        version = parser.get_http_version()
        is_old = version == "1.0"
        headers, self._headers = self._headers, []  # what comes after the body is said by the body, not about it
        names = dict(headers)
        hosts = b"host" in names if len(names) == len(headers) else sum(name == b"host" for name, _ in headers)
        if hosts != 1 and (hosts or not is_old):
            raise _UnclearHost
        find_parts = _known_parts if len(self._url) < _KEPT_URL_BYTES else _parts
        path, raw_path, query = find_parts(self._url)
        scope: Scope = {
            "type": "http",
            "asgi": _ASGI,
            "http_version": version,
            "method": parser.get_method().decode("ascii"),
            "scheme": "http",
            "path": path,
            "raw_path": raw_path,
            "query_string": query,
            "root_path": "",
            "headers": headers,
            "client": self._client,
            "server": self._server,
        }
        served = self._newest = scope[CONNECTION] = Served(self, scope)
        served.keep_alive = not is_old and parser.should_keep_alive()
        served.expects = not is_old and b"expect" in names and _expects(headers)
        if self._current is None:
            self._begin(served)
            return
        self.pipeline.append(served)
        if len(self.pipeline) > _MAX_WAITING:
            self._stop_reading()

    def on_body(self, body: bytes) -> None:
        self._unheard_bytes = 0
        served = self._newest
        if served is None or served.complete:
            return
        if served.add_body(body) > _HIGH_WATER_BYTES:
            self._stop_reading()

    def on_message_complete(self) -> None:
        if self._newest is not None:
            self._newest.end_body()
        if self._current is None:  # its answer did not wait for it
            self._head_due_s, self._idle_due_s = None, self._time() + self._keep_alive_s

    def _stop_hearing(self) -> None:
        """Those that wait are answered, and no more."""
        self._is_deaf, self._newest = True, None
        if self.pipeline:
            self.pipeline[-1].keep_alive = False

    def _refuse(self, reply: bytes) -> None:
        """What is being answered in full is; what is being read has no end any more."""
        self._is_deaf = True
        self.pipeline.clear()
        served = self._current
        if served is not None and (served is not self._newest or not served.more_body):
            served.keep_alive = False
            return
        if served is None or not served.started:
            self._outbox.flush()  # what was answered before
            self.write(reply)
        if served is not None:
            served.leave()
        self._hang_up()

    def _stop_reading(self) -> None:
        if self._is_reading and not self.transport.is_closing():
            self._is_reading = False
            self.transport.pause_reading()

    def read_on(self) -> None:
        if not self._is_reading and not self.transport.is_closing() and len(self.pipeline) <= _MAX_WAITING:
            self._is_reading = True
            self.transport.resume_reading()

    # What goes out

    def _begin(self, served: Served) -> None:
        self._current = served
        self._outbox.at_work += 1
        served.task = self._loop.create_task(served.run(self.app))
        self._state.tasks.add(served.task)

    def ended(self, served: Served) -> None:
        """Told by the task itself. One that is cancelled before its first step stays in the set: only uvicorn does
        that, at its end, and it waits for none of them any more."""
        self._outbox.at_work -= 1
        if served.task is not None:
            self._state.tasks.discard(served.task)

    def answered(self, served: Served) -> None:
        self._state.total_requests += 1
        self._current = None
        if self.transport.is_closing():
            return
        if not served.keep_alive and served.more_body:
            self._hang_up()
        elif not served.keep_alive:
            self.close()
        elif self.pipeline:
            self._begin(self.pipeline.popleft())
            self.read_on()
        else:
            self._idle_due_s = self._time() + self._keep_alive_s
            if not self._is_reading:
                self.read_on()

    def write_soon(self, served: Served) -> None:
        self._loop.call_soon(served.flush)

    def pause_writing(self) -> None:
        self.is_full = True
        self._unread_since_s, self._unread_bytes = self._time(), self.transport.get_write_buffer_size()
        self._writable = asyncio.Event()

    def resume_writing(self) -> None:
        self.is_full = False
        if not self.transport.is_closing():
            self._unread_since_s = None
        if self._writable is not None:
            self._writable.set()

    async def drain(self) -> None:
        if self._writable is not None:
            await self._writable.wait()

    # How it ends

    def close(self) -> None:
        """Once the client has read what it was sent."""
        self._outbox.flush()
        if self._unread_since_s is None:
            self._unread_since_s, self._unread_bytes = self._time(), self.transport.get_write_buffer_size()
        self.transport.close()

    def _hang_up(self) -> None:
        """Closes when the client does, or soon: one that still sends would be reset, and lose what it was told."""
        self._is_deaf = True
        self.pipeline.clear()
        self._head_due_s, self._idle_due_s = None, self._time() + _LINGER_S
        self._outbox.flush()
        self.transport.write_eof()
        self.read_on()

    def shutdown(self) -> None:
        """No more requests; the one that is being answered is."""
        if (drain := getattr(self.app, "drain", None)) is not None:
            drain()
        if self._current is None:
            self.close()
        else:
            self._current.keep_alive = False

    def look(self, now_s: float) -> None:
        if self._head_due_s is not None and now_s >= self._head_due_s:
            self._head_due_s = None
            # One that says nothing at all is one that a browser keeps ready; one with a body has been answered.
            if self._unheard_bytes and (self._newest is None or not self._newest.more_body):
                self._outbox.flush()
                self.write(_TIMEOUT)
            self.close()
        if self._idle_due_s is not None and now_s >= self._idle_due_s:
            self._idle_due_s = None
            self.close()
        if self._unread_since_s is not None:
            self._look_at_reader(now_s, self._unread_since_s)
        if not self._is_reading and _has_left(self.transport):
            self.transport.abort()

    def _look_at_reader(self, now_s: float, since_s: float) -> None:
        unread = self.transport.get_write_buffer_size()
        if self._unread_bytes - unread >= _LEAST_READ_BYTES:
            self._unread_since_s, self._unread_bytes = now_s, unread
        elif now_s - since_s >= getattr(self.app, "send_timeout_s", _SEND_S):
            self.transport.abort()


def _parts(url: bytes) -> tuple[str, bytes, bytes]:
    """Its path, the same as it came, and the query."""
    parsed = httptools.parse_url(url)
    raw_path = parsed.path or b"/"  # a whole URL may have none
    return unquote(raw_path.decode("ascii")), raw_path, parsed.query or b""


_known_parts = lru_cache(maxsize=256)(_parts)  # clients ask for the same few again and again


def _address(transport: asyncio.BaseTransport, which: str) -> tuple[str, int] | None:
    found = transport.get_extra_info(which)
    return (str(found[0]), int(found[1])) if isinstance(found, tuple) and len(found) >= 2 else None


def _expects(headers: list[tuple[bytes, bytes]]) -> bool:
    return any(name == b"expect" and value.lower() == b"100-continue" for name, value in headers)


def _has_left(transport: asyncio.BaseTransport) -> bool:
    """Whoever is not read is not heard leaving, and has to be looked for. On systems that can tell."""
    if transport.is_closing() or not hasattr(select, "poll"):
        return False
    place = select.poll()
    place.register(transport.get_extra_info("socket"), getattr(select, "POLLRDHUP", 0))
    return bool(place.poll(0))


def _reply_to(error: httptools.HttpParserError) -> bytes:
    """What goes wrong in what the parser calls is told of as if the client had done it."""
    cause = error.__context__
    if isinstance(cause, _UnclearHost):
        return _HOSTS_REPLY
    if cause is not None and not isinstance(cause, httptools.HttpParserError | UnicodeDecodeError):
        log.error("a request could not be read by a defect of aish", exc_info=cause)
    return _BAD_REPLY
