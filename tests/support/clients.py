"""Real clients of the OpenAI APIs, installed once under `.cache` by locks, and run with homes of their own.

opencode, codex and the Node SDK come from npm; the Python SDK has an environment of its own. A client that cannot be
installed is an error, not a reason to skip a test.

Every client runs in its own process group with a deadline; the group is killed when its owner leaves.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.free_port import free_port
from support.installed import node, node_modules, python_programs

DEADLINE_S = 120.0
MODEL = "some-model"
KEY = "sk-of-the-test"

Json = dict[str, Any]


# Installing.


def npm_modules() -> Path:
    return node_modules("clients")


def opencode_program() -> Path:
    return npm_modules() / "opencode-linux-x64" / "bin" / "opencode"


def codex_program() -> Path:
    vendor = npm_modules() / "@openai" / "codex-linux-x64" / "vendor"
    return next(vendor.glob("*/bin/codex"))


def sdk_python() -> Path:
    """An interpreter that has the official Python SDK."""
    return python_programs("openai-python") / "python"


# Running.


@dataclass
class Ended:
    code: int
    out: str
    err: str


@dataclass
class Client:
    """Where a client lives: a home, a folder to work in, and the server to talk to (with /v1)."""

    home: Path
    base_url: str
    model: str = MODEL
    key: str = KEY

    def __post_init__(self) -> None:
        self.work.mkdir(parents=True, exist_ok=True)

    @property
    def work(self) -> Path:
        return self.home / "work"

    def environment(self, **more: str) -> dict[str, str]:
        folders = {f"XDG_{name}_HOME": str(self.home / name.lower()) for name in ("CONFIG", "DATA", "CACHE", "STATE")}
        kept = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
        path = f"{node().parent}{os.pathsep}{os.environ['PATH']}"
        return {**kept, "PATH": path, "HOME": str(self.home), **folders, "NO_PROXY": "*", **more}


@contextmanager
def group(words: Sequence[str | Path], env: dict[str, str], cwd: Path, **more: Any) -> Iterator[subprocess.Popen[str]]:
    """A process whose whole group ends with the context."""
    process = subprocess.Popen(words, env=env, cwd=cwd, text=True, start_new_session=True, **more)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=10)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe:
                pipe.close()


def run(words: Sequence[str | Path], env: dict[str, str], cwd: Path, timeout_s: float = DEADLINE_S) -> Ended:
    piped = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with group(words, env, cwd, **piped) as process:
        try:
            out, err = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired as exc:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate(timeout=10)
            told = f"{out[-2000:]} {err[-2000:]}"
            raise AssertionError(f"{words[0]} was not through after {timeout_s:g} s: {told}") from exc
    return Ended(process.returncode, out, err)


# The SDKs.


def python_sdk(client: Client, script: str, timeout_s: float = DEADLINE_S) -> Any:
    """Runs a script that has `client` (with our address and key), `model` and `say(value)`; returns what it said."""
    head = (
        "import json, openai\n"
        f"client = openai.OpenAI(base_url={client.base_url!r}, api_key={client.key!r}, max_retries=0, timeout=60)\n"
        f"model = {client.model!r}\n"
        "def say(value): print(json.dumps(value))\n"
    )
    done = run([sdk_python(), "-W", "error", "-c", head + script], client.environment(), client.work, timeout_s)
    assert done.code == 0, done.err
    return json.loads(done.out)


def node_sdk(client: Client, script: str, timeout_s: float = DEADLINE_S) -> Any:
    """The same in JavaScript (a module: `await` works)."""
    head = (
        "import OpenAI from 'openai';\n"
        f"const client = new OpenAI({{baseURL: {json.dumps(client.base_url)}, apiKey: {json.dumps(client.key)}, "
        "maxRetries: 0, timeout: 60000});\n"
        f"const model = {json.dumps(client.model)};\n"
        "const say = (value) => console.log(JSON.stringify(value));\n"
    )
    file = client.work / f"script-{time.monotonic_ns()}.mjs"
    file.write_text(head + script)
    modules = client.work / "node_modules"
    if not modules.exists():
        modules.symlink_to(npm_modules())
    done = run([node(), file], client.environment(), client.work, timeout_s)
    assert done.code == 0, done.err
    return json.loads(done.out)


# codex.


@dataclass
class CodexRan:
    code: int
    answer: str  # the last message
    events: list[Json]
    err: str

    def items(self, kind: str) -> list[Json]:
        """What happened, finished, of one kind: `agent_message`, `command_execution`, `mcp_tool_call`, `error` …"""
        done = [event["item"] for event in self.events if event["type"] == "item.completed"]
        return [item for item in done if item["type"] == kind]


def codex(
    client: Client, prompt: str, *, resume: bool = False, idle_ms: int = 60_000, retries: int = 0, **more: Any
) -> CodexRan:
    """`codex exec`, its events as JSON; `resume` goes on with the latest conversation of this home."""
    home = client.home / "codex"
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(
        f'model = "{client.model}"\nmodel_provider = "local"\ncheck_for_update_on_startup = false\n'
        'approval_policy = "never"\nsandbox_mode = "danger-full-access"\n'
        "[analytics]\nenabled = false\n"
        f'[model_providers.local]\nname = "local"\nbase_url = "{client.base_url}"\nenv_key = "LOCAL_KEY"\n'
        f'wire_api = "responses"\nrequest_max_retries = {retries}\nstream_max_retries = {retries}\n'
        f"stream_idle_timeout_ms = {idle_ms}\n"
    )
    answer = client.home / "codex-answer.txt"
    answer.unlink(missing_ok=True)
    go_on = ("resume", "--last") if resume else ()
    words: list[str | Path] = [codex_program(), "exec", *go_on, "--skip-git-repo-check", "--json", "-o", answer, prompt]
    done = run(words, client.environment(CODEX_HOME=str(home), LOCAL_KEY=client.key), client.work, **more)
    events = [json.loads(line) for line in done.out.splitlines() if line.startswith("{")]
    return CodexRan(done.code, answer.read_text() if answer.exists() else "", events, done.err)


# opencode.


def _opencode_environment(client: Client, **options: Any) -> dict[str, str]:
    models = {client.model: {"tool_call": True, "limit": {"context": 100_000, "output": 4096}}}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": client.base_url, "apiKey": client.key, **options},
        "models": models,
    }
    name = f"local/{client.model}"
    config = {
        "autoupdate": False,
        "share": "disabled",
        "provider": {"local": provider},
        "model": name,
        "small_model": name,
        "permission": {"*": "allow"},
    }
    switches = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
    off = {f"OPENCODE_DISABLE_{name}": "1" for name in switches}
    return client.environment(OPENCODE_CONFIG_CONTENT=json.dumps(config), OPENCODE_PURE="1", **off)


def opencode_run(client: Client, prompt: str, *words: str, timeout_s: float = DEADLINE_S, **options: Any) -> Ended:
    command: list[str | Path] = [opencode_program(), "run", "--auto", *words, prompt]
    return run(command, _opencode_environment(client, **options), client.work, timeout_s)


@dataclass
class Opencode:
    """An `opencode serve` under way, and everything its event feed has said."""

    port: int
    client: Client
    events: list[Json] = field(default_factory=list)
    _more: threading.Condition = field(default_factory=threading.Condition)

    def new_session(self) -> str:
        return str(self.post("/session", {})["id"])

    def ask(self, session: str, prompt: str, timeout_s: float = DEADLINE_S) -> Json:
        """Returns the finished message: `info` and `parts`."""
        model = {"providerID": "local", "modelID": self.client.model}
        body = {"model": model, "parts": [{"type": "text", "text": prompt}]}
        message: Json = self.post(f"/session/{session}/message", body, timeout_s)
        return message

    def start(self, session: str, prompt: str) -> threading.Thread:
        """The same in the background, for a test that looks on."""
        thread = threading.Thread(target=self._ask_quietly, args=(session, prompt), daemon=True)
        thread.start()
        return thread

    def _ask_quietly(self, session: str, prompt: str) -> None:
        with contextlib.suppress(OSError, http.client.HTTPException, AssertionError):
            self.ask(session, prompt)

    def abort(self, session: str) -> None:
        self.post(f"/session/{session}/abort", {})

    def post(self, path: str, body: Json, timeout_s: float = DEADLINE_S) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        try:
            connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
            response = connection.getresponse()
            data = response.read()
            assert response.status < 300, f"{path}: {response.status} {data[:2000]!r}"
            return json.loads(data) if data else None
        finally:
            connection.close()

    def of(self, kind: str) -> list[Json]:
        """The properties of all events of one kind so far."""
        return [event["properties"] for event in list(self.events) if event.get("type") == kind]

    def deltas(self) -> list[str]:
        """The text as it came, piece by piece."""
        return [p["delta"] for p in self.of("message.part.delta") if p.get("field") == "text"]

    def wait_for(self, seen: Any, what: str, timeout_s: float = DEADLINE_S) -> None:
        """Until `seen(self)` holds."""
        deadline = time.monotonic() + timeout_s
        with self._more:
            while not seen(self):
                assert self._more.wait(max(0.0, deadline - time.monotonic())), f"opencode never showed {what}"

    def heard(self, event: Json) -> None:
        with self._more:
            self.events.append(event)
            self._more.notify_all()


@contextmanager
def opencode_serving(client: Client, **options: Any) -> Iterator[Opencode]:
    port = free_port()
    log = client.home / "opencode.log"
    words: list[str | Path] = [opencode_program(), "serve", "--hostname", "127.0.0.1", "--port", str(port)]
    with (
        log.open("w") as out,
        group(words, _opencode_environment(client, **options), client.work, stdout=out, stderr=out) as process,
    ):
        opencode = Opencode(port, client)
        feed = _feed(opencode, process, log)
        reader = threading.Thread(target=_follow, args=(opencode, feed), daemon=True)
        reader.start()
        opencode.wait_for(lambda seen: seen.of("server.connected"), "that it is connected")
        yield opencode
    reader.join(10)


def _feed(opencode: Opencode, process: subprocess.Popen[str], log: Path) -> http.client.HTTPConnection:
    """Once it is healthy: a feed asked for while it still starts is accepted and never answered."""
    deadline = time.monotonic() + DEADLINE_S
    while not _healthy(opencode.port):
        assert process.poll() is None, f"opencode ended: {log.read_text()[-2000:]}"
        assert time.monotonic() < deadline, f"opencode does not answer: {log.read_text()[-2000:]}"
        time.sleep(0.05)
    connection = http.client.HTTPConnection("127.0.0.1", opencode.port, timeout=DEADLINE_S)
    connection.request("GET", "/event")
    return connection


def _healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", "/global/health")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _follow(opencode: Opencode, feed: http.client.HTTPConnection) -> None:
    with contextlib.suppress(OSError, http.client.HTTPException, ValueError), feed.getresponse() as response:
        for line in response:
            if line.startswith(b"data:"):
                opencode.heard(json.loads(line[5:]))
    feed.close()
