"""Other people's software, installed once each under `.cache/peers` at the versions of `peers.toml`.

Every peer has an environment of its own, so that nothing of it reaches ours or another's. Several processes may ask at
once. What cannot be installed raises `PeerMissing` with the reason: a row says so, and the run goes on. Knows nothing
of what is measured.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
CACHE = ROOT / ".cache" / "peers"
PINS = Path(__file__).with_name("peers.toml")
INSTALL_S = 1200  # aider brings half a gigabyte
SHOWN_CHARS = 300
MISSING = "BENCH_PEERS_MISSING"  # what was found not to be had, so that no process tries again


class PeerMissing(Exception):
    """It is not here and cannot be had; the text says why."""


@dataclass(frozen=True)
class Peer:
    name: str
    pypi: tuple[str, ...] = ()
    npm: tuple[str, ...] = ()

    @property
    def wanted(self) -> tuple[str, ...]:
        return self.pypi + self.npm

    @property
    def version(self) -> str:
        first = self.wanted[0]
        return first.rpartition("==")[2] if self.pypi else first.rpartition("@")[2]

    @property
    def folder(self) -> Path:
        return CACHE / self.name

    def program(self, name: str) -> str:
        """A command of it."""
        found = self.folder / ("bin" if self.pypi else "node_modules/.bin") / name
        if not found.exists():
            raise PeerMissing(f"{self.wanted[0]} has no command {name}")
        return str(found)


def pinned() -> dict[str, Peer]:
    found = tomllib.loads(PINS.read_text("utf-8"))
    return {name: Peer(name, tuple(each.get("pypi", ())), tuple(each.get("npm", ()))) for name, each in found.items()}


def installed(name: str) -> Peer:
    """The peer, there to be used."""
    if why := json.loads(os.environ.get(MISSING, "{}")).get(name):
        raise PeerMissing(why)
    peer = pinned()[name]
    CACHE.mkdir(parents=True, exist_ok=True)
    done = CACHE / f"{name}.txt"
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = " ".join(peer.wanted)
        if not done.exists() or done.read_text() != wanted:
            done.unlink(missing_ok=True)
            _install(peer)
            done.write_text(wanted)
    return peer


def _install(peer: Peer) -> None:
    shutil.rmtree(peer.folder, ignore_errors=True)
    if peer.pypi:
        _run(sys.executable, "-m", "venv", str(peer.folder))
        pip = (str(peer.folder / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check")
        _run(*pip, "--quiet", *peer.pypi)
        return
    npm = shutil.which("npm")
    if npm is None:
        raise PeerMissing(f"{peer.wanted[0]} needs npm, which is not here")
    peer.folder.mkdir(parents=True)
    (peer.folder / "package.json").write_text("{}")
    _run(npm, "install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix", str(peer.folder), *peer.npm)


def _run(*words: str) -> None:
    try:
        done = subprocess.run(
            ("nice", "-n", "10", *words),
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=INSTALL_S,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""},  # compiled once, as any install is
        )
    except subprocess.TimeoutExpired as exc:
        raise PeerMissing(f"its installation took longer than {INSTALL_S} s") from exc
    except OSError as exc:
        raise PeerMissing(f"it cannot be installed: {exc}") from exc
    if done.returncode:
        told = done.stderr.decode(errors="replace").strip().splitlines()
        raise PeerMissing(f"it cannot be installed: {' '.join(told[-2:])[-SHOWN_CHARS:]}")


def prepare(names: Iterable[str]) -> dict[str, str]:
    """Installs them, before anything is timed. What cannot be had, and why; processes started from now on know it."""
    missing = {}
    for name in names:
        try:
            installed(name)
        except PeerMissing as exc:
            missing[name] = str(exc)
    os.environ[MISSING] = json.dumps(missing)
    return missing


def main() -> int:
    missing = prepare(sys.argv[1:] or pinned())
    sys.stdout.write("".join(f"{name}: {why}\n" for name, why in missing.items()))
    return int(bool(missing))


if __name__ == "__main__":
    sys.exit(main())
