"""Runs commands in bubblewrap, if the machine has it.

The workspace, `/tmp` and a cache of its own are writable, everything else is read-only, and there is no network unless
it is allowed. Files of aish, folders of keys and browsers in the home, and sockets of services are hidden behind empty
files and folders; `/run` is empty but for a few files.

Where a writable folder contains what is hidden or read-only (aish runs in the home), each folder on the way is a mount
of its own, which cannot be renamed or removed: a command could otherwise put another one in its place, and the next
aish would read that.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from aish.errors import AishError, ToolError

if TYPE_CHECKING:
    from aish.process.sandbox import SandboxCache
    from aish.process.seccomp import ModeFilter

_PROBE_TIMEOUT_S = 5.0
_TMP = "/tmp"
_RUN = "/run"
# A process that can write to a socket or pipe in these can act outside. New sockets appear in them at any time.
_SOCKET_FOLDERS = re.compile(r"(tmux|ssh|dbus|aish|emacs|nvim)[-.\d].*|screen.*|\.(X11|ICE)-unix")
_MAX_COVERED = 1000
# Services put their sockets no deeper, and the kernel names most of the others. Looking at so many entries takes 20 ms.
_SOCKET_DEPTH = 4
_MAX_ENTRIES = 50_000
_KERNEL_SOCKETS = "/proc/net/unix"
_MAX_KERNEL_BYTES = 8 * 1024 * 1024  # names 60 000 sockets
# What programs need of /run, and what takes no orders: who is logged in, the kind of container, properties of disks,
# media, programs of NixOS and Guix. Sockets that answer questions (nscd, resolve) stay out: names of hosts are found
# without them.
_KEPT_IN_RUN = (
    "/run/utmp", "/run/.containerenv", "/run/systemd/container", "/run/udev/data", "/run/media", "/run/current-system",
    "/run/opengl-driver",
)  # fmt: skip
_LINKS_INTO_RUN = ("/etc/resolv.conf",)
_MAX_LINKS = 8
_MAX_LINKS_OF_PATH = 40  # as many as the kernel follows
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
SECRET_PATHS = (
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
# Sockets that obey every process that can open them, which a read-only file system does not prevent. The kernel does
# not name them to us if their services have a network of their own.
_SOCKETS = (
    "/var/lib/incus/unix.socket", "/var/lib/incus/guestapi", "/var/lib/lxd/unix.socket",
    "/var/snap/lxd/common/lxd/unix.socket", "/var/snap/lxd/common/lxd-user/unix.socket", "/var/lib/docker/docker.sock",
    "/var/lib/libvirt/qemu/channel", "/var/lib/kubelet/pod-resources", "/var/lib/kubelet/device-plugins",
    "/var/lib/sss/pipes", "/var/spool/postfix/private", "/var/spool/postfix/public",
)  # fmt: skip
# Succeeds if not even root can write to these. Opening them is not tried, because some obey every write.
_CHECK = "for f do test -w $f && exit 1; done; exit 0"
_NOT_WRITABLE = (
    "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/fs/binfmt_misc/register",
    "/proc/sysrq-trigger", "/sys/kernel/uevent_helper",
)  # fmt: skip


class Bubblewrap:
    """Implements `sandbox.Sandbox`. With `required` False it is used only if it works. `hides` are files and folders
    that commands do not see, besides secrets in the home and privileged sockets. Those of them that are `folders` are
    made where commands could make them. `read_only` stays so in writable folders. The `cache` is writable."""

    def __init__(
        self,
        workspace: Path,
        *,
        required: bool,
        network: bool,
        hides: Sequence[Path] = (),
        folders: Sequence[Path] = (),
        read_only: Sequence[Path] = (),
        home: Path | None = None,
        cache: SandboxCache | None = None,
    ) -> None:
        self._cache = cache
        self._workspace = workspace
        self._required = required
        self._network = network
        self._hides = hides
        self._folders = folders
        self._read_only = read_only
        self._home = home
        self._closed: tuple[str, ...] = ()
        self._works: bool | None = None
        self._filter: ModeFilter | None = None

    @property
    def is_active(self) -> bool:
        """Whether commands are known to run inside; False before it was tried."""
        return self._works is True

    @property
    def separates_tenants(self) -> bool:
        return self.is_active

    @property
    def confinement(self) -> ModeFilter | None:
        """What the child sets up before it becomes bubblewrap. A bubblewrap that is setuid does not start then."""
        return self._filter

    @property
    def environment(self) -> Mapping[str, str]:
        return self._cache.environment if self._cache is not None and self.is_active else {}

    @property
    def writable(self) -> Sequence[Path]:
        return self._workspace, Path(_TMP)

    def close(self, pinned: Sequence[str], read_only: Sequence[str]) -> Bubblewrap:
        """Of two overlapping paths the last one counts."""
        other = copy(self)
        other._closed = (*_mount("--bind-try", pinned), *_mount("--ro-bind-try", read_only))
        return other

    async def probe(self) -> bool:
        return await self._is_available()

    async def wrap(self, argv: tuple[str, ...], cwd: Path) -> tuple[str, ...]:
        if await self._is_available():
            self._check_links()
            self._make_folders()
            return (*self._bwrap_arguments(cwd, _cover_sockets(self._workspace)), *argv)
        if self._required:
            self._check_links()
            raise ToolError("safety.sandbox is bwrap, but bubblewrap is missing or may not be used here")
        return argv

    async def describe(self) -> str:
        if await self._is_available():
            network = "with network" if self._network else "no network"
            return (
                f"bubblewrap: {self._workspace}, /tmp and a cache of its own writable, the rest read-only, {network}. "
                "It cannot hold what a command destroys in these, or reads outside of the folders of secrets"
            )
        if link := self._find_loose_link():
            return f"none: {_explain_link(link)}"
        return "none: bubblewrap is not installed or not permitted here (apt install bubblewrap)"

    def _bwrap_arguments(self, cwd: Path, covers: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
        workspace = str(self._workspace)
        enclosing, others = self._split_hidden()
        # The last of two overlapping mounts holds. A workspace may contain what is covered, or be inside of it.
        hidden = (*enclosing, *others)
        bind = ("--bind", workspace, workspace, *self._hold(self._workspace, hidden))
        is_outer = any(Path(folder).is_relative_to(self._workspace) for folder in (_TMP, _RUN))
        return (
            *("bwrap", "--ro-bind", "/", "/"),
            *(bind if is_outer else ()),
            *("--dev", "/dev", "--proc", "/proc", "--bind", _TMP, _TMP, *self._hold(Path(_TMP), hidden)),
            *(("--bind-try", cache, cache) if (cache := self._cache and self._cache.place) else ()),
            *_mount("--ro-bind-try", _KERNEL_SETTINGS),
            *chain.from_iterable(covers),
            *_replace_run(),
            *_mask_arguments(enclosing),
            *(() if is_outer else bind),
            *_mask_arguments(others),
            *self._closed,
            *("--remount-ro", _RUN, "--chdir", str(cwd)),
            *("--unshare-pid", "--unshare-ipc", "--die-with-parent", "--new-session"),
            *_capability_arguments(),
            *(() if self._network else ("--unshare-net",)),
            "--",
        )

    def _hold(self, root: Path, hidden: Sequence[Path]) -> Iterator[str]:
        """Yields mounts that hold what is in a writable folder and has to stay where it is. They are made of what is
        outside, so they come right after that of the folder."""
        root = root.resolve()
        kept = sorted(path for path in self._find_read_only() if path.is_relative_to(root))
        ways = {parent for path in (*hidden, *kept) for parent in path.parents if root in parent.parents}
        yield from _mount("--bind", map(str, sorted(ways)))
        yield from _mount("--ro-bind", map(str, kept))

    def _find_read_only(self) -> set[Path]:
        """What is read-only, folders of aish (most are masked, too), and folders with links to these: nothing else
        holds a link."""
        found = {Path(find_links(path)[0]) for path in (*self._folders, *self._read_only)}
        return {path for path in found if path.exists()} | {Path(link).parent for link in self._find_links()}

    def _find_links(self) -> list[str]:
        """The links in writable folders that lead to what has to stay."""
        links = chain.from_iterable(find_links(path)[1] for path in (*self._folders, *self._read_only))
        return [link for link in links if self._is_writable(link)]

    def _is_writable(self, place: str) -> bool:
        return any(root in Path(place).parents for root in self._roots())

    def _roots(self) -> tuple[Path, Path]:
        return self._workspace.resolve(), Path(_TMP).resolve()

    def _find_loose_link(self) -> str:
        """Returns a link that cannot be held, because its folder has to be writable; "" if there is none."""
        return next((link for link in self._find_links() if Path(link).parent in self._roots()), "")

    def _check_links(self) -> None:
        if link := self._find_loose_link():
            raise ToolError(f"nothing was run: {_explain_link(link)}")

    def _make_folders(self) -> None:
        """Makes the folders of aish where a command could. Raises ToolError if one cannot be made."""
        for folder in self._folders:
            real = find_links(folder)[0]
            if os.path.lexists(real) or not self._is_writable(real):
                continue
            try:
                for path in (*reversed(Path(real).parents), Path(real)):
                    if not path.is_dir():
                        path.mkdir(0o700)
            except OSError as exc:
                raise ToolError(f"the sandbox cannot protect {real}, so nothing was run: {exc.strerror}") from exc

    def _split_hidden(self) -> tuple[list[Path], list[Path]]:
        """Returns the existing paths to hide: folders that contain the workspace, which stays visible, and all
        others."""
        workspace = self._workspace.resolve()
        secrets = [self._home / name for name in SECRET_PATHS] if self._home is not None else []
        hides = (*self._hides, *secrets, *map(Path, _SOCKETS))
        existing = [path for path in dict.fromkeys(map(_resolve_strictly, hides)) if path is not None]
        enclosing = [path for path in existing if workspace.is_relative_to(path)]
        others = {path for path in existing if path not in enclosing}
        return enclosing, sorted(path for path in others if others.isdisjoint(path.parents))

    async def _is_available(self) -> bool:
        """Tried once: kernels and containers may forbid what is installed."""
        if self._works is None:
            from aish.process.seccomp import ModeFilter, has_filters

            self._filter = ModeFilter() if has_filters() else None
            self._works = await self._try()
            if not self._works and self._filter is not None:
                self._filter = None
                self._works = await self._try()
        return self._works

    async def _try(self) -> bool:
        from aish.process.child import ProcessSpec, run  # most turns run no command

        if self._find_loose_link():
            return False
        check = ("sh", "-c", _CHECK, "sh", *_NOT_WRITABLE)
        argv = (*self._bwrap_arguments(self._workspace, ()), *check)
        spec = ProcessSpec(argv, name="bwrap", confinement=self._filter)
        try:
            done = await run(spec, timeout_s=_PROBE_TIMEOUT_S, max_output_bytes=4096)
        except AishError:
            return False
        return done.returncode == 0


def find_links(path: Path) -> tuple[str, list[str]]:
    """Returns the path without links, as far as it exists, and where the links are that lead there."""
    links: list[str] = []
    real, waiting = "/", [*reversed(path.absolute().parts[1:])]
    while waiting and len(links) <= _MAX_LINKS_OF_PATH:
        part = waiting.pop()
        place = os.path.dirname(real) if part == ".." else f"{real.rstrip('/')}/{part}"  # noqa: PTH120
        try:
            target = os.readlink(place) if part != ".." else ""  # noqa: PTH115 -- a Path would lose `..`
        except OSError:
            target = ""
        if not target:
            real = place
            continue
        links.append(place)
        real = "/" if target.startswith("/") else real
        waiting += reversed([part for part in target.split("/") if part not in ("", ".")])
    return real, links


def _explain_link(link: str) -> str:
    return f"{link} is a link which bubblewrap cannot keep a command from replacing, and aish reads what it leads to"


def _mount(option: str, paths: Iterable[str]) -> Iterator[str]:
    return chain.from_iterable((option, path, path) for path in paths)


def _capability_arguments() -> Iterator[str]:
    """A user other than root has no capabilities in the sandbox anyway."""
    yield from ("--cap-drop", "ALL")
    if os.geteuid() == 0:
        yield from chain.from_iterable(("--cap-add", name) for name in _KEPT_BY_ROOT)


def _replace_run() -> Iterator[str]:
    """Yields an empty /run with the files that programs need; it is made read-only when all mounts are there."""
    yield from ("--tmpfs", _RUN)
    yield from _mount("--ro-bind-try", _KEPT_IN_RUN)
    for link in _LINKS_INTO_RUN:
        if (real := _resolve_strictly(Path(link))) is not None:
            yield from chain.from_iterable(("--ro-bind-try", str(real), path) for path in _places_in_run(link))


def _places_in_run(link: str) -> Iterator[str]:
    """Yields the names below /run that a chain of links goes through."""
    for _ in range(_MAX_LINKS):
        try:
            target = os.readlink(link)  # noqa: PTH115 -- a Path would lose `..`
        except OSError:
            return
        link = os.path.normpath(os.path.join(os.path.dirname(link), target))  # noqa: PTH118, PTH120
        if link.startswith("/var/run/"):
            link = link.removeprefix("/var")
        if link.startswith(f"{_RUN}/"):
            yield link


def _cover_sockets(workspace: Path) -> list[tuple[str, ...]]:
    """Covers sockets and pipes of services: single ones by an empty file, known folders of them by an empty folder.
    A read-only file system does not prevent that a process connects to them. Raises ToolError if there are too many."""
    covers = list(islice(_cover_tmp(workspace), _MAX_COVERED + 1))
    known = {cover[-1] for cover in covers}
    others = (path for path in _find_kernel_sockets(workspace) if known.isdisjoint((path, *_parents(Path(path)))))
    covers += (("--ro-bind", os.devnull, path) for path in others)
    if len(covers) > _MAX_COVERED:
        raise _too_many(f"more than {_MAX_COVERED} sockets and pipes", "them")
    return covers


def _cover_tmp(workspace: Path) -> Iterator[tuple[str, ...]]:
    left = _MAX_ENTRIES
    folders = [(_TMP, _SOCKET_DEPTH)]
    while folders:
        folder, depth = folders.pop(0)
        entries = _list_folder(folder, left + 1)
        left -= len(entries)
        if left < 0:
            raise _too_many(f"more than {_MAX_ENTRIES} files in {_TMP}", "some")
        for entry in entries:
            # Links lead nowhere new.
            if entry.is_symlink() or entry.is_file() or entry.path == str(workspace):
                continue
            if not entry.is_dir():
                yield "--ro-bind", os.devnull, entry.path
            elif folder == _TMP and _SOCKET_FOLDERS.fullmatch(entry.name) and entry.path not in _parents(workspace):
                yield "--tmpfs", entry.path
            elif depth > 1:
                folders.append((entry.path, depth - 1))


def _too_many(what: str, which: str) -> ToolError:
    text = f"the sandbox cannot cover all sockets of services: there are {what}, so nothing was run"
    return ToolError(f"{text}; remove {which} from {_TMP}, for example with a command of your own")


def _find_kernel_sockets(workspace: Path) -> list[str]:
    """Returns the sockets that the kernel knows of, without those of the workspace and of folders that are replaced.
    Raises ToolError if there are too many."""
    try:
        with open(_KERNEL_SOCKETS, "rb") as file:  # noqa: PTH123 -- for each command
            data = file.read(_MAX_KERNEL_BYTES + 1)
    except OSError:
        return []
    if len(data) > _MAX_KERNEL_BYTES:
        raise _too_many("too many sockets", "them")
    own = workspace.resolve()
    rows = (row.split(None, 7) for row in data.splitlines())
    names = {os.path.realpath(os.fsdecode(row[7])) for row in rows if len(row) == 8 and row[7].startswith(b"/")}
    outside = (name for name in names if not name.startswith((f"{_RUN}/", "/run/", "/dev/", "/proc/")))
    return sorted(name for name in outside if _is_socket(name) and not _is_own(name, own))


def _is_own(path: str, workspace: Path) -> bool:
    """Sockets of a workspace are its own, unless it contains the folders of services."""
    contains = any(Path(folder).is_relative_to(workspace) for folder in (_TMP, _RUN))
    return not contains and Path(path).is_relative_to(workspace)


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False


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
