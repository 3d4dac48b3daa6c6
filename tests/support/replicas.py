"""Several `aish serve` on one database, as processes of their own, over one recording upstream.

with replicas(home, database.url, 2) as (upstream, (a, b)):
    a.ask("POST", "/v1/chat/completions", {...})
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
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from support.free_port import free_port
from support.recording_upstream import RecordingUpstream, recording_upstream
from support.serving import request

READY_S = 60.0
STOP_S = 20.0


class Replica:
    def __init__(self, folder: Path, url: str, upstream: str, config: str) -> None:
        self.port = free_port()
        self.folder = folder
        self._log = folder / "serve.log"
        settings = folder / ".config" / "aish" / "config.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text(config)
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        self._words = ["serve", "--listen", f"127.0.0.1:{self.port}", "--endpoint", f"up={upstream}"]
        self._place: dict[str, Any] = {"env": {**kept, "HOME": str(folder), "AISH_STORE__URL": url}, "cwd": folder}
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "aish", *self._words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self._place,
            )

    def wait_ready(self) -> None:
        deadline = time.monotonic() + READY_S
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if request(self.port, "GET", "/readyz")[0] == 200:
                    return
            said = self._log.read_text(errors="replace")
            assert self.process.poll() is None, f"aish serve ended with {self.process.returncode}: {said}"
            assert time.monotonic() < deadline, f"aish serve is not ready: {said}"
            time.sleep(0.02)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        status, data = request(self.port, method, path, body, **headers)
        return status, json.loads(data)

    def chat(self, text: str, *, headers: dict[str, str] | None = None, **fields: Any) -> tuple[int, Any]:
        usual = {"model": "up:some-model", "messages": [{"role": "user", "content": text}]}
        return self.ask("POST", "/v1/chat/completions", {**usual, **fields}, **(headers or {}))

    def run(self, *words: str) -> str:
        """Another command in the same place, with the same settings."""
        command = [sys.executable, "-m", "aish", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=READY_S, check=False, **self._place)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(timeout=10)

    def stop(self) -> None:
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=STOP_S)
        self.kill()


@contextmanager
def replicas(
    home: Path, url: str, count: int, config: str = ""
) -> Iterator[tuple[RecordingUpstream, Sequence[Replica]]]:
    """Ready; ended by SIGTERM, and whatever is left of them by SIGKILL."""
    with recording_upstream() as upstream, ExitStack() as stack:
        started = []
        for number in range(count):
            folder = home / f"replica_{number}"
            folder.mkdir()
            started.append(Replica(folder, url, upstream.url, config))
            stack.callback(started[-1].stop)
        for replica in started:
            replica.wait_ready()
        yield upstream, started
