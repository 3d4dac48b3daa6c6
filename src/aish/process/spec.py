"""Specifies a child process: the program, its environment, and the errors if it cannot be started."""

from __future__ import annotations

import errno
import fnmatch
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePath
from typing import Literal

import msgspec

from aish.errors import SpawnFailed

POSIX = sys.platform != "win32"
_INHERITED = ("HOME", "LANG", "LC_*", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER")
_INHERITED_ON_WINDOWS = (
    *("APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT", "PROGRAMDATA", "PROGRAMFILES*"),
    *("SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME", "USERPROFILE", "WINDIR"),
)


class ProcessSpec(msgspec.Struct, frozen=True):
    """Specifies a child process. Its repr shows neither arguments nor values of variables: both may contain secrets."""

    argv: tuple[str, ...]
    name: str = ""
    env: Mapping[str, str] = {}
    inherit: tuple[str, ...] = ()  # patterns of further variables to inherit from our own environment
    cwd: Path | None = None
    stdout: Literal["pipe", "devnull", "inherit"] = "pipe"
    stdout_max_bytes: int = 256 * 1024  # buffered ahead of the consumer; beyond that the child waits
    stderr_lines: int = 64
    stderr_line_bytes: int = 500
    redact: Callable[[str], str] | None = None
    close_wait_s: float = 2.0
    term_wait_s: float = 2.0
    # A terminal for stdin, stdout and stderr, which becomes the controlling terminal of its session (see `pty`).
    terminal: int | None = None
    spares_hangup: bool = True  # on a terminal: processes that ignore SIGHUP (`nohup`) outlive its session
    # A unique NAME=VALUE for the environment. With it all descendants are ended with the child, also those that left
    # its session (`descendants`). Linux, on a terminal.
    mark: str = ""
    pass_fds: tuple[int, ...] = ()  # descriptors the child inherits, under the same numbers; POSIX

    @property
    def title(self) -> str:
        return self.name or PurePath(self.argv[0]).name

    def __repr__(self) -> str:
        names = ",".join(sorted(self.env))
        return f"ProcessSpec({self.title!r}, argv=({self.argv[0]!r}, +{len(self.argv) - 1}), env=[{names}])"


def child_environment(ours: Mapping[str, str], spec: ProcessSpec) -> dict[str, str]:
    """The inherited variables that programs need, and those of the spec."""
    patterns = (*(_INHERITED if POSIX else _INHERITED_ON_WINDOWS), *spec.inherit)
    mark, _, value_of_mark = spec.mark.partition("=")
    given = dict(spec.env) | ({mark: value_of_mark} if mark else {})
    return {name: value for name, value in ours.items() if _matches(name, patterns)} | given


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def spawn_failed(spec: ProcessSpec, exc: Exception) -> SpawnFailed:
    program, message = spec.argv[0], f"cannot start {spec.title}"
    if spec.cwd is not None and not spec.cwd.is_dir():
        return SpawnFailed(f"{message}: there is no directory {spec.cwd}", hint="create it, or configure another cwd")
    if isinstance(exc, FileNotFoundError):
        hint = "install it, or configure its full path"
        return SpawnFailed(f"{message}: {program} was not found", hint=hint)
    if isinstance(exc, PermissionError):
        return SpawnFailed(f"{message}: {program} may not be executed", hint=f"check it with: ls -l {program}")
    if isinstance(exc, OSError) and exc.errno == errno.ENOEXEC:
        hint = "is it for another kind of machine, or a script without a #! line?"
        return SpawnFailed(f"{message}: {program} is not a program this machine can run", hint=hint)
    reason = exc.strerror if isinstance(exc, OSError) else str(exc)
    return SpawnFailed(f"{message}: {reason or type(exc).__name__}")
