"""`aish serve`: the application under uvicorn, until a signal ends it.

SIGTERM and SIGINT: no new requests are taken, streams under way have `drain_s` to end, then everything is closed in
order. A later SIGINT ends the waiting. A second SIGTERM changes nothing, since some supervisors send it twice (to a
process and to its group, for example). SIGHUP reads the configuration anew; requests under way keep the old one. With
several workers a supervisor process passes the signals on.

Exit codes: 0 after SIGTERM, which asks for just this; 130 after SIGINT.
"""

from __future__ import annotations

import argparse
import gc
import ipaddress
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import FrameType

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess
from uvicorn.supervisors.multiprocess import Process

from aish.engine.engine import Engine
from aish.errors import UsageError
from aish.frontends.asgi import App as Asgi
from aish.frontends.http.metrics.counters import MANY_WORKERS, forget_process
from aish.frontends.http.server.app import App
from aish.frontends.http.server.connection import ClientConnection
from aish.frontends.http.server.logs import log_to
from aish.frontends.http.server.service import Service
from aish.frontends.runtime import Runtime
from aish.frontends.signals import INTERRUPTED
from aish.process.memory import fix_malloc_thresholds
from aish.safety.redaction.secret_formats import looks_secret

MountMcp = Callable[[Callable[[], Engine]], Asgi]

_MAX_WORKERS = 64


def run(arguments: argparse.Namespace, runtime: Runtime, mount_mcp: MountMcp, worker: Callable[[], App]) -> int:
    """`worker` makes the application in another process, so it can be pickled."""
    log_to(runtime.config.log, runtime.redact_text)
    for notice in runtime.notices:
        print(f"· {notice}", file=sys.stderr)
    if not 1 <= arguments.workers <= _MAX_WORKERS:
        raise UsageError(f"--workers must be between 1 and {_MAX_WORKERS}")
    keys_of(arguments, runtime.launch_context.env)  # reports errors once, and not in each worker
    if arguments.workers > 1:
        return _run_many(arguments, runtime, worker)
    service, app = make_app(arguments, runtime, mount_mcp)
    server = _Server(_config(app, arguments, runtime), service)
    try:
        server.run()
    except SystemExit as exc:  # uvicorn has logged why
        raise _start_failed(arguments, runtime) from exc
    return _exit_code(server.signals) if server.started else 1


def make_app(arguments: argparse.Namespace, runtime: Runtime, mount_mcp: MountMcp) -> tuple[Service, App]:
    log_to(runtime.config.log, runtime.redact_text)  # again in each worker, which is a process of its own
    fix_malloc_thresholds()
    host, _ = _listen(arguments, runtime)
    service = Service(runtime, keys_of(arguments, runtime.launch_context.env), must_have_keys=not is_loopback(host))
    app = App(service, {"/mcp": mount_mcp(lambda: service.engine)}, reloads=True)
    # Objects that exist now stay, so the garbage collector can skip them.
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)  # a request makes a thousand objects and leaves none behind
    return service, app


def keys_of(arguments: argparse.Namespace, env: Mapping[str, str]) -> list[str]:
    """The keys that are given for this run."""
    keys: list[str] = [*arguments.key]
    for name in arguments.key_env:
        if not looks_secret(name):  # the name decides that tools do not see it and that records omit it
            raise UsageError(f"{name} is no name for a variable that holds a secret", hint="call it SERVER_KEY, say")
        if not (key := env.get(name, "").strip()):
            raise UsageError(f"the variable {name}, which is to hold a key, is not set", hint=f"export {name}=…")
        keys.append(key)
    return keys


def _run_many(arguments: argparse.Namespace, runtime: Runtime, worker: Callable[[], App]) -> int:
    with tempfile.TemporaryDirectory(prefix="aish-metrics-") as folder:
        os.environ[MANY_WORKERS] = folder
        config = _config(worker, arguments, runtime, factory=True, workers=arguments.workers)
        try:
            listener = config.bind_socket()
        except SystemExit as exc:
            raise _start_failed(arguments, runtime) from exc
        _announce([listener])
        workers = _Workers(config, sockets=[listener])
        workers.run()
    if any(one.exitcode == STARTUP_FAILURE for one in workers.processes):
        raise _start_failed(arguments, runtime)
    return _exit_code(workers.signals)


def _exit_code(signals: Sequence[int]) -> int:
    """The exit code, by the signals that ended the server."""
    return INTERRUPTED if signal.SIGINT in signals else 0


def _start_failed(arguments: argparse.Namespace, runtime: Runtime) -> UsageError:
    listen = arguments.listen or runtime.config.serve.listen
    return UsageError(f"the server could not start at {listen}", hint="why is said above")


