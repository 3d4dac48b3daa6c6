"""Finds which files of a workspace changed since the last call.

A language server caches files that are not open, and answers from old text after a command, a formatter or the user has
changed one. On Linux inotify reports every change, so asking costs one read. Elsewhere, and if the kernel has no
watches left, every file is checked.

A server knows a file by the name in an import, which may go through a link; the kernel reports the real folder. So a
change under one name is a change under all of them. Links that lead outside are not followed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol

MAX_LINKS = 2000
_MAX_CHAIN = 4  # links within linked folders


class Links:
    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self._links: set[str] = set()
        self._known: dict[str, str] | None = {}  # link targets; None after one has changed

    @property
    def complete(self) -> bool:
        return len(self._links) < MAX_LINKS

    def update(self, path: str) -> bool:
        """Updates one path. Returns whether it is or was a link; then other links may lead elsewhere, too."""
        was = path in self._links
        if (self._root / path).is_symlink() and self.complete:
            self._links.add(path)
        else:
            self._links.discard(path)
        if not was and path not in self._links:
            return False
        self._known = None
        return True

    def has_target(self, link: str) -> bool:
        return link in self._targets

    def names(self, path: str) -> set[str]:
        """Returns the other names of a file through links."""
        found: set[str] = set()
        fresh = {path}
        for _ in range(_MAX_CHAIN):
            fresh = {name for one in fresh for name in self._names(one)} - found - {path}
            if not fresh or len(found) > MAX_LINKS:
                break
            found |= fresh
        return found

    @property
    def _targets(self) -> dict[str, str]:
        if self._known is None:
            self._known = {link: target for link in self._links if (target := self._target(link)) is not None}
        return self._known

    def _names(self, path: str) -> Iterator[str]:
        for link, target in self._targets.items():
            if path == target:
                yield link
            elif path.startswith(f"{target}/"):
                yield link + path[len(target) :]

    def _target(self, link: str) -> str | None:
        """Returns the target relative to the root; None if it is outside, missing, or above the link."""
        real = Path(os.path.realpath(self._root / link))
        if not real.is_relative_to(self._root) or (self._root / link).is_relative_to(real):
            return None
        return real.relative_to(self._root).as_posix()


PACKAGE_FOLDERS = frozenset({"node_modules", ".venv", "venv"})
_MAX_LISTINGS = 200


def find_listings(root: Path, folder: str) -> list[str]:
    """Returns the folders, relative to the root, that list the packages of one of PACKAGE_FOLDERS.

    Package folders are too large to watch completely. Installing a package adds or removes a name in the folder that
    lists packages, so only that folder is watched. Manual changes inside a package are not noticed.
    """
    if folder.rpartition("/")[2] == "node_modules":
        found: Iterable[Path] = [root / folder, *(root / folder).glob("@*/")]
    else:
        found = (root / folder).glob("lib/python*/site-packages/")
    return [path.relative_to(root).as_posix() for path in list(found)[:_MAX_LISTINGS]]


def is_package(name: str) -> bool:
    """Excludes caches and temporary names of installers."""
    return bool(name) and not name.startswith((".", "~", "__pycache__"))


CREATED, CHANGED, REMOVED = 1, 2, 3  # numbers of the language server protocol
# Never source of the project, and often huge. `build`, `dist` and `target` are watched, because generated files are
# imported.
SKIPPED_FOLDERS = frozenset({
    ".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".mypy_cache", ".ruff_cache",
    ".pytest_cache", ".cache", ".idea",
})  # fmt: skip
MAX_FOLDERS = 50_000
MAX_FILES = 100_000

Changes = dict[str, int]
Stamp = tuple[int, int]


class FileWatch(Protocol):
    @property
    def is_slow(self) -> bool:
        """Whether `changes` has to check every file."""

    @property
    def complete(self) -> bool:
        """Whether the workspace is small enough to be watched completely."""

    def changes(self) -> Changes | None:
        """Returns the changes since the last call by relative path, the last one for each file. None if packages were
        installed, so that everything may have changed.

        Raises OSError if it can no longer watch: then use another watch and assume that everything has changed.
        """

    def close(self) -> None: ...


def walk(
    root: Path,
    below: str = "",
    *,
    before: Callable[[str], None] = lambda folder: None,
    links: Links | None = None,
    packages: Callable[[str], None] = lambda folder: None,
) -> Iterator[tuple[str, list[os.DirEntry[str]]]]:
    """Yields folders (relative, "" is the root) with their files. Links are recorded in `links`, not followed. Stops at
    MAX_FOLDERS.

    `before` is called for each folder before it is listed, `packages` for folders that contain packages.
    """
    waiting, seen = [below], 0
    while waiting and seen < MAX_FOLDERS:
        folder, seen = waiting.pop(), seen + 1
        before(folder)
        try:
            entries = list(os.scandir(root / folder))
        except OSError:
            continue
        files = [entry for entry in entries if entry.is_file(follow_symlinks=False)]
        folders = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        waiting += [f"{folder}/{name}" if folder else name for name in folders if name not in SKIPPED_FOLDERS]
        for name in PACKAGE_FOLDERS.intersection(folders):
            packages(f"{folder}/{name}" if folder else name)
        for entry in entries:
            if links is not None and entry.is_symlink():
                links.update(f"{folder}/{entry.name}" if folder else entry.name)
        yield folder, files


def add_change(changes: Changes, path: str, kind: int) -> None:
    """Adds a change: created and then changed is created, removed and created again is changed."""
    before = changes.get(path)
    if kind == CHANGED and before == CREATED:
        return
    changes[path] = CHANGED if kind == CREATED and before == REMOVED else kind


class PollingWatch:
    """Compares times and sizes of all files."""

    is_slow = True

    def __init__(self, root: Path, wanted: Callable[[str], bool]) -> None:
        self._root = root
        self._wanted = wanted
        self._listed: dict[str, int] = {}
        self._known = self._list_stamps()

    @property
    def complete(self) -> bool:
        return len(self._known) < MAX_FILES

    def changes(self) -> Changes | None:
        before, listed = self._known, self._listed
        self._known = self._list_stamps()
        return compare_stamps(before, self._known) if listed == self._listed else None

    def close(self) -> None:
        """There is nothing to close."""

    def _list_stamps(self) -> dict[str, Stamp]:
        self._listed = {}
        return list_stamps(self._root, self._wanted, self._note_packages)

    def _note_packages(self, folder: str) -> None:
        for listing in find_listings(self._root, folder):
            with contextlib.suppress(OSError):
                self._listed[listing] = (self._root / listing).stat().st_mtime_ns


def list_stamps(
    root: Path, wanted: Callable[[str], bool], packages: Callable[[str], None] = lambda folder: None
) -> dict[str, Stamp]:
    """Returns the times and sizes of all wanted files, under each of their names."""
    links = Links(root)
    found = _list_stamps(root, wanted, links, packages)
    return found | {name: stamp for path, stamp in found.items() for name in links.names(path)}


def _list_stamps(
    root: Path, wanted: Callable[[str], bool], links: Links, packages: Callable[[str], None]
) -> dict[str, Stamp]:
    found: dict[str, Stamp] = {}
    for folder, files in walk(root, links=links, packages=packages):
        for entry in files:
            if not wanted(entry.name):
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            found[f"{folder}/{entry.name}" if folder else entry.name] = (status.st_mtime_ns, status.st_size)
            if len(found) >= MAX_FILES:
                return found
    return found


def compare_stamps(before: dict[str, Stamp], after: dict[str, Stamp]) -> Changes:
    changes = {path: CHANGED if path in before else CREATED for path in after if before.get(path) != after[path]}
    return changes | {path: REMOVED for path in before if path not in after}
