"""Real MCP software of other people, installed once under `.cache`: servers from npm, servers and the SDK from PyPI.

The SDK has an environment of its own, so that nothing of it can reach ours. Several processes may ask at once.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

CACHE = Path(__file__).parents[2] / ".cache" / "mcp-servers"
INSTALL_S = 600

_SCOPE = "@modelcontextprotocol"
_NPM = tuple(f"{_SCOPE}/server-{name}@2026.8.31" for name in ("everything", "filesystem", "memory"))
_PYPI = ("mcp==2.3.0", "mcp-server-git==2026.10.19", "mcp-server-time==2026.10.19")
# Abandoned: it asks for any `mcp` and breaks on the 2.x it gets. Our example of a server that dies at its start.
_BROKEN = "mcp-server-sqlite==2025.4.25"


def node_server(name: str) -> tuple[str, ...]:
    """The command of a server from npm."""
    with _installing("npm", _NPM) as missing:
        if missing:
            npm = shutil.which("npm") or "npm"
            _run([npm, "install", "--no-audit", "--no-fund", "--prefix", str(CACHE / "npm"), *_NPM])
    script = CACHE / "npm" / "node_modules" / _SCOPE / f"server-{name}" / "dist" / "index.js"
    return shutil.which("node") or "node", str(script)


def sdk_python() -> Path:
    """An interpreter that has the official SDK."""
    with _installing("venv", (*_PYPI, _BROKEN)) as missing:
        if missing:
            _run([sys.executable, "-m", "venv", "--clear", str(CACHE / "venv")])
            pip = [str(_bin("python")), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            _run([*pip, *_PYPI])
            _run([*pip, "--no-deps", _BROKEN])
    return _bin("python")


def python_server(name: str) -> tuple[str, ...]:
    """The command of a server from PyPI."""
    sdk_python()
    return (str(_bin(f"mcp-server-{name}")),)


def _bin(name: str) -> Path:
    return CACHE / "venv" / "bin" / name


@contextmanager
def _installing(folder: str, wanted: Sequence[str]) -> Iterator[bool]:
    """Whether it is still to be done. Noted as done on leaving without an error."""
    CACHE.mkdir(parents=True, exist_ok=True)
    done = CACHE / f"{folder}.txt"
    with (CACHE / f"{folder}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield not done.exists() or done.read_text() != " ".join(wanted)
        done.write_text(" ".join(wanted))


def _run(words: Sequence[str]) -> None:
    subprocess.run(words, check=True, timeout=INSTALL_S, stdout=subprocess.DEVNULL)
