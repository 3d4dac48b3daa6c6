"""Runs commands in bubblewrap, if the machine has it.

The workspace and `/tmp` are writable, everything else is read-only, and there is no network unless it is allowed. Files
of aish, folders of keys and browsers in the home, and sockets of privileged services are hidden behind empty files and
folders. The sandbox is a second line of defence behind the gate: destroyed files inside the workspace are lost.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Literal, Protocol

from aish.errors import AishError, ToolError

SandboxMode = Literal["auto", "bwrap", "off"]

_PROBE_TIMEOUT_S = 5.0
_TMP = "/tmp"
_RUN = "/run"
# A process that can write to a socket or pipe in these can act outside. New sockets appear in them at any time.
_SOCKET_FOLDERS = re.compile(r"(tmux|ssh|dbus|aish|emacs|nvim)[-.\d].*|screen.*|\.(X11|ICE)-unix")
_MAX_COVERED = 1000
# Services put their sockets no deeper. Looking at so many entries takes a few milliseconds.
_SOCKET_DEPTH = 4
_MAX_ENTRIES = 20_000
# The kernel lets root change these without any capability, also in a process namespace.
_KERNEL_SETTINGS = (
    "/proc/sys",
    "/proc/sysrq-trigger",
    "/proc/irq",
    "/proc/bus",
    "/proc/fs",
    "/proc/acpi",
    "/proc/scsi",
)
# Capabilities that root keeps: it may write to a workspace that belongs to another user. With any of the others root
# could undo the sandbox, for example mount the file system again.
_KEPT_BY_ROOT = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER")
# Folders and files below the home with keys, tokens and sessions.
_SECRETS = (
    ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".oci", ".password-store", ".vault-token", ".netrc",
    ".git-credentials", ".pgpass", ".my.cnf", ".npmrc", ".yarnrc.yml", ".pypirc", ".gem/credentials", ".terraform.d",
    ".cargo/credentials", ".cargo/credentials.toml", ".m2/settings.xml", ".gradle/gradle.properties", ".boto", ".s3cfg",
    ".config/gcloud", ".config/gh", ".config/glab-cli", ".config/hub", ".config/git/credentials", ".config/rclone",
    ".config/sops", ".config/op", ".config/doctl", ".config/helm", ".config/containers", ".config/google-chrome",
    ".config/chromium", ".config/BraveSoftware", ".config/microsoft-edge", ".config/vivaldi", ".config/opera",
    ".config/Bitwarden", ".config/1Password", ".config/Signal", ".mozilla", ".thunderbird", ".electrum", ".bitcoin",
    ".local/share/keyrings", ".local/share/kwalletd", ".huggingface/token", ".cache/huggingface/token",
    ".bash_history", ".zsh_history", ".python_history", ".psql_history", ".mysql_history", ".node_repl_history",
    "snap/firefox", "snap/chromium", ".var/app",
)  # fmt: skip
# Sockets below these obey every process that can open them, and a read-only file system does not prevent that.
_SOCKETS = (
    "/run/user", "/run/dbus", "/run/docker.sock", "/run/podman", "/run/containerd", "/run/crio", "/run/libvirt",
    "/run/lxd", "/run/incus", "/run/snapd.socket", "/run/systemd/private",
)  # fmt: skip


class Sandbox(Protocol):
    async def wrap(self, argv: tuple[str, ...], cwd: Path) -> tuple[str, ...]:
        """Returns the command line that runs `argv` inside. Raises ToolError if a sandbox is required and there is
        none."""

    @property
    def is_active(self) -> bool:
        """Whether commands are known to run inside; False before `probe`."""

    async def probe(self) -> bool:
        """Finds out whether commands run inside."""

    async def describe(self) -> str:
        """Describes the sandbox for `aish doctor`."""


class NoSandbox:
    is_active = False

    async def probe(self) -> bool:
        return False

    async def wrap(self, argv: tuple[str, ...], cwd: Path) -> tuple[str, ...]:
        return argv

    async def describe(self) -> str:
        return "off: commands run with all your rights"


class Bubblewrap:
    """With `required` False it is used only if it works. `hides` are files and folders that commands do not see,
    besides secrets in the home and privileged sockets."""

    def __init__(
        self, workspace: Path, *, required: bool, network: bool, hides: Sequence[Path] = (), home: Path | None = None
    ) -> None:
        self._workspace = workspace
        self._required = required
        self._network = network
        self._hides = hides
        self._home = home
        self._works: bool | None = None

    @property
    def is_active(self) -> bool:
        """Whether commands are known to run inside; False before it was tried."""
        return self._works is True

    async def probe(self) -> bool:
        return await self._is_available()

    async def wrap(self, argv: tuple[str, ...], cwd: Path) -> tuple[str, ...]:
        if await self._is_available():
            return (*self._bwrap_arguments(cwd), *argv)
        if self._required:
            raise ToolError("safety.sandbox is bwrap, but bubblewrap is missing or may not be used here")
        return argv

    async def describe(self) -> str:
        if await self._is_available():
            network = "with network" if self._network else "no network"
            return f"bubblewrap: {self._workspace} and /tmp writable, the rest read-only, {network}"
        return "none: bubblewrap is not installed or not permitted here (apt install bubblewrap)"

    def _bwrap_arguments(self, cwd: Path) -> tuple[str, ...]:
        workspace = str(self._workspace)
        enclosing, others = self._split_hidden()
        return (
            *("bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--bind", _TMP, _TMP),
            *chain.from_iterable(("--ro-bind-try", path, path) for path in _KERNEL_SETTINGS),
            *chain.from_iterable(islice(_cover_sockets(self._workspace), _MAX_COVERED)),
            *_mask_arguments(enclosing),
            *("--bind", workspace, workspace),
            *_mask_arguments(others),
            *("--chdir", str(cwd)),
            *("--unshare-pid", "--unshare-ipc", "--die-with-parent", "--new-session"),
            *_capability_arguments(),
            *(() if self._network else ("--unshare-net",)),
            "--",
        )

    def _split_hidden(self) -> tuple[list[Path], list[Path]]:
        """Returns the existing paths to hide: folders that contain the workspace, which stays visible, and all
        others."""
        workspace = self._workspace.resolve()
        secrets = [self._home / name for name in _SECRETS] if self._home is not None else []
        hides = (*self._hides, *secrets, *map(Path, _SOCKETS))
        existing = [path for path in dict.fromkeys(map(_resolve_strictly, hides)) if path is not None]
        enclosing = [path for path in existing if workspace.is_relative_to(path)]
        others = {path for path in existing if path not in enclosing}
        return enclosing, sorted(path for path in others if others.isdisjoint(path.parents))

    async def _is_available(self) -> bool:
        """Tried once: kernels and containers may forbid what is installed."""
        if self._works is None:
            self._works = await self._try()
        return self._works

    async def _try(self) -> bool:
        from aish.process.child import ProcessSpec, run  # most turns run no command

        spec = ProcessSpec((*self._bwrap_arguments(self._workspace), "true"), name="bwrap")
        try:
            done = await run(spec, timeout_s=_PROBE_TIMEOUT_S, max_output_bytes=4096)
        except AishError:
            return False
        return done.returncode == 0


def _capability_arguments() -> Iterator[str]:
    """A user other than root has no capabilities in the sandbox anyway."""
    yield from ("--cap-drop", "ALL")
    if os.geteuid() == 0:
        yield from chain.from_iterable(("--cap-add", name) for name in _KEPT_BY_ROOT)


def _cover_sockets(workspace: Path) -> Iterator[tuple[str, ...]]:
    """Covers sockets and pipes of services: single ones by an empty file, known folders of them by an empty folder.
    A read-only file system does not prevent that a process connects to them. Links lead nowhere new."""
    left = _MAX_ENTRIES
    folders = [(_TMP, _SOCKET_DEPTH), (_RUN, _SOCKET_DEPTH)]
    while folders and left > 0:
        folder, depth = folders.pop(0)
        for entry in _list_folder(folder, left):
            left -= 1
            if entry.is_symlink() or entry.is_file() or entry.path == str(workspace):
                continue
            if not entry.is_dir():
                yield "--ro-bind", os.devnull, entry.path
            elif folder == _TMP and _SOCKET_FOLDERS.fullmatch(entry.name) and entry.path not in _parents(workspace):
                yield "--tmpfs", entry.path
            elif depth > 1 and entry.path not in _SOCKETS:
                folders.append((entry.path, depth - 1))


def _parents(path: Path) -> list[str]:
    return [str(parent) for parent in path.parents]


def _list_folder(folder: str, limit: int) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(islice(entries, limit))
    except OSError:
        return []


def _resolve_strictly(path: Path) -> Path | None:
    """Returns the path without links, which cannot be mounted over; None if it does not exist."""
    try:
        return path.resolve(strict=True)
    except (OSError, RuntimeError):
        return None


def _mask_arguments(paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        yield from ("--tmpfs", str(path)) if path.is_dir() else ("--ro-bind", os.devnull, str(path))


def make_sandbox(
    mode: SandboxMode, workspace: Path, *, network: bool, hides: Sequence[Path] = (), home: Path | None = None
) -> Sandbox:
    """`hides` are files and folders of aish itself, `home` is the home folder with the user's keys."""
    if mode == "off":
        return NoSandbox()
    return Bubblewrap(workspace, required=mode == "bwrap", network=network, hides=hides, home=home)
