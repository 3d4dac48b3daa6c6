"""Real language servers, installed once under `.cache`: basedpyright, ty and ruff from PyPI, TypeScript from npm.

clangd comes from the system. Each has a folder of its own, so that a test chooses who is found. Several processes may
ask at once.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

CACHE = Path(__file__).parents[2] / ".cache" / "language-servers"
INSTALL_S = 600

_PYPI = ("basedpyright==1.40.2", "ty==0.0.100", "ruff==0.17.4")
_NPM = {
    "typescript": ("typescript@7.0.2",),
    "typescript-language-server": ("typescript@5.9.3", "typescript-language-server@5.3.0"),
}
_PROGRAMS = {
    "basedpyright": "basedpyright-langserver",
    "ty": "ty",
    "ruff": "ruff",
    "typescript": "tsc",
    "typescript-language-server": "typescript-language-server",
    "clangd": "clangd",
}


def folder_of(server: str) -> str:
    """A folder for PATH that has the server. Skips where it cannot be had."""
    if server == "clangd":
        return _system("clangd", "apt-get install clangd")
    if server in _NPM:
        _system("npm", "install Node.js")
        folder = _from_npm(server)
    else:
        folder = _from_pypi()
    assert (folder / _PROGRAMS[server]).exists()
    return str(folder)


def search_path(*servers: str) -> str:
    """PATH with these servers in front of what every program needs."""
    system = [str(Path(found).parent) for name in ("node", "python3") if (found := shutil.which(name))]
    return ":".join([*(folder_of(server) for server in servers), *system, "/usr/bin", "/bin"])


def _system(program: str, hint: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed here: {hint}")
    return str(Path(found).parent)


def _from_pypi() -> Path:
    with _installing("venv", _PYPI) as missing:
        if missing:
            _run([sys.executable, "-m", "venv", "--clear", str(CACHE / "venv")])
            pip = [str(CACHE / "venv" / "bin" / "python"), "-m", "pip", "install", "--quiet"]
            _run([*pip, "--disable-pip-version-check", *_PYPI])
    return CACHE / "venv" / "bin"


def _from_npm(server: str) -> Path:
    with _installing(server, _NPM[server]) as missing:
        if missing:
            npm = shutil.which("npm") or "npm"
            _run([npm, "install", "--no-audit", "--no-fund", "--prefix", str(CACHE / server), *_NPM[server]])
    return CACHE / server / "node_modules" / ".bin"


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


if __name__ == "__main__":  # ahead of the tests, which have less patience
    _from_pypi()
    for name in _NPM if shutil.which("npm") else ():
        _from_npm(name)
