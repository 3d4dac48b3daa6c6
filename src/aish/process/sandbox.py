"""Chooses the sandbox for commands of models: bubblewrap where it works, else Landlock, on macOS `sandbox-exec`.

A sandbox lets commands write only to the workspace, temporary files and a cache of its own. It hides secrets and the
files of aish, and gives no network unless that is allowed. It is a second line of defence behind the gate: destroyed
files inside the workspace are lost.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from aish.errors import AishError, ToolError
from aish.process.bubblewrap import SECRET_PATHS, Bubblewrap, find_links

if TYPE_CHECKING:
    from aish.process.landlock import Confinement
    from aish.process.seccomp import ModeFilter

SandboxMode = Literal["auto", "bwrap", "landlock", "off"]

_PROBE_TIMEOUT_S = 5.0
_TMP_FOLDERS = ("/tmp", "/var/tmp")
_SEATBELT = "/usr/bin/sandbox-exec"
# Folders of the cache by the variables that name them. The first is for all programs that follow the rules of XDG.
_CACHE_VARIABLES = {
    "XDG_CACHE_HOME": "", "PIP_CACHE_DIR": "pip", "UV_CACHE_DIR": "uv", "npm_config_cache": "npm",
    "YARN_CACHE_FOLDER": "yarn", "GOCACHE": "go-build", "CCACHE_DIR": "ccache", "SCCACHE_DIR": "sccache",
}  # fmt: skip
# Without network these programs read what they have loaded before; with it they load it into the cache again.
_CACHE_VARIABLES_ONLINE = {"CARGO_HOME": "cargo", "GOMODCACHE": "go-mod"}
# What programs also read where they cannot write: models, browsers, environments.
_READ_THROUGH = (
    "huggingface", "torch", "whisper", "ms-playwright", "puppeteer", "Cypress", "selenium", "electron", "pre-commit",
    "fontconfig",
)  # fmt: skip


class SandboxCache:
    """A cache for commands in the sandbox, and only for them: programs outside run what lies in theirs, so these are
    read-only inside. `folder` lies beside them."""

    def __init__(self, folder: Path, *, network: bool) -> None:
        self._folder = os.path.realpath(folder.parent) + f"/{folder.name}"
        names = _CACHE_VARIABLES | (_CACHE_VARIABLES_ONLINE if network else {})
        self._variables = {name: str(Path(self._folder, below)) for name, below in names.items()}
        self._links_are_made = False

    @property
    def place(self) -> str:
        """The folder, which exists then; "" if it cannot be made, or if a link would lead elsewhere."""
        with suppress(OSError):
            os.makedirs(self._folder, 0o700, exist_ok=True)  # noqa: PTH103 -- for each command
            if os.path.realpath(self._folder) == self._folder:
                self._make_links()
                return self._folder
        return ""

    @property
    def environment(self) -> Mapping[str, str]:
        return self._variables if self.place else {}

    def _make_links(self) -> None:
        if self._links_are_made:
            return
        self._links_are_made = True
        folder = Path(self._folder)
        for name in _READ_THROUGH:
            if (folder.parent / name).is_dir():
                with suppress(FileExistsError):
                    (folder / name).symlink_to(folder.parent / name)


class Sandbox(Protocol):
    async def wrap(self, argv: tuple[str, ...], cwd: Path) -> tuple[str, ...]:
        """Returns the command line that runs `argv` inside. Raises ToolError if a sandbox is required and there is
        none."""

    @property
    def confinement(self) -> Confinement | ModeFilter | None:
        """What the child has to set up itself, for its ProcessSpec. Known after `probe` or `wrap`."""

    @property
    def is_active(self) -> bool:
        """Whether commands are known to run inside; False before `probe`."""

    @property
    def separates_tenants(self) -> bool:
        """Whether a command inside can do nothing at all to files outside, also not change their permissions."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables for commands inside. Known after `probe` or `wrap`."""

    @property
    def writable(self) -> Sequence[Path]:
        """The folders in which commands inside can write."""

    def close(self, pinned: Sequence[str], read_only: Sequence[str]) -> Sandbox:
        """Returns one in which some paths below writable folders cannot be replaced, or not be changed either, as far
        as this kind can do that. Known after `probe`."""

    async def probe(self) -> bool:
        """Finds out whether commands run inside."""

    async def describe(self) -> str:
        """Describes the sandbox for `aish doctor`, with what it cannot hold."""


class NoSandbox:
    is_active = separates_tenants = False
    confinement = None
    environment: Mapping[str, str] = {}
    writable: Sequence[Path] = ()

    def close(self, pinned: Sequence[str], read_only: Sequence[str]) -> Sandbox:
        return self

    async def probe(self) -> bool:
        return False

    async def wrap(self, argv: tuple[str, ...], cwd: Path) -> tuple[str, ...]:
        return argv

    async def describe(self) -> str:
        return "off: commands run with all your rights"


