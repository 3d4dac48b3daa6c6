"""Runs the real `aish` command in a process of its own, with a home of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aish.types.events import Event, decode_event

DEADLINE_S = 60


@dataclass
class Ran:
    code: int
    out: str
    err: str

    @property
    def events(self) -> list[Event]:
        return [decode_event(line.encode()) for line in self.out.splitlines()]


@dataclass
class Command:
    home: Path
    env: dict[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        return {**kept, "HOME": str(self.home), "PYTHONDEVMODE": "", **self.env}

    def run(self, *words: str, stdin: str | bytes | None = None, cwd: Path | None = None) -> Ran:
        """Without `stdin` there is nothing to read and no terminal."""
        data = stdin.encode() if isinstance(stdin, str) else stdin
        done = subprocess.run(
            [sys.executable, "-m", "aish", *words],
            input=data if data is not None else b"",
            capture_output=True,
            timeout=DEADLINE_S,
            env=self.environment(),
            cwd=cwd or self.home,
            check=False,
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    def start(self, *words: str, own_group: bool = False) -> subprocess.Popen[bytes]:
        """For a process that a test ends itself; leave it with `ended`. `own_group`: so that it can be sent a signal
        as a terminal does."""
        return subprocess.Popen(
            [sys.executable, "-m", "aish", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment(),
            cwd=self.home,
            start_new_session=own_group,
        )

    def write_config(self, text: str) -> None:
        file = self.home / ".config" / "aish" / "config.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def write_script(self, name: str, steps: list[list[dict[str, Any]]]) -> str:
        """A scripted model; returns the name to ask for."""
        path = self.home / f"{name}.json"
        path.write_text(json.dumps(steps))
        self.write_config(f'[providers.{name}]\nkind = "scripted"\nfile = "{path}"\n')
        return f"{name}:{name}"


def ended(process: subprocess.Popen[bytes], signal_number: int = signal.SIGKILL) -> Ran:
    """Send the signal, wait, and close the pipes."""
    process.send_signal(signal_number)
    out, err = process.communicate(timeout=DEADLINE_S)
    return Ran(process.returncode, out.decode(), err.decode())
