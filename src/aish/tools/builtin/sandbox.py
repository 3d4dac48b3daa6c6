"""A fence around commands, where the machine has one: bubblewrap.

Inside it the workspace and `/tmp` can be written, everything else is read-only, and there is no network unless that is
allowed. It is a second line behind the gate, not a replacement: what is destroyed inside the workspace is gone.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Literal, Protocol

from aish.errors import AishError, ToolError
from aish.wire.process import ProcessSpec, run

SandboxMode = Literal["auto", "bwrap", "off"]

_PROBE_TIMEOUT_S = 5.0
_TMP = "/tmp"
# Whoever can write to a socket or a pipe in there is outside.
_DOORS = re.compile(r"(tmux|ssh|dbus|aish)-.*|screen.*|\.(X11|ICE)-unix")
_MOST_DOORS = 1000


class Sandbox(Protocol):
    async def wrap(self, argv: tuple[str, ...], cwd: Path) -> tuple[str, ...]:
        """The command line that runs `argv` inside; raises ToolError if a fence was demanded and there is none."""

    async def is_active(self) -> bool:
        """Whether commands run inside."""

    async def describe(self) -> str:
        """For `aish doctor`."""


class NoSandbox:
    async def wrap(self, argv: tuple[str, ...], cwd: Path) -> tuple[str, ...]:
        return argv

    async def is_active(self) -> bool:
        return False

    async def describe(self) -> str:
        return "off: commands run with all your rights"


class Bubblewrap:
    """`required` False means: use it where it works, go without where it does not."""

    def __init__(self, workspace: Path, *, required: bool, network: bool) -> None:
        self._workspace = workspace
        self._required = required
        self._network = network
        self._works: bool | None = None

    async def wrap(self, argv: tuple[str, ...], cwd: Path) -> tuple[str, ...]:
        if await self._is_there():
            return (*self._fence(cwd), *argv)
        if self._required:
            raise ToolError("safety.sandbox is bwrap, but bubblewrap is missing or may not be used here")
        return argv

    async def is_active(self) -> bool:
        return await self._is_there()

    async def describe(self) -> str:
        if await self._is_there():
            network = "with network" if self._network else "no network"
            return f"bubblewrap: {self._workspace} and /tmp writable, the rest read-only, {network}"
        return "none: bubblewrap is not installed or not permitted here (apt install bubblewrap)"

    def _fence(self, cwd: Path) -> tuple[str, ...]:
        workspace = str(self._workspace)
        return (
            *("bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--bind", _TMP, _TMP),
            *chain.from_iterable(islice(_closed_doors(), _MOST_DOORS)),
            *("--bind", workspace, workspace, "--chdir", str(cwd)),
            *("--unshare-pid", "--unshare-ipc", "--die-with-parent", "--new-session"),
            *(() if self._network else ("--unshare-net",)),
            "--",
        )

    async def _is_there(self) -> bool:
        """Tried once: kernels and containers may forbid what is installed."""
        if self._works is None:
            self._works = shutil.which("bwrap") is not None and await self._try()
        return self._works

    async def _try(self) -> bool:
        spec = ProcessSpec((*self._fence(self._workspace), "true"), name="bwrap")
        try:
            done = await run(spec, timeout_s=_PROBE_TIMEOUT_S, max_output_bytes=4096)
        except AishError:
            return False
        return done.returncode == 0


def _closed_doors() -> Iterator[tuple[str, ...]]:
    """An empty folder over each that holds ways out, nothing over each that is one. A link leads nowhere new."""
    with os.scandir(_TMP) as entries:
        for entry in entries:
            if entry.is_symlink() or entry.is_file():
                continue
            if not entry.is_dir():
                yield "--ro-bind", os.devnull, entry.path
            elif _DOORS.fullmatch(entry.name):
                yield "--tmpfs", entry.path


def make_sandbox(mode: SandboxMode, workspace: Path, *, network: bool) -> Sandbox:
    if mode == "off":
        return NoSandbox()
    return Bubblewrap(workspace, required=mode == "bwrap", network=network)