class LandlockSandbox:
    """Uses the kernel alone. With `required` False it is used only if it works."""

    def __init__(
        self,
        workspace: Path,
        *,
        required: bool,
        network: bool,
        hides: Sequence[Path],
        home: Path | None,
        read_only: Sequence[Path] = (),
        tmp: Path | None = None,
        cache: SandboxCache | None = None,
    ) -> None:
        self._cache = cache
        self._workspace = workspace
        self._required = required
        self._network = network
        self._hides = (*hides, *((home / name for name in SECRET_PATHS) if home else ()))
        self._read_only = read_only
        self._writable = writable_folders(workspace, tmp)
        self._works: bool | None = None

    separates_tenants = False

    @property
    def is_active(self) -> bool:
        return self._works is True

    @property
    def confinement(self) -> Confinement | None:
        return self._make_confinement() if self._works else None

    @property
    def environment(self) -> Mapping[str, str]:
        return self._cache.environment if self._cache is not None and self._works else {}

    @property
    def writable(self) -> Sequence[Path]:
        return self._writable

    def close(self, pinned: Sequence[str], read_only: Sequence[str]) -> Sandbox:
        return self  # Landlock cannot except a part of what is writable

    async def probe(self) -> bool:
        if self._works is None:
            self._works = await self._try()
        return self._works

    async def wrap(self, argv: tuple[str, ...], cwd: Path) -> tuple[str, ...]:
        if not await self.probe() and self._required:
            raise ToolError("safety.sandbox is landlock, which this kernel does not have, or only an old version of it")
        return argv

    async def describe(self) -> str:
        if not await self.probe():
            return "none: bubblewrap is not installed (apt install bubblewrap), and this kernel has no Landlock"
        from aish.process.landlock import find_abi

        network = "with network" if self._network else "no network, not even to this machine"
        signals = "" if find_abi() >= 6 else ", and signals to your other programs"
        return (
            f"Landlock {find_abi()}: {self._workspace}, temporary folders and a cache of its own writable, the rest "
            f"read-only, {network}. It cannot hold changes of permissions, owners and times of your files{signals}; "
            "bubblewrap can (apt install bubblewrap)"
        )

    def _make_confinement(self) -> Confinement:
        from aish.process.landlock import Confinement

        writable = with_cache(self._writable, self._cache)
        return Confinement(writable, self._hides, find_fixed(self._hides, self._read_only), network=self._network)

    async def _try(self) -> bool:
        """Whether a confined program cannot write outside of the workspace."""
        import tempfile

        from aish.process.child import ProcessSpec, run  # most turns run no command
        from aish.process.landlock import Confinement, find_abi

        if not find_abi():
            return False
        with tempfile.NamedTemporaryFile() as file:
            spec = ProcessSpec(("sh", "-c", 'echo x > "$0"', file.name), name="sh", confinement=Confinement(()))
            try:
                done = await run(spec, timeout_s=_PROBE_TIMEOUT_S, max_output_bytes=4096)
            except AishError:
                return False
            return done.returncode != 0 and not file.read()


class SeatbeltSandbox:
    """Uses `sandbox-exec` of macOS."""

    def __init__(
        self,
        workspace: Path,
        *,
        network: bool,
        hides: Sequence[Path],
        home: Path | None,
        read_only: Sequence[Path] = (),
        tmp: Path | None = None,
        cache: SandboxCache | None = None,
    ) -> None:
        self._cache = cache
        self._workspace = workspace
        self._network = network
        self._hides = (*hides, *((home / name for name in SECRET_PATHS) if home else ()))
        self._read_only = read_only
        self._writable = writable_folders(workspace, tmp)

    confinement = None
    separates_tenants = False

    @property
    def is_active(self) -> bool:
        return os.access(_SEATBELT, os.X_OK)

    @property
    def environment(self) -> Mapping[str, str]:
        return self._cache.environment if self._cache is not None and self.is_active else {}

    @property
    def writable(self) -> Sequence[Path]:
        return self._writable

    def close(self, pinned: Sequence[str], read_only: Sequence[str]) -> Sandbox:
        return self

    async def probe(self) -> bool:
        return self.is_active

    async def wrap(self, argv: tuple[str, ...], cwd: Path) -> tuple[str, ...]:
        if not self.is_active:
            return argv
        writable = with_cache(self._writable, self._cache)
        profile = seatbelt_profile(writable, self._hides, network=self._network, read_only=self._read_only)
        return (_SEATBELT, "-p", profile, *argv)

    async def describe(self) -> str:
        if not self.is_active:
            return "none: there is no sandbox-exec"
        network = "with network" if self._network else "no network"
        return f"sandbox-exec: {self._workspace}, temporary folders and a cache writable, the rest read-only, {network}"


