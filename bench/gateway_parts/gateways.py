"""The gateways under test: how each is started over the fake upstream, and the upstream and the load themselves.

Everything is owned by a context and ended with it, whole process groups included. Homes are private and thrown away.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.gateway_parts.processes import cpu_ns, pss_mb, tree

ROOT = Path(__file__).parents[2]
PARTS = Path(__file__).parent
CACHE = ROOT / ".cache" / "bench"
INSTALL_S = 1800
READY_S = 120.0  # LiteLLM takes ten seconds on a quiet machine
ECHO = PARTS / "echo.py"
CHAT = "/v1/chat/completions"

Json = dict[str, Any]

# Of gateways that run now, by port: the load needs no more of them than that.
_headers: dict[int, dict[str, str]] = {}


class DidNotStart(Exception):
    """With the last words of the gateway."""


@dataclass
class Gateway:
    name: str
    port: int
    pid: int = 0
    first_answer_s: float = 0.0
    version: str = ""
    without: str = str(ECHO)  # the MCP server is not the gateway's own cost

    def pids(self) -> list[int]:
        return tree(self.pid, without=self.without) if self.pid else []

    def cpu_ns(self) -> int:
        return cpu_ns(self.pids())

    def pss_mb(self) -> float:
        return pss_mb(self.pids())


@dataclass
class Upstream:
    port: int
    pid: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def stats(self) -> dict[str, int]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request("GET", "/stats")
        found: dict[str, int] = json.loads(connection.getresponse().read())
        connection.close()
        return found

    def settled(self, within_s: float = 30.0) -> None:
        """Waits until no stream is left open, so that one measure does not pay for the one before."""
        deadline = time.monotonic() + within_s
        while self.stats()["active"] and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.2)


@dataclass
class Kind:
    """How to start one: words and files, made for an upstream and a port."""

    name: str
    words: Sequence[str]
    env: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)  # below its home
    version: str = ""
    headers: dict[str, str] = field(default_factory=dict)  # that every request must carry
    path: str = CHAT


# The C parts.


def built(source: Path) -> Path:
    """Compiled when the source is newer."""
    program = CACHE / source.stem
    CACHE.mkdir(parents=True, exist_ok=True)
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if not compiler:
            raise SystemExit("the benchmarks need a C compiler (`cc`) for their upstream and their load")
        fresh = program.with_suffix(f".{os.getpid()}")
        _run(compiler, "-O2", "-Wall", "-o", str(fresh), str(source))
        fresh.replace(program)
    return program


def load(mode: str, port: int, body: Json, *words: float, timeout_s: float = 120.0) -> Json:
    """Runs the load generator to its end."""
    command = [str(built(PARTS / "loadgen.c")), mode, str(port), body["model"], *map(str, words)]
    done = subprocess.run(
        command,
        input=json.dumps(body).encode(),
        check=True,
        capture_output=True,
        timeout=timeout_s,
        env={"HEADERS": "".join(f"{key}: {value}\r\n" for key, value in _headers.get(port, {}).items())},
    )
    measured: Json = json.loads(done.stdout)
    return measured


@contextmanager
def upstream_running() -> Iterator[Upstream]:
    process = subprocess.Popen([str(built(PARTS / "upstream.c"))], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        yield Upstream(int(process.stdout.readline()), process.pid)
    finally:
        process.kill()
        process.wait(timeout=10)


@contextmanager
def running(kind: Kind, port: int) -> Iterator[Gateway]:
    """Started, and through with its first answer."""
    with tempfile.TemporaryDirectory(prefix=f"bench-{kind.name}-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        for name, text in kind.files.items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(text)
        env = {"HOME": folder, "PATH": os.environ["PATH"], "LANG": "C.UTF-8", **kind.env}
        with (home / "log").open("wb") as log:
            started = time.perf_counter()
            process = subprocess.Popen(
                kind.words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=env,
                cwd=home,
                start_new_session=True,
            )
        _headers[port] = kind.headers
        try:
            _first_answer(process, port, home / "log", kind.path)
            yield Gateway(kind.name, port, process.pid, time.perf_counter() - started, kind.version)
        finally:
            _headers.pop(port)
            end(process)


def _first_answer(process: subprocess.Popen[bytes], port: int, log: Path, path: str) -> None:
    question = {"model": "bench-json", "stream": False, "messages": [{"role": "user", "content": "hi"}]}
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        try:
            if answer(port, question, timeout_s=10, path=path)[0] == 200:
                return
        except (OSError, http.client.HTTPException):
            pass
        if process.poll() is not None:
            break
        time.sleep(0.005)
    raise DidNotStart(f"exit code {process.poll()}: {log.read_text(errors='replace')[-2000:].strip()}")


def end(process: subprocess.Popen[Any]) -> None:
    """By the group: none of it may disturb what is measured next."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            continue
    process.wait(timeout=10)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def answer(port: int, body: Json, *, timeout_s: float = 60.0, path: str = CHAT) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    try:
        headers = {"content-type": "application/json", **_headers.get(port, {})}
        connection.request("POST", path, json.dumps(body), headers)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def _run(*words: str) -> None:
    subprocess.run(words, check=True, timeout=INSTALL_S, stdout=subprocess.DEVNULL)
