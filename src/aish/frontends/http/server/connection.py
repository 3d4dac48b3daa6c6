"""A client's HTTP connection, under uvicorn's server, which accepts it and ends it.

It replaces uvicorn's own protocol class, because that cost a small request more than everything else done for it. The
parser is the same (`httptools`).

Time is limited in both directions: a client has to send its head in time, and it has to read what it is sent, or the
connection is dropped. The handler of a request is told at once when its client goes away. The application is told when
connections are to end (`drain`): a worker process has no other way to learn it, and an endless stream would keep the
server from stopping.
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
from aish.frontends.http.server.request_cycle import RequestCycle
from aish.net.event_loop import get_deadline_timer, get_write_batcher, limit_read_size

if TYPE_CHECKING:
    from uvicorn import Config
    from uvicorn.server import ServerState

# For a whole head to arrive. A slow phone takes a second.
HEAD_S = 20.0
# After a reply that ends the connection: for a client that is still sending to notice it.
_LINGER_S = 2.0
# Requests that wait for an earlier one and are still read: a client that leaves is noticed only while we read.
_MAX_WAITING_READ = 16
# Pipelined requests may all come in one read. Of more than this, the rest is not answered.
_MAX_PIPELINED = 1000
# For a client to read what it was sent, unless the application sets a limit.
_SEND_S = 30.0
# The least that it has to read in that time. Otherwise a client that reads a byte now and then would stay for ever.
_MIN_READ_BYTES = 16 * 1024
# Of a body that the handler has not taken yet.
_HIGH_WATER_BYTES = 64 * 1024
# A head, and other input that the parser buffers without a result: trailers, chunk extensions. Four times what browsers
# send.
_MAX_OVERHEAD_BYTES = 64 * 1024
_LINE_BYTES, _HEADER_BYTES, _END_BYTES = len("  HTTP/1.1\r\n"), len(": \r\n"), len("\r\n")
_MAX_CACHED_URL_BYTES = 200  # longer ones are rarely repeated, and 256 of them would take much memory
_ASGI = {"version": "3.0", "spec_version": "2.3"}
_TIMEOUT = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_REFUSAL = b"HTTP/1.1 %b\r\ncontent-type: text/plain\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b"
_BAD = b"this is not a request of HTTP"
_BAD_REPLY = _REFUSAL % (b"400 Bad Request", len(_BAD), _BAD)
_HOSTS = b"a request has one Host header, no less and no more"
_HOSTS_REPLY = _REFUSAL % (b"400 Bad Request", len(_HOSTS), _HOSTS)
_LONG = b"the headers may have %d bytes" % _MAX_OVERHEAD_BYTES
_LONG_REPLY = _REFUSAL % (b"431 Request Header Fields Too Large", len(_LONG), _LONG)

log = logging.getLogger(__name__)


class _UnclearHost(httptools.HttpParserError):
    """A proxy in front of us may have read another Host than we did."""


class _LongHead(httptools.HttpParserError):
    """The head is complete, but longer than the limit."""


class ClientConnection(asyncio.Protocol):
    def __init__(self, config: Config, server_state: ServerState, app_state: dict[str, Any], _loop: Any = None) -> None:
        if not config.loaded:
            config.load()
        self.app = config.loaded_app
        self._state = server_state
        self._keep_alive_s = config.timeout_keep_alive
        self._parser = self._new_parser()
        self._overhead_bytes = 0
        # Of all input: what has come, what had come before the latest read, and before the one in which a head began.
        self._received_bytes = self._earlier_bytes = self._before_head_bytes = 0
        self._ignores_input = False  # further input is thrown away
        self.pipeline: deque[RequestCycle] = deque()  # requests that wait for an earlier one
        self._current: RequestCycle | None = None  # the request being answered
        self._newest: RequestCycle | None = None  # the request being read
        self._head_due_s: float | None = None
        self._idle_due_s: float | None = None
        self._unread_since_s: float | None = None  # since the write buffer is full, or the last reply is written
        self._unread_bytes = 0
        self._writable: asyncio.Event | None = None
        self._is_reading = True
        self.is_full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        limit_read_size(transport)
        self.transport = cast("asyncio.Transport", transport)
        self.write = self.transport.write
        self._loop = asyncio.get_running_loop()
        self._time = self._loop.time
        self.done: asyncio.Future[None] = self._loop.create_future()
        self.done.set_result(None)
        self._client, self._server = _address(transport, "peername"), _address(transport, "sockname")
        self._head_due_s = self._time() + HEAD_S
        self._deadlines, self._batcher = get_deadline_timer(self._loop), get_write_batcher(self._loop)
        self.write_batched = partial(self._batcher.put, self.transport)
        self._deadlines.add(self)
        self._state.connections.add(cast("Any", self))

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadlines.discard(self)
        self._state.connections.discard(cast("Any", self))
        self.is_full = False
        if self._writable is not None:
            self._writable.set()
        for cycle in (self._current, *self.pipeline):
            if cycle is not None:
                cycle.client_left()
        self.pipeline.clear()

    def eof_received(self) -> None:
        """A client that sends no more is taken to have gone."""
        self.close()

    # What comes in

    def data_received(self, data: bytes) -> None:
        if self._ignores_input:
            return
        if self._current is None and self._head_due_s is None:
            self._idle_due_s = None
            self._head_due_s = self._time() + HEAD_S
        self._overhead_bytes += len(data)
        self._earlier_bytes = self._received_bytes
        self._received_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as exc:
            self._ignore_upgrade(data, exc.args[0])
        except httptools.HttpParserError as exc:
            self._refuse(_reply_to(exc))
        else:
            if self._overhead_bytes > _MAX_OVERHEAD_BYTES:
                self._refuse(_LONG_REPLY)

    def _new_parser(self) -> httptools.HttpRequestParser:
        parser = httptools.HttpRequestParser(self)
        # Data after a request that ends the connection is ignored; the request itself is answered.
        parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return parser

    def _ignore_upgrade(self, data: bytes, parsed: int) -> None:
        """Answers a request for another protocol as if it had not asked: a new parser reads the same head without the
        `Upgrade` header. Java's client asks with every first request, with bodies too."""
        rest = memoryview(data)
        try:
            while parsed:  # each round consumes one head
                rest, head, parsed = rest[parsed:], self._head_without_upgrade(), 0
                self._parser = self._new_parser()
                self._parser.feed_data(head)
                try:
                    self._parser.feed_data(rest)
                except httptools.HttpParserUpgrade as exc:
                    parsed = exc.args[0]
        except httptools.HttpParserError:
            self._refuse(_BAD_REPLY)

    def _head_without_upgrade(self) -> bytes:
        method, version = self._parser.get_method(), self._parser.get_http_version().encode()
        if method == b"CONNECT":
            raise httptools.HttpParserError("CONNECT is not supported")
        lines = [b"%b %b HTTP/%b" % (method, self._url, version)]
        lines += [b"%b: %b" % pair for pair in self._headers if pair[0] != b"upgrade"]
        return b"\r\n".join([*lines, b"", b""])

    def on_message_begin(self) -> None:
        self._url = b""
        self._before_head_bytes = self._earlier_bytes
        self._headers: list[tuple[bytes, bytes]] = []

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self._head_due_s = self._idle_due_s = None
        self._overhead_bytes = 0
        parser = self._parser
        if parser.should_upgrade():  # the parser stops here
            return
        if self._ignores_input or len(self.pipeline) >= _MAX_PIPELINED:
            self._ignore_further_requests()
            return
        # Few heads come in reads that are larger than the limit. Only they are measured.
        if self._received_bytes - self._before_head_bytes > _MAX_OVERHEAD_BYTES:
            self._check_head_size()
        version = parser.get_http_version()
        is_old = version == "1.0"
        headers, self._headers = self._headers, []  # trailers after the body are not headers
        names = dict(headers)
        hosts = b"host" in names if len(names) == len(headers) else sum(name == b"host" for name, _ in headers)
        if hosts != 1 and (hosts or not is_old):
            raise _UnclearHost
        split = _split_known_url if len(self._url) < _MAX_CACHED_URL_BYTES else _split_url
        path, raw_path, query = split(self._url)
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
        cycle = self._newest = scope[CONNECTION] = RequestCycle(self, scope)
        cycle.keep_alive = not is_old and parser.should_keep_alive()
        cycle.expects_continue = not is_old and b"expect" in names and _expects_continue(headers)
        if self._current is None:
            self._begin(cycle)
            return
        self.pipeline.append(cycle)
        if len(self.pipeline) > _MAX_WAITING_READ:
            self._stop_reading()

    def _check_head_size(self) -> None:
        """Counts a head as its lines have it, with one blank after each colon."""
        size = len(self._parser.get_method()) + len(self._url) + _LINE_BYTES + _END_BYTES
        size += sum([len(name) + len(value) + _HEADER_BYTES for name, value in self._headers])
        if size > _MAX_OVERHEAD_BYTES:
            raise _LongHead

    def on_body(self, body: bytes) -> None:
        self._overhead_bytes = 0
        cycle = self._newest
        if cycle is None or cycle.complete:
            return
        if cycle.add_body(body) > _HIGH_WATER_BYTES:
            self._stop_reading()

    def on_message_complete(self) -> None:
        if self._newest is not None:
            self._newest.end_body()
        if self._current is None:  # it was answered before its body had arrived
            self._head_due_s, self._idle_due_s = None, self._time() + self._keep_alive_s

    def _ignore_further_requests(self) -> None:
        """The requests that wait are answered, and no more."""
        self._ignores_input, self._newest = True, None
        if self.pipeline:
            self.pipeline[-1].keep_alive = False

    def _refuse(self, reply: bytes) -> None:
        """Answers what cannot be parsed and closes. A request that is complete is still answered; one that is being
        read has no end any more."""
        self._ignores_input = True
        self.pipeline.clear()
        cycle = self._current
        if cycle is not None and (cycle is not self._newest or not cycle.more_body):
            cycle.keep_alive = False
            return
        if cycle is None or not cycle.started:
            self._batcher.flush()  # earlier replies
            self.write(reply)
        if cycle is not None:
            cycle.client_left()
        self._half_close()

    def _stop_reading(self) -> None:
        if self._is_reading and not self.transport.is_closing():
            self._is_reading = False
            self.transport.pause_reading()

    def continue_reading(self) -> None:
        if not self._is_reading and not self.transport.is_closing() and len(self.pipeline) <= _MAX_WAITING_READ:
            self._is_reading = True
            self.transport.resume_reading()

    # What goes out

    def _begin(self, cycle: RequestCycle) -> None:
        self._current = cycle
        self._batcher.active_requests += 1
        cycle.task = self._loop.create_task(cycle.run(self.app))
        self._state.tasks.add(cycle.task)

    def task_ended(self, cycle: RequestCycle) -> None:
        """Called by the task itself. A task that is cancelled before its first step stays in the set: only uvicorn does
        that, at its end, when it no longer waits for any."""
        self._batcher.active_requests -= 1
        if cycle.task is not None:
            self._state.tasks.discard(cycle.task)

    def reply_finished(self, cycle: RequestCycle) -> None:
        self._state.total_requests += 1
        self._current = None
        if self.transport.is_closing():
            return
        if not cycle.keep_alive and cycle.more_body:
            self._half_close()
        elif not cycle.keep_alive:
            self.close()
        elif self.pipeline:
            self._begin(self.pipeline.popleft())
            self.continue_reading()
        else:
            self._idle_due_s = self._time() + self._keep_alive_s
            if not self._is_reading:
                self.continue_reading()

    def flush_soon(self, cycle: RequestCycle) -> None:
        self._loop.call_soon(cycle.flush)

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
        """Closes once the client has read what it was sent."""
        self._batcher.flush()
        if self._unread_since_s is None:
            self._unread_since_s, self._unread_bytes = self._time(), self.transport.get_write_buffer_size()
        self.transport.close()

    def _half_close(self) -> None:
        """Sends no more, and closes when the client does, or soon after. A client that still sends would get a reset,
        and lose the reply."""
        self._ignores_input = True
        self.pipeline.clear()
        self._head_due_s, self._idle_due_s = None, self._time() + _LINGER_S
        self._batcher.flush()
        self.transport.write_eof()
        self.continue_reading()

    def shutdown(self) -> None:
        """Takes no more requests. The one that is being answered is finished."""
        if (drain := getattr(self.app, "drain", None)) is not None:
            drain()
        if self._current is None:
            self.close()
        else:
            self._current.keep_alive = False

    def check_deadlines(self, now_s: float) -> None:
        if self._head_due_s is not None and now_s >= self._head_due_s:
            self._head_due_s = None
            # A silent connection is one that a browser keeps ready; a request with a body has been answered already.
            if self._overhead_bytes and (self._newest is None or not self._newest.more_body):
                self._batcher.flush()
                self.write(_TIMEOUT)
            self.close()
        if self._idle_due_s is not None and now_s >= self._idle_due_s:
            self._idle_due_s = None
            self.close()
        if self._unread_since_s is not None:
            self._check_slow_reader(now_s, self._unread_since_s)
        if not self._is_reading and _has_peer_closed(self.transport):
            self.transport.abort()

    def _check_slow_reader(self, now_s: float, since_s: float) -> None:
        unread = self.transport.get_write_buffer_size()
        if self._unread_bytes - unread >= _MIN_READ_BYTES:
            self._unread_since_s, self._unread_bytes = now_s, unread
        elif now_s - since_s >= getattr(self.app, "send_timeout_s", _SEND_S):
            self.transport.abort()