def seatbelt_profile(
    writable: Sequence[Path], hidden: Sequence[Path], *, network: bool, read_only: Sequence[Path] = ()
) -> str:
    """The rules in the language of `sandbox-exec`. The last rule that matches counts. The folders on the way to what is
    hidden or read-only can be neither renamed nor made: another one could take their place."""
    fixed = find_fixed(hidden, read_only)
    ways = sorted({str(parent) for path in (*map(os.path.realpath, hidden), *fixed) for parent in Path(path).parents})
    lines = ["(version 1)", "(allow default)", "(deny file-write*)"]
    lines += [f"(allow file-write* (subpath {_quote(path)}))" for path in writable]
    lines += [
        f'(allow file-write* (literal "/dev/{name}"))' for name in ("null", "zero", "tty", "ptmx", "stdout", "stderr")
    ]
    lines += [f"(deny file-write* (literal {_quote_text(path)}))" for path in ways]
    lines += [f"(deny file-write* (subpath {_quote_text(path)}))" for path in fixed]
    lines += [f"(deny file-read* file-write* (subpath {_quote(path)}))" for path in hidden]
    lines += ["(deny signal (target others))"]
    lines += [] if network else ["(deny network*)"]
    return "\n".join(lines)


def find_fixed(hidden: Sequence[Path], read_only: Sequence[Path]) -> tuple[str, ...]:
    """What cannot be written in writable folders, besides what is hidden: what is read-only, and the links that lead
    to both."""
    found = [(path in read_only, *find_links(path)) for path in (*read_only, *hidden)]
    places = (place for is_kept, real, links in found for place in (*links, *([real] if is_kept else ())))
    return tuple(dict.fromkeys(places))


def _quote(path: Path) -> str:
    return _quote_text(os.path.realpath(path))


def _quote_text(path: str) -> str:
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def writable_folders(workspace: Path, tmp: Path | None) -> tuple[Path, ...]:
    """The workspace and folders of temporary files."""
    folders = (*map(Path, _TMP_FOLDERS), *([tmp] if tmp else []))
    return (workspace, *(folder for folder in folders if folder.is_dir()))


def with_cache(folders: tuple[Path, ...], cache: SandboxCache | None) -> tuple[Path, ...]:
    place = cache.place if cache is not None else ""
    return (*folders, Path(place)) if place else folders


class AutomaticSandbox:
    """The first of these that works."""

    def __init__(self, sandboxes: Sequence[Sandbox]) -> None:
        self._sandboxes = sandboxes
        self._chosen: Sandbox | None = None

    @property
    def is_active(self) -> bool:
        return self._chosen is not None and self._chosen.is_active

    @property
    def separates_tenants(self) -> bool:
        return self._chosen is not None and self._chosen.separates_tenants

    @property
    def confinement(self) -> Confinement | ModeFilter | None:
        return self._chosen.confinement if self._chosen is not None else None

    @property
    def environment(self) -> Mapping[str, str]:
        return self._chosen.environment if self._chosen is not None else {}

    @property
    def writable(self) -> Sequence[Path]:
        return self._chosen.writable if self._chosen is not None else ()

    def close(self, pinned: Sequence[str], read_only: Sequence[str]) -> Sandbox:
        return self._chosen.close(pinned, read_only) if self._chosen is not None else self

    async def probe(self) -> bool:
        return (await self._choose()).is_active

    async def wrap(self, argv: tuple[str, ...], cwd: Path) -> tuple[str, ...]:
        return await (await self._choose()).wrap(argv, cwd)

    async def describe(self) -> str:
        return await (await self._choose()).describe()

    async def _choose(self) -> Sandbox:
        if self._chosen is None:
            for sandbox in self._sandboxes:
                if await sandbox.probe():
                    break
            self._chosen = sandbox
        return self._chosen


def make_sandbox(
    mode: SandboxMode,
    workspace: Path,
    *,
    network: bool,
    hides: Sequence[Path] = (),
    folders: Sequence[Path] = (),
    read_only: Sequence[Path] = (),
    home: Path | None = None,
    tmp: Path | None = None,
    cache: Path | None = None,
) -> Sandbox:
    """`hides` are files and folders of aish itself, `folders` those of them that are folders, also if they do not
    exist. `read_only` is not writable in writable folders either: what aish itself runs on. `home` is the home folder
    with the user's keys, `tmp` a further folder of temporary files, `cache` the folder of commands in the sandbox."""
    if mode == "off":
        return NoSandbox()
    own = SandboxCache(cache, network=network) if cache is not None else None
    if sys.platform == "darwin":
        return SeatbeltSandbox(
            workspace, network=network, hides=hides, home=home, read_only=read_only, tmp=tmp, cache=own
        )
    bubblewrap = Bubblewrap(
        workspace, required=mode == "bwrap", network=network, hides=hides, folders=folders, read_only=read_only,
        home=home, cache=own,
    )  # fmt: skip
    landlock = LandlockSandbox(
        workspace, required=mode == "landlock", network=network, hides=hides, home=home, read_only=read_only, tmp=tmp,
        cache=own,
    )  # fmt: skip
    match mode:
        case "bwrap":
            return bubblewrap
        case "landlock":
            return landlock
        case "auto":
            return AutomaticSandbox((bubblewrap, landlock))
