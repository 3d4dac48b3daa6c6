"""A server's connections over real sockets, without the rest of the server."""

import asyncio
import socket
from contextlib import asynccontextmanager

import uvicorn
from uvicorn.server import ServerState

from aish.frontends.http.server.connection import ClientConnection
from support.eventually import eventually

DEADLINE_S = 5.0


@asynccontextmanager
async def listening(app, *, keep_alive_s=60):
    """The port, and the state that uvicorn keeps of its connections."""
    config = uvicorn.Config(
        app,
        http=ClientConnection,
        ws="none",
        lifespan="off",
        log_config=None,
        proxy_headers=False,
        timeout_keep_alive=keep_alive_s,
    )
    config.load()
    state = ServerState()
    loop = asyncio.get_running_loop()
    place = socket.create_server(("127.0.0.1", 0))
    place.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16_384)  # or the system takes all that a test sends
    server = await loop.create_server(lambda: ClientConnection(config, state, {}), sock=place)
    try:
        yield place.getsockname()[1], state
    finally:
        server.close()
        for connection in list(state.connections):
            connection.transport.abort()
        await eventually(lambda: not state.connections and not state.tasks)


@asynccontextmanager
async def client(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    async with asyncio.timeout(DEADLINE_S):
        try:
            yield reader, writer
        finally:
            writer.transport.abort()