def _split_url(url: bytes) -> tuple[str, bytes, bytes]:
    """Returns its decoded path, its raw path and its query."""
    parsed = httptools.parse_url(url)
    raw_path = parsed.path or b"/"  # a whole URL may have none
    return unquote(raw_path.decode("ascii")), raw_path, parsed.query or b""


_split_known_url = lru_cache(maxsize=256)(_split_url)  # clients use the same few URLs again and again


def _address(transport: asyncio.BaseTransport, which: str) -> tuple[str, int] | None:
    found = transport.get_extra_info(which)
    return (str(found[0]), int(found[1])) if isinstance(found, tuple) and len(found) >= 2 else None


def _expects_continue(headers: list[tuple[bytes, bytes]]) -> bool:
    return any(name == b"expect" and value.lower() == b"100-continue" for name, value in headers)


def _has_peer_closed(transport: asyncio.BaseTransport) -> bool:
    """Looks for a hang-up on a connection that is not read, where the system can tell."""
    if transport.is_closing() or not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(transport.get_extra_info("socket"), getattr(select, "POLLRDHUP", 0))
    return bool(poll.poll(0))


def _reply_to(error: httptools.HttpParserError) -> bytes:
    """The reply to a parse error. An exception in our own callbacks is logged as a defect, and answered like one."""
    cause = error.__context__
    if isinstance(cause, _UnclearHost):
        return _HOSTS_REPLY
    if isinstance(cause, _LongHead):
        return _LONG_REPLY
    if cause is not None and not isinstance(cause, httptools.HttpParserError | UnicodeDecodeError):
        log.error("a request could not be read by a defect of aish", exc_info=cause)
    return _BAD_REPLY