def _config(
    app: App | Callable[[], App],
    arguments: argparse.Namespace,
    runtime: Runtime,
    *,
    factory: bool = False,
    workers: int = 1,
) -> uvicorn.Config:
    host, port = _listen(arguments, runtime)
    return uvicorn.Config(
        app,
        factory=factory,
        workers=workers,
        host=host,
        port=port,
        http=ClientConnection,
        ws="none",  # a websocket library that is installed would replace our connections
        loop="auto",  # uvloop, where there is one
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=_drain_s(runtime),
    )


def _drain_s(runtime: Runtime) -> int:
    return max(1, round(runtime.config.serve.drain_s))


class _QuietServer(uvicorn.Server):
    """Does not raise the signals again at its end, as uvicorn's own does: the process would look killed, and cancelled
    requests could not tell their clients."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.signals: list[int] = []

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.signals.append(sig)
        if sig == signal.SIGINT:
            self.force_exit = self.should_exit
        self.should_exit = True


class _Server(_QuietServer):
    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            _announce([listener for server in self.servers for listener in server.sockets])

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.draining = True
        self.config.timeout_graceful_shutdown = _drain_s(self._service.runtime)  # it may have been read anew
        await super().shutdown(sockets)


class _Worker(Process):
    def start(self) -> None:
        """Closes the worker's end of the pipe here. While it is open, a worker that has ended looks like a slow one."""
        super().start()
        self.child_conn.close()

    @property
    def server(self) -> uvicorn.Server:
        if self._server is None:
            self._server = _QuietServer(self.config)
        return self._server


class _Workers(Multiprocess):
    """Differs from uvicorn's own: SIGHUP does not end the workers. SIGTERM reaches them at once, and the listening
    socket is closed where no more requests are taken. A second signal is obeyed."""

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket]) -> None:
        super().__init__(config, sockets)
        self.signals: list[int] = []
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._end)

    def _end(self, number: int, frame: FrameType | None) -> None:
        """A signal handler. It may not wake the event loop, which may be about to wait."""
        self.signal_queue.append(number)
        self.signals.append(number)
        if len(self.signals) == 1:
            self._pass_on(signal.SIGTERM)
        elif number == signal.SIGINT:
            self._pass_on(signal.SIGINT)

    def init_processes(self) -> None:
        self.processes = [self._start_worker() for _ in range(self.processes_num)]

    def _start_worker(self) -> Process:
        worker = _Worker(self.config, self.sockets)
        worker.start()
        return worker

    def terminate_all(self) -> None:
        """Overrides uvicorn's: closes the listening sockets first, so that nothing more connects."""
        for listener in self.sockets:
            listener.close()
        super().terminate_all()

    def keep_subprocess_alive(self) -> None:
        for index, worker in enumerate(self.processes):
            if self._is_ending or worker.is_alive(timeout=self.config.timeout_worker_healthcheck):
                continue
            worker.kill()  # it may hang
            worker.join()
            if worker.pid is not None:
                forget_process(worker.pid)  # it could not remove its own figures
            if worker.exitcode == STARTUP_FAILURE:  # it would fail in the same way again
                self.should_exit.set()
            elif not self._is_ending:
                self.processes[index] = self._start_worker()

    @property
    def _is_ending(self) -> bool:
        """Also true when the loop has not handled the signal yet."""
        return bool(self.signals) or self.should_exit.is_set()

    def handle_hup(self) -> None:
        self._pass_on(signal.SIGHUP)

    def _pass_on(self, number: signal.Signals) -> None:
        if os.name == "nt":  # there a signal would end them at once
            return
        for worker in self.processes:
            if worker.pid is not None and worker.process.is_alive():
                with suppress(ProcessLookupError):
                    os.kill(worker.pid, number)


def _listen(arguments: argparse.Namespace, runtime: Runtime) -> tuple[str, int]:
    return read_listen(arguments.listen or runtime.config.serve.listen)


def read_listen(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    if not port.isdecimal() or int(port[:9]) > 65535:
        raise UsageError(f"{listen!r} is not HOST:PORT", hint="for example --listen 127.0.0.1:8600")
    return host.strip("[]") or "127.0.0.1", int(port)


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _announce(listeners: Sequence[socket.socket]) -> None:
    for listener in listeners:
        host, port = listener.getsockname()[:2]
        print(
            f"aish serves at http://[{host}]:{port}" if ":" in host else f"aish serves at http://{host}:{port}",
            file=sys.stderr,
            flush=True,
        )
