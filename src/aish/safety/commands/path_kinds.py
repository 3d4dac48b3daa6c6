"""Resolves paths as the shell would, and classifies places. Does not access the disk."""

from __future__ import annotations

import functools
import posixpath
import re
from enum import StrEnum
from fnmatch import fnmatchcase

from aish.safety.commands import program_tables
from aish.safety.commands.shell_state import Scope
from aish.safety.commands.syntax.expansion import DYNAMIC


class PathKind(StrEnum):
    SINK = "sink"  # nothing is stored there
    DISK = "disk"  # a whole disk or the memory
    KEYS = "keys"
    STARTUP = "startup"
    SYSTEM = "system"
    SCRATCH = "scratch"
    INSIDE = "inside"  # the workspace
    OUTSIDE = "outside"
    UNRESOLVED = "unresolved"


def absolute_path(text: str, scope: Scope) -> str | None:
    """Returns the absolute, normalised path; None if it is only known when the line runs."""
    if DYNAMIC in text or not text:
        return None
    if not text.startswith("/"):
        if scope.cwd is None:
            return None
        text = f"{scope.cwd}/{text}"
    path = posixpath.normpath(text)
    return path[1:] if path.startswith("//") else path


def is_under(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def is_inside(path: str, scope: Scope) -> bool:
    """Whether the path is in the workspace. A workspace of `/` does not count."""
    return any(is_under(path, root) for root in scope.roots if root != "/")


def kind_of_path(path: str, scope: Scope) -> PathKind:
    table = program_tables.places()
    if path in table.sinks or path.startswith("/dev/fd/"):
        return PathKind.SINK
    if _disk_pattern().fullmatch(path):
        return PathKind.DISK
    special = _home_kind(path, scope)
    if special is not None:
        return special
    low = path.lower()  # some file systems take names in any case
    if any(fnmatchcase(low, glob) for glob in table.anywhere):
        return PathKind.STARTUP
    if any(is_under(path, root) for root in table.scratch):
        return PathKind.SCRATCH
    if is_inside(path, scope) and not is_precious(path, scope):
        return PathKind.INSIDE
    if path == "/" or any(is_under(path, root) for root in table.system):
        return PathKind.SYSTEM
    return PathKind.OUTSIDE


def _home_kind(path: str, scope: Scope) -> PathKind | None:
    relative = relative_to_home(path, scope)
    if relative is None:
        return None
    if any(fnmatchcase(relative, glob) for glob in program_tables.places().keys):
        return PathKind.KEYS
    if any(fnmatchcase(relative, glob) for glob in program_tables.places().startup):
        return PathKind.STARTUP
    return None


def relative_to_home(path: str, scope: Scope) -> str | None:
    if is_under(path, scope.home):
        return path[len(scope.home.rstrip("/")) + 1 :]
    match = re.match(r"(?:/home/[^/]+|/root|/Users/[^/]+|/mnt/[a-z]/Users/[^/]+)/(.+)", path)
    return match[1] if match else None


def is_precious(path: str, scope: Scope) -> bool:
    """The root, a home, a system directory, or a folder that contains the home or the workspace."""
    if path in program_tables.places().precious or is_under(scope.home, path):
        return True
    if re.fullmatch(r"(/home|/Users)/[^/]+", path):
        return True
    return any(path != root and is_under(root, path) for root in scope.roots)


def is_data(path: str) -> bool:
    return _data_pattern().fullmatch(path) is not None


@functools.cache
def _disk_pattern() -> re.Pattern[str]:
    return re.compile(program_tables.places().disk)


@functools.cache
def _data_pattern() -> re.Pattern[str]:
    return re.compile(program_tables.places().data)


def recursive_target(text: str) -> str:
    """Returns the directory that a recursive command affects: `x/`, `x/.`, `x/*` and `x/.*` all mean x."""
    while True:
        shorter = re.sub(r"(?<=.)/+(\*|\.\*|\.|\{\*,\.\*\}|\.\[!?\^?\.?\]\*|\?\?\*)?$|^/+(\*|\.\*|\.)$", "", text)
        if shorter == text:
            return text
        text = shorter or "/"
