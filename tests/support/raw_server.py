"""A scriptable TCP server for tests: it says exactly the bytes a test wants, when it wants them.

    async def script(peer: Peer) -> None:
        await peer.request()                    # reads and records one request
        await peer.send(b"HTTP/1.1 200 OK\\r\\n...")
        assert await peer.left() == "eof"       # waits until the client goes

    async with raw_server(script) as server:
        ... server.url, server.peers, server.requests ...

The script runs once per connection, and the connection is closed when it returns. A script that raises anything but
ConnectionError fails the test on leaving the server's context. Every wait has a deadline.

`nothing_left()` is a context that fails when tasks or sockets of this process outlive it.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

DEADLINE_S = 10.0

Departure = Literal["eof", "reset"]


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes
    raw_head: bytes


@dataclass
class Peer:
    """One connection that a client has made."""

    number: int
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    requests: list[Request] = field(default_factory=list)

    async def request(self) -> Request:
        """The next request; asyncio.IncompleteReadError when the client leaves instead."""
        async with asyncio.timeout(DEADLINE_S):
            head = await self.reader.readuntil(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
            method, path, _ = first.split(" ", 2)
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        request = Request(method, path, headers, body, head)
        self.requests.append(request)
        return request

    async def send(self, *pieces: bytes) -> None:
        """Each piece in a write of its own, with a turn of the loop after it, so that the client can see it alone."""
        async with asyncio.timeout(DEADLINE_S):
            for piece in pieces:
                self.writer.write(piece)
                await self.writer.drain()
                await asyncio.sleep(0)

    async def send_bytewise(self, data: bytes) -> None:
        await self.send(*(data[i : i + 1] for i in range(len(data))))

    async def left(self) -> Departure:
        """Waits until the client has closed its side; what it still sends is thrown away."""
        async with asyncio.timeout(DEADLINE_S):
            try:
                while await self.reader.read(65536):
                    pass
            except ConnectionError:
                return "reset"
            return "eof"

    def reset(self) -> None:
        """Close with a TCP reset instead of an orderly end."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Script = Callable[[Peer], Awaitable[None]]


@dataclass
class RawServer:
    url: str
    peers: list[Peer] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    listener: asyncio.Server | None = None

    def refuse(self) -> None:
        """No new connections from now on; those that are there go on."""
        assert self.listener is not None
        self.listener.close()

    @property
    def requests(self) -> list[Request]:
        return [request for peer in self.peers for request in peer.requests]

    async def scripts_ended(self) -> None:
        """Waits until every connection's script has run to its end."""
        async with asyncio.timeout(DEADLINE_S):
            while self.tasks:
                await asyncio.wait(list(self.tasks))


async def _run(server: RawServer, script: Script, peer: Peer) -> None:
    try:
        await script(peer)
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    except Exception as exc:
        server.failures.append(exc)
    finally:
        peer.writer.close()


async def _stop(server: RawServer) -> None:
    for task in server.tasks:
        task.cancel()
    for peer in server.peers:
        transport = peer.writer.transport
        if not transport.is_closing() or transport.get_write_buffer_size():  # one that is closed cannot be aborted
            transport.abort()
    await asyncio.gather(*server.tasks, return_exceptions=True)
    async with asyncio.timeout(DEADLINE_S):
        await asyncio.gather(*(peer.writer.wait_closed() for peer in server.peers), return_exceptions=True)


@asynccontextmanager
async def raw_server(
    script: Script, *, tls: ssl.SSLContext | None = None, unix_path: str = "", host: str = "127.0.0.1"
) -> AsyncIterator[RawServer]:
    """`url` has no path: `http://127.0.0.1:PORT`, `https://localhost:PORT` with `tls`, `unix://PATH:` for a socket."""
    server = RawServer("")

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(len(server.peers) + 1, reader, writer)
        server.peers.append(peer)
        task = asyncio.create_task(_run(server, script, peer))
        server.tasks.add(task)
        task.add_done_callback(server.tasks.discard)

    if unix_path:
        listener = await asyncio.start_unix_server(accept, unix_path)
        server.url = f"unix://{unix_path}:"
    else:
        listener = await asyncio.start_server(accept, host, 0, ssl=tls, backlog=1024)
        port = listener.sockets[0].getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        server.url = f"https://localhost:{port}" if tls else f"http://{shown}:{port}"
    server.listener = listener
    try:
        yield server
    finally:
        listener.close()
        await _stop(server)
        await listener.wait_closed()
    if server.failures:
        raise ExceptionGroup("the server's script failed", server.failures)


def open_sockets() -> int:
    """How many sockets this process has open; 0 where the system does not tell."""
    table = Path("/proc/self/fd")
    count = 0
    for entry in table.iterdir() if table.is_dir() else ():
        try:
            count += str(entry.readlink()).startswith("socket:")
        except FileNotFoundError:
            continue  # the one that lists the folder
    return count


@asynccontextmanager
async def nothing_left() -> AsyncIterator[None]:
    sockets = open_sockets()
    tasks = asyncio.all_tasks()
    yield
    for _ in range(3):  # closing a transport takes an iteration of the loop, two under TLS
        await asyncio.sleep(0)
    left = {task for task in asyncio.all_tasks() - tasks if task is not asyncio.current_task()}
    assert not left, f"tasks outlive the test: {left}"
    assert open_sockets() <= sockets, "sockets outlive the test"
