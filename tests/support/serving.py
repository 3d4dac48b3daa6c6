"""`aish serve` as a process of its own, over the recording upstream and MCP servers, for tests with real clients.

    with serving(home) as served:
        served.upstream.reply(text("hello"))
        ... a client talks to served.url ...

Two MCP servers stand behind it: `everything`, a real one, and `desk`, ours, whose tools a test can watch and hold:
`note` writes down what it is told (so that a call run twice shows), `wait` comes back when the test says so, `fail`
fails. All of them are injected into every request and need no approval.

CLIENTS_DIRECT=1 lets the clients talk to the upstream itself, to tell a fault of theirs from one of ours; what needs a
server in between is then passed over.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.free_port import free_port
from support.mcp_stub import Server
from support.mcp_stub import text as text_result
from support.mcp_stub import tool as tool_entry
from support.recording_upstream import RecordingUpstream, recording_upstream

TESTS = Path(__file__).parents[1]
READY_S = 60.0
DIRECT = bool(os.environ.get("CLIENTS_DIRECT"))
STARTED_BEFORE_GO_S = 60.0
NOTE = "desk__note"
WAIT = "desk__wait"
FAIL = "desk__fail"
ECHO = "everything__echo"


@dataclass
class Desk:
    """The other end of the tools of `desk`."""

    folder: Path

    @property
    def notes(self) -> list[str]:
        file = self.folder / "notes.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def is_waited_at(self) -> bool:
        return (self.folder / "waiting").exists()

    def wait_until_waited_at(self) -> None:
        deadline = time.monotonic() + STARTED_BEFORE_GO_S
        while not self.is_waited_at():
            assert time.monotonic() < deadline, "nobody called `wait`"
            time.sleep(0.01)

    def go(self) -> None:
        (self.folder / "go").touch()


@dataclass
class Served:
    port: int
    upstream: RecordingUpstream
    desk: Desk
    log: Path
    pid: int = 0

    @property
    def url(self) -> str:
        """As clients want it, with /v1."""
        return f"http://127.0.0.1:{self.port}/v1"

    def said(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""


def configuration(desk: Path, everything: tuple[str, ...], more: str) -> str:
    """`more` may add to `[serve]`, which comes last."""
    env = f"env = {{ PYTHONPATH = {json.dumps(str(TESTS))} }}\n"
    args = ["-m", "support.serving", str(desk)]
    return (
        '[mcp]\nauto_approve = ["desk__*", "everything__*"]\n'
        f"[mcp.servers.desk]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps(args)}\n{env}"
        f"[mcp.servers.everything]\ncommand = {json.dumps(everything[0])}\nargs = {json.dumps(everything[1:])}\n"
        f'[serve]\ntools = ["desk__*", "{ECHO}"]\n{more}'
    )


@contextmanager
def serving(home: Path, everything: tuple[str, ...], *words: str, config: str = "") -> Iterator[Served]:
    """Ready, its tools registered; ended by SIGTERM, and whatever is left of its group by SIGKILL."""
    folder = home / "desk"
    folder.mkdir()
    with recording_upstream() as upstream:
        desk = Desk(folder)
        if DIRECT:
            yield Served(int(upstream.url.split(":")[2].partition("/")[0]), upstream, desk, home / "none.log")
            return
        file = home / ".config" / "aish" / "config.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(configuration(folder, everything, config))
        served = Served(free_port(), upstream, desk, home / "serve.log")
        with _process(home, served, *words) as process:
            _ready(served, process)
            yield served


@contextmanager
def _process(home: Path, served: Served, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    command = [sys.executable, "-m", "aish", "serve", "--listen", f"127.0.0.1:{served.port}"]
    command += ["--endpoint", f"up={served.upstream.url}", *words]
    with served.log.open("wb") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**kept, "HOME": str(home)},
            cwd=home,
            start_new_session=True,
        )
    served.pid = process.pid
    try:
        yield process
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=20)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=10)


def _ready(served: Served, process: subprocess.Popen[bytes]) -> None:
    """It takes work, and both MCP servers are connected: a call of a tool that is still to come would be refused."""
    deadline = time.monotonic() + READY_S
    found = b""
    while True:
        with contextlib.suppress(OSError, http.client.HTTPException):
            if request(served.port, "GET", "/readyz")[0] == 200:
                status, found = request(served.port, "POST", "/internal/refresh_mcp_tools", {})
                if status == 200 and json.loads(found)["ok"]:
                    return
        assert process.poll() is None, f"aish serve ended with {process.returncode}: {served.said()}"
        assert time.monotonic() < deadline, f"aish serve is not ready: {found!r} {served.said()}"
        time.sleep(0.02)


def request(port: int, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, {"content-type": "application/json", **headers})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def refuses(port: int) -> bool:
    """Whether nobody takes connections there."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return True
    return False


class _DeskServer(Server):
    """The MCP server itself: `python -m support.serving FOLDER`."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
        self.tools = [tool_entry("note", inputSchema=schema), tool_entry("wait"), tool_entry("fail")]

    def call(self, params: dict[str, Any]) -> Any:
        match params["name"]:
            case "note":
                said = params["arguments"]["text"]
                with (self.folder / "notes.jsonl").open("a") as file:
                    file.write(json.dumps(said) + "\n")
                return text_result(f"noted: {said}")
            case "wait":
                (self.folder / "waiting").touch()
                while not (self.folder / "go").exists():
                    time.sleep(0.01)
                return text_result("waited")
        return super().call(params)


if __name__ == "__main__":
    _DeskServer(Path(sys.argv[1])).run()
