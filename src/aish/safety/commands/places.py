"""Resolves paths as the shell would, and classifies places. Does not access the disk."""

from __future__ import annotations

import functools
import posixpath
import re
from enum import StrEnum
from fnmatch import fnmatchcase

from aish.safety.commands import tables
from aish.safety.commands.scope import Scope
from aish.safety.commands.syntax.expansion import DYNAMIC


class Place(StrEnum):
    SINK = "sink"  # nothing is stored there
    DISK = "disk"  # a whole disk or the memory
    KEYS = "keys"
    STARTUP = "startup"
    SYSTEM = "system"
    SCRATCH = "scratch"
    INSIDE = "inside"  # the workspace
    OUTSIDE = "outside"
    UNRESOLVED = "unresolved"


def resolve(text: str, scope: Scope) -> str | None:
    """Returns the absolute, normalised path; None if it is only known when the line runs."""
    if DYNAMIC in text or not text:
        return None
    if not text.startswith("/"):
        if scope.cwd is None:
            return None
        text = f"{scope.cwd}/{text}"
    path = posixpath.normpath(text)
    return path[1:] if path.startswith("//") else path


def under(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def is_inside(path: str, scope: Scope) -> bool:
    """Whether the path is in the workspace. A workspace of `/` does not count."""
    return any(under(path, root) for root in scope.roots if root != "/")


def place_of(path: str, scope: Scope) -> Place:
    table = tables.places()
    if path in table.sinks or path.startswith("/dev/fd/"):
        return Place.SINK
    if _disk().fullmatch(path):
        return Place.DISK
    special = _at_home(path, scope)
    if special is not None:
        return special
    if any(fnmatchcase(path, glob) for glob in table.anywhere):
        return Place.STARTUP
    if any(under(path, root) for root in table.scratch):
        return Place.SCRATCH
    if is_inside(path, scope) and not is_precious(path, scope):
        return Place.INSIDE
    if path == "/" or any(under(path, root) for root in table.system):
        return Place.SYSTEM
    return Place.OUTSIDE


def _at_home(path: str, scope: Scope) -> Place | None:
    relative = home_relative(path, scope)
    if relative is None:
        return None
    if any(fnmatchcase(relative, glob) for glob in tables.places().keys):
        return Place.KEYS
    if any(fnmatchcase(relative, glob) for glob in tables.places().startup):
        return Place.STARTUP
    return None


def home_relative(path: str, scope: Scope) -> str | None:
    if under(path, scope.home):
        return path[len(scope.home.rstrip("/")) + 1 :]
    match = re.match(r"(?:/home/[^/]+|/root|/Users/[^/]+)/(.+)", path)
    return match[1] if match else None


def is_precious(path: str, scope: Scope) -> bool:
    """The root, a home, a system directory, or a folder that contains the home or the workspace."""
    if path in tables.places().precious or under(scope.home, path):
        return True
    if re.fullmatch(r"(/home|/Users)/[^/]+", path):
        return True
    return any(path != root and under(root, path) for root in scope.roots)


def is_data(path: str) -> bool:
    return _data().fullmatch(path) is not None


@functools.cache
def _disk() -> re.Pattern[str]:
    return re.compile(tables.places().disk)


@functools.cache
def _data() -> re.Pattern[str]:
    return re.compile(tables.places().data)


def swept(text: str) -> str:
    """Returns the directory that a recursive command affects: `x/`, `x/.`, `x/*` and `x/.*` all mean x."""
    while True:
        shorter = re.sub(r"(?<=.)/+(\*|\.\*|\.|\{\*,\.\*\}|\.\[!?\^?\.?\]\*|\?\?\*)?$|^/+(\*|\.\*|\.)$", "", text)
        if shorter == text:
            return text
        text = shorter or "/"
