"""Finds which files a read reaches on disk: follows links, expands wildcards, and finds secrets below a folder.

The gate itself judges names without looking at the disk. Bounded: wildcards that match too much are an error, and a
search below a folder stops at the bound.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

from aish.safety.commands.bounds import TooBig
from aish.safety.commands.verdict import Read
from aish.types.globs import widen_brackets

# Walking this many entries takes a few milliseconds.
_MAX_ENTRIES = 3_000
_MAX_ENTRIES_WITH_LINKS = 20_000
# Folders of packages and histories, whose contents come from elsewhere. Links in them count where links are followed.
_SKIPPED = frozenset({".git", "node_modules", ".venv", "venv", "__pycache__", ".tox", "target", "site-packages"})

_GIT_SETTINGS = "/.git/config"
_LOGIN = re.compile(rb"(?i)://[^/\s]*@|extraheader|password|token|secret")
_MAX_SETTINGS_BYTES = 256 * 1024
_MAX_MODULES = 200


class RealPaths:
    """`is_secret` says whether a path, by its place or name, is a secret. `search_path` gives PATH."""

    def __init__(
        self, root: Path, is_secret: Callable[[str], bool], search_path: Callable[[], str] = lambda: ""
    ) -> None:
        self._search_path = search_path
        self._root = str(root)
        self._real_root = os.path.realpath(root)
        self._is_secret = is_secret

    def __call__(self, read: Read) -> Iterator[str]:
        if read.path.endswith(_GIT_SETTINGS) and (settings := _find_settings(read.path)):
            if _holds_login(settings):
                yield settings
            return
        for path in self._matches(read):
            real = self._with_workspace_name(os.path.realpath(path))
            if real != path:
                yield real
            elif read.glob:
                yield path
            if read.deep:
                yield from self._below(path, read.filters, follows=read.follows)

    def find_own_program(self, name: str, cwd: str) -> str:
        """Returns the program if PATH finds it in the workspace, or in a relative folder; else ""."""
        for folder in self._search_path().split(os.pathsep):
            path = os.path.join(cwd, folder, name)  # noqa: PTH118 -- called for each program of each line
            if os.access(path, os.X_OK):
                own = (self._root + "/", self._real_root + "/")
                is_own = folder[:1] != "/" or path.startswith(own) or os.path.realpath(path).startswith(own)
                return path if is_own else ""
        return ""

    def _below(self, folder: str, filters: Sequence[str], *, follows: bool) -> Iterator[str]:
        """Yields secrets, and targets of links that lead elsewhere. Raises TooBig if links are followed and there is
        too much to look at."""
        for entry in _files_below(folder, follows=follows):
            name = entry.name.lower()
            is_named = not filters or any(fnmatchcase(name, widen_brackets(pattern.lower())) for pattern in filters)
            if entry.is_symlink():
                # Below a link to a folder, other names decide.
                real = self._with_workspace_name(os.path.realpath(entry.path))
                is_read = is_named or os.path.isdir(real)  # noqa: PTH112 -- for each link of a tree
                if is_read and (not real.startswith(self._root + "/") or self._is_secret(real)):
                    yield real
            elif not is_named:
                continue
            elif entry.name == "config" and "/.git/" in entry.path:
                if _holds_login(entry.path):
                    yield entry.path
            elif self._is_secret(entry.path) and not _is_skipped(entry.path, folder):
                yield entry.path

    def _matches(self, read: Read) -> Sequence[str]:
        return _expand_pattern(read.path) if read.glob else (read.path,)

    def _with_workspace_name(self, real: str) -> str:
        """Keeps the workspace's own name if that is a link."""
        rest = real.removeprefix(self._real_root)
        is_below = rest != real and rest[:1] in ("", "/")
        return self._root + rest if is_below else real


def _expand_pattern(pattern: str) -> list[str]:
    """Expands the shell's wildcards folder by folder. Raises TooBig, because circular links match without end."""
    paths, left = [""], _MAX_ENTRIES
    for part in filter(None, widen_brackets(pattern).split("/")):
        if "*" not in part and "?" not in part:
            paths = [path for path in (f"{folder}/{part}" for folder in paths) if os.path.lexists(path)]
            continue
        found: list[str] = []
        for folder in paths:
            names = _list_names(folder or "/", left)
            left -= len(names) + 1
            if left <= 0:
                raise TooBig("its wildcards match too much to look at")
            # A leading wildcard does not match hidden files.
            shown = (name for name in names if name[0] != "." or part[0] == ".")
            found += [f"{folder}/{name}" for name in shown if fnmatchcase(name, part)]
        paths = found
    return paths


def _list_names(folder: str, limit: int) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in itertools.islice(entries, limit)]
    except OSError:
        return []


def _files_below(folder: str, *, follows: bool) -> Iterator[os.DirEntry[str]]:
    left = _MAX_ENTRIES_WITH_LINKS if follows else _MAX_ENTRIES
    folders = [folder]
    while folders and left > 0:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in itertools.islice(entries, left):
                    left -= 1
                    if not entry.is_dir(follow_symlinks=False):
                        yield entry
                    elif follows or entry.name not in _SKIPPED:
                        folders.append(entry.path)
                    elif entry.name == ".git":
                        yield from _git_settings(entry.path)
        except OSError:
            continue
    if follows and left <= 0:
        raise TooBig("it follows links, and there is too much below it to look at")


def _git_settings(folder: str) -> Iterator[os.DirEntry[str]]:
    """Yields the settings of the repository and of its submodules."""
    folders, left = [folder], _MAX_MODULES
    while folders and left > 0:
        left -= 1
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name == "config":
                    yield entry
                elif entry.name == "modules" or f"{folder}/modules" in entry.path:
                    folders.append(entry.path)


def _find_settings(path: str) -> str:
    """Returns the settings of the repository in which the folder is; "" if there are none."""
    folder = Path(path.removesuffix(_GIT_SETTINGS))
    found = (above / ".git" / "config" for above in (folder, *folder.parents))
    return next((str(settings) for settings in found if settings.is_file()), "")


def _is_skipped(path: str, folder: str) -> bool:
    """Whether a folder between the two is one of those whose contents come from elsewhere."""
    return not _SKIPPED.isdisjoint(path[len(folder) :].split("/"))


def _holds_login(path: str) -> bool:
    """Whether settings of git hold a password or a token, in an address or as a header."""
    try:
        with Path(path).open("rb") as file:
            return _LOGIN.search(file.read(_MAX_SETTINGS_BYTES)) is not None
    except OSError:
        return True
