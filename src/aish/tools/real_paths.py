"""Finds which files a read reaches on disk: follows links, expands wildcards, and finds secrets below a folder.

The gate itself judges names without looking at the disk. Bounded: wildcards that match too much are an error, and a
search below a folder stops at the bound.
"""

from __future__ import annotations

import itertools
import os
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

from aish.safety.commands.bounds import TooBig
from aish.safety.commands.verdict import Read
from aish.types.globs import widen_brackets

# Walking this many entries takes a few milliseconds.
_MAX_ENTRIES = 3_000
# More than that, where links are followed or packages are read, too.
_MAX_ENTRIES_OF_ALL = 20_000
# Folders of packages and histories, whose contents come from elsewhere. They are looked at last.
_PACKAGES = frozenset({".git", "node_modules", ".venv", "venv", "__pycache__", ".tox", "target", "site-packages"})
# Packages bring certificates and keys for their tests.
_PUBLIC_IN_PACKAGES = (".pem", ".key", ".crt", ".cer", ".der", ".p12", ".pfx", ".jks", ".asc", ".gpg", ".csr")
_IGNORE_FILES = frozenset({".gitignore", ".ignore", ".rgignore"})
_EXCEPTION = re.compile(rb"^!", re.MULTILINE)

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
            is_tracked = read.tracked_only and _find_settings(f"{path}{_GIT_SETTINGS}")
            if read.deep and not is_tracked:
                yield from self._below(read, path)

    def find_own_program(self, name: str, cwd: str) -> str:
        """Returns the program if PATH finds it in the workspace, or in a relative folder; else ""."""
        for folder in self._search_path().split(os.pathsep):
            path = os.path.join(cwd, folder, name)  # noqa: PTH118 -- called for each program of each line
            if os.access(path, os.X_OK):
                own = (self._root + "/", self._real_root + "/")
                is_own = folder[:1] != "/" or path.startswith(own) or os.path.realpath(path).startswith(own)
                return path if is_own else ""
        return ""

    def _below(self, read: Read, folder: str) -> Iterator[str]:
        """Yields secrets, and targets of links that lead elsewhere. Raises TooBig if links are followed and there is
        too much to look at."""
        for entry, in_package in self._files_below(read, folder):
            name = entry.name.lower()
            is_named = not read.filters or any(fnmatchcase(name, pattern.lower()) for pattern in read.filters)
            if entry.is_symlink():
                if read.ignores_links:
                    continue
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
            elif self._is_secret(entry.path) and not (in_package and name.endswith(_PUBLIC_IN_PACKAGES)):
                yield entry.path

    def _files_below(self, read: Read, folder: str) -> Iterator[tuple[os.DirEntry[str], bool]]:
        """Yields all that is no folder, and whether it belongs to a package."""
        folders, packages = deque([folder]), deque[str]()
        skips_hidden = read.skips_hidden and not _has_exceptions(folder)
        left = _MAX_ENTRIES_OF_ALL if read.follows else _MAX_ENTRIES
        seen = {folder}
        while (folders or packages) and left > 0:
            in_package = not folders
            if in_package and left <= _MAX_ENTRIES:
                left += _MAX_ENTRIES_OF_ALL - _MAX_ENTRIES
            for entry in _list_entries((folders or packages).popleft(), left):
                left -= 1
                if skips_hidden and entry.name[0] == ".":
                    continue
                if entry.is_dir(follow_symlinks=False):
                    if entry.name == ".git":
                        yield from ((settings, False) for settings in _git_settings(entry.path))
                    elif in_package or entry.name in _PACKAGES:
                        packages.append(entry.path)
                    else:
                        folders.append(entry.path)
                    continue
                yield entry, in_package
                if read.follows and entry.is_dir() and (real := os.path.realpath(entry.path)) not in seen:
                    seen.add(real)
                    folders.append(real)
        if read.follows and left <= 0:
            raise TooBig("it follows links, and there is too much below it to look at")

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


def _list_entries(folder: str, limit: int) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(itertools.islice(entries, limit))
    except OSError:
        return []


def _has_exceptions(folder: str) -> bool:
    """Whether a file there says what is searched although it is hidden (`!.env`)."""
    folders, left = deque([folder]), _MAX_ENTRIES
    while folders and left > 0:
        for entry in _list_entries(folders.popleft(), left):
            left -= 1
            if entry.name in _IGNORE_FILES:
                with suppress(OSError), Path(entry.path).open("rb") as file:
                    if _EXCEPTION.search(file.read(_MAX_SETTINGS_BYTES)):
                        return True
            elif entry.name[0] != "." and entry.name not in _PACKAGES and entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
    return left <= 0


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
    found = (_repository_folder(above / ".git") / "config" for above in (folder, *folder.parents))
    return next((str(settings) for settings in found if settings.is_file()), "")


def _repository_folder(git: Path) -> Path:
    """In a further worktree and in a submodule, `.git` is a file that names the folder."""
    if not git.is_file():
        return git
    with suppress(OSError, ValueError):
        folder = git.parent / git.read_text("utf-8").partition("gitdir:")[2].strip()
        common = folder / "commondir"
        return folder / common.read_text("utf-8").strip() if common.is_file() else folder
    return git


def _holds_login(path: str) -> bool:
    """Whether settings of git hold a password or a token, in an address or as a header."""
    try:
        with Path(path).open("rb") as file:
            return _LOGIN.search(file.read(_MAX_SETTINGS_BYTES)) is not None
    except OSError:
        return True
