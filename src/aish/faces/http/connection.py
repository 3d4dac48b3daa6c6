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
from collections import deque
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

import httptools

from aish.faces.asgi import CONNECTION, Scope
from aish.faces.http.served import Served
from aish.wire.reads import read_little
from aish.wire.sweep import sweep_of

if TYPE_CHECKING:
    from uvicorn import Config
    from uvicorn.server import ServerState

# For a whole head to arrive. A slow phone takes a second.
HEAD_S = 20.0
# Requests that wait for the one before them, and are still read: only who reads learns that the client has gone.
_MOST_WAITING = 16
# For a client to read what it was sent, where the application does not say.
_SEND_S = 30.0
# Of a body that nobody has taken yet.
_HIGH_WATER_BYTES = 64 * 1024
_ASGI = {"version": "3.0", "spec_version": "2.3"}
_TIMEOUT = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_BAD = b"this is not a request of HTTP"
_BAD_REPLY = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b"
    % (len(_BAD), _BAD)
)

log = logging.getLogger(__name__)


class Connection(asyncio.Protocol):
    def __init__(self, config: Config, server_state: ServerState, app_state: dict[str, Any], _loop: Any = None) -> None:
        if not config.loaded:
            config.load()
        self.app = config.loaded_app
        self._state = server_state
        self._keep_alive_s = config.timeout_keep_alive
        self._parser = httptools.HttpRequestParser(self)
        # What follows a request that ends the connection is not read; the request is answered all the same.
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.pipeline: deque[Served] = deque()  # those that wait for the one before them
        self._current: Served | None = None  # the one being answered
        self._newest: Served | None = None  # the one being read
        self._head_due_s: float | None = None
        self._idle_due_s: float | None = None
        self._full_since_s: float | None = None  # more is waiting to be sent than is kept
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
        self._sweep = sweep_of(self._loop)
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
        """Whoever sends no more is taken to have gone: the transport closes."""

    # What comes in

    def data_received(self, data: bytes) -> None:
        if self._current is None and self._head_due_s is None:
            self._idle_due_s = None
            self._head_due_s = self._time() + HEAD_S
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            if self._newest is not None:  # answered as if it had not asked for it; what follows is in no tongue of ours
                self._newest.keep_alive = False
        except httptools.HttpParserError:
            self._refuse()

    def on_message_begin(self) -> None:
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._expects = False

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self._expects = True
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._head_due_s = None
        parser = self._parser
        url = httptools.parse_url(self._url)
        path = url.path.decode("ascii")
        version = parser.get_http_version()
        scope: Scope = {
            "type": "http",
            "asgi": _ASGI,
            "http_version": version,
            "method": parser.get_method().decode("ascii"),
            "scheme": "http",
            "path": unquote(path) if "%" in path else path,
            "raw_path": url.path,
            "query_string": url.query or b"",
            "root_path": "",
            "headers": self._headers,
            "client": self._client,
            "server": self._server,
        }
        keep_alive = version != "1.0" and parser.should_keep_alive()
        served = self._newest = Served(self, scope, keep_alive=keep_alive, expects=self._expects)
        scope[CONNECTION] = served
        if self._current is None:
            self._begin(served)
            return
        self.pipeline.append(served)
        if len(self.pipeline) > _MOST_WAITING:
            self._stop_reading()

    def on_body(self, body: bytes) -> None:
        served = self._newest
        if served is not None and not served.complete:
            served.add_body(body)
            if served.body_bytes > _HIGH_WATER_BYTES:
                self._stop_reading()

    def on_message_complete(self) -> None:
        if self._newest is not None and not self._newest.complete:
            self._newest.end_body()
        elif self._current is None:  # its answer did not wait for it
            self._head_due_s, self._idle_due_s = None, self._time() + self._keep_alive_s

    def _refuse(self) -> None:
        """What is being answered in full is; what is being read has no end any more."""
        self._stop_reading()
        served = self._current
        if served is not None and (served is not self._newest or not served.more_body):
            served.keep_alive = False
            self.pipeline.clear()
            return
        if served is None or not served.started:
            self.write(_BAD_REPLY)
        if served is not None:
            served.leave()
        self.transport.close()

    def _stop_reading(self) -> None:
        if self._is_reading and not self.transport.is_closing():
            self._is_reading = False
            self.transport.pause_reading()

    def read_on(self) -> None:
        if not self._is_reading and not self.transport.is_closing() and len(self.pipeline) <= _MOST_WAITING:
            self._is_reading = True
            self.transport.resume_reading()

    # What goes out

    def _begin(self, served: Served) -> None:
        self._current = served
        task = self._loop.create_task(served.run(self.app))
        tasks = self._state.tasks
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def answered(self, served: Served) -> None:
        self._state.total_requests += 1
        self._current = None
        if not served.keep_alive or self.transport.is_closing():
            self.transport.close()
        elif self.pipeline:
            self._begin(self.pipeline.popleft())
            self.read_on()
        else:
            self._idle_due_s = self._time() + self._keep_alive_s
            self.read_on()

    def write_soon(self, served: Served) -> None:
        self._loop.call_soon(served.flush)

    def pause_writing(self) -> None:
        self.is_full = True
        self._full_since_s = self._time()
        self._writable = asyncio.Event()

    def resume_writing(self) -> None:
        self.is_full = False
        self._full_since_s = None
        if self._writable is not None:
            self._writable.set()

    async def drain(self) -> None:
        if self._writable is not None:
            await self._writable.wait()

    # How it ends

    def close(self) -> None:
        self.transport.close()

    def shutdown(self) -> None:
        """No more requests; the one that is being answered is."""
        if (drain := getattr(self.app, "drain", None)) is not None:
            drain()
        if self._current is None:
            self.transport.close()
        else:
            self._current.keep_alive = False

    def look(self, now_s: float) -> None:
        if self._head_due_s is not None and now_s >= self._head_due_s:
            self._head_due_s = None
            self.write(_TIMEOUT)
            self.transport.close()
        if self._idle_due_s is not None and now_s >= self._idle_due_s:
            self._idle_due_s = None
            self.transport.close()
        if self._full_since_s is not None and now_s - self._full_since_s >= getattr(
            self.app, "send_timeout_s", _SEND_S
        ):
            self.transport.abort()


def _address(transport: asyncio.BaseTransport, which: str) -> tuple[str, int] | None:
    found = transport.get_extra_info(which)
    return (str(found[0]), int(found[1])) if isinstance(found, tuple) and len(found) >= 2 else None
