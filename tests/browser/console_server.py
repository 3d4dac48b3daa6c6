"""`aish serve` as a process of its own with scripted models, for a browser to look at.

with console(home) as server:
    page.goto(server.url)
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from browser.scripts import FILE, SCRIPTS
from support.free_port import free_port
from support.serving import request

TESTS = Path(__file__).parents[1]
READY_S = 60.0


@dataclass
class ConsoleServer:
    port: int
    home: Path
    pid: int = 0
    key: str = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    @property
    def workspace(self) -> Path:
        return self.home / "work"

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"authorization": f"Bearer {self.key}"} if self.key else {}
        status, data = request(self.port, method, path, body, **headers)
        assert status == 200, (method, path, status, data)
        return json.loads(data)

    def chat(self, model: str, text: str, session: str, **fields: Any) -> Any:
        body = {"model": f"{model}:{model}", "messages": [{"role": "user", "content": text}], "session_id": session}
        return self.ask("POST", "/v1/chat/completions", {**body, "use_server_history": True, **fields})

    def said(self) -> str:
        return (self.home / "serve.log").read_text(errors="replace")


def configuration(home: Path, more: str) -> str:
    """`more` may add to `[serve]`, which comes last."""
    env = f"env = {{ PYTHONPATH = {json.dumps(str(TESTS))} }}\n"
    args = json.dumps(["-m", "support.serving", str(home / "desk")])
    providers = [
        f'[providers.{name}]\nkind = "scripted"\nfile = {json.dumps(str(home / "scripts" / f"{name}.json"))}\n'
        for name in SCRIPTS
    ]
    desk = f"[mcp.servers.desk]\ncommand = {json.dumps(sys.executable)}\nargs = {args}\n{env}"
    gone = '[mcp.servers.gone]\ncommand = "/nowhere/at-all"\n'
    serve = f'[serve]\ntools = ["runtime__*", "shell__run", "ide__*"]\nheartbeat_s = 1.0\ndrain_s = 0.2\n{more}'
    return "".join(
        [
            'model = "short:short"\n',
            '[discovery]\nenabled = false\n[ide]\nenabled = "always"\n',
            *providers,
            desk,
            gone,
            serve,
        ]
    )


@contextmanager
def console(
    home: Path, *, port: int = 0, more: str = "", key: str = "", words: tuple[str, ...] = ()
) -> Iterator[ConsoleServer]:
    """Ready; ended by SIGTERM, and whatever is left of its group by SIGKILL. A home may be served again."""
    server = ConsoleServer(port or free_port(), home, key=key)
    for folder in ("scripts", "desk", "work", ".config/aish"):
        (home / folder).mkdir(parents=True, exist_ok=True)
    for name, script in SCRIPTS.items():
        (home / "scripts" / f"{name}.json").write_text(json.dumps(script))
    (server.workspace / "greeting.py").write_text(FILE)
    (home / ".config" / "aish" / "config.toml").write_text(configuration(home, more))
    with _process(server, words) as process:
        _await_ready(server, process)
        yield server


def environment(home: Path) -> Mapping[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    return {**kept, "HOME": str(home)}


@contextmanager
def _process(server: ConsoleServer, words: tuple[str, ...]) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "aish", "serve", "--listen", f"127.0.0.1:{server.port}"]
    command += ["--workspace", str(server.workspace), *(("--key", server.key) if server.key else ()), *words]
    with (server.home / "serve.log").open("ab") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment(server.home),
            cwd=server.workspace,
            start_new_session=True,
        )
    server.pid = process.pid
    try:
        yield process
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=20)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=10)


def _await_ready(server: ConsoleServer, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + READY_S
    while True:
        with contextlib.suppress(OSError, http.client.HTTPException):
            if request(server.port, "GET", "/readyz")[0] == 200:
                return
        assert process.poll() is None, f"aish serve ended with {process.returncode}: {server.said()}"
        assert time.monotonic() < deadline, f"aish serve is not ready: {server.said()}"
        time.sleep(0.02)
