"""`aish serve`: the application under uvicorn, until a signal ends it.

SIGTERM and SIGINT: no new requests, streams under way have `drain_s` to end, then everything is closed in order.
"""

from __future__ import annotations

import argparse
import gc
import ipaddress
import socket
import sys
from collections.abc import Callable

import uvicorn

from aish.engine.session import Engine
from aish.errors import UsageError
from aish.faces.asgi import App as Asgi
from aish.faces.http.app import App
from aish.faces.http.service import Service
from aish.faces.runtime import Runtime

MountMcp = Callable[[Callable[[], Engine]], Asgi]


def run(arguments: argparse.Namespace, runtime: Runtime, mount_mcp: MountMcp) -> int:
    host, port = read_listen(arguments.listen or runtime.config.serve.listen)
    service = Service(runtime)
    app = App(service, {"/mcp": mount_mcp(lambda: service.engine)})
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http="httptools",
        loop="asyncio",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=max(1, round(runtime.config.serve.drain_s)),
    )
    for notice in runtime.notices:
        print(f"· {notice}", file=sys.stderr)
    server = _Server(config, service)
    # What is loaded now stays: the collector need not look at it again and again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)
    server.run()
    return 0 if server.started else 1


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            for server in self.servers:
                for place in server.sockets:
                    print(f"aish serves at {_url(place.getsockname())}", file=sys.stderr, flush=True)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.draining = True
        await super().shutdown(sockets)


def read_listen(listen: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"--listen {listen!r} is not HOST:PORT", hint="for example --listen 127.0.0.1:8600")
    return host.strip("[]") or "127.0.0.1", int(port)


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _url(address: tuple[object, ...]) -> str:
    host, port = str(address[0]), address[1]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
