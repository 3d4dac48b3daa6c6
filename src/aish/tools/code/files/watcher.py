"""Finds which files of a workspace changed since the last call.

A language server caches files that are not open, and answers from old text after a command, a formatter or the user has
changed one. On Linux inotify reports every change, so asking costs one read. Elsewhere, and if the kernel has no
watches left, every file is checked.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from aish.tools.code.files.links import Links
from aish.tools.code.files.packages import FOLDERS, is_package, listings

MADE, CHANGED, REMOVED = 1, 2, 3  # numbers of the language server protocol
# Never source of the project, and often huge. `build`, `dist` and `target` are watched, because generated files are
# imported.
SKIPPED_FOLDERS = frozenset({
    ".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".mypy_cache", ".ruff_cache",
    ".pytest_cache", ".cache", ".idea",
})  # fmt: skip
MAX_FOLDERS = 50_000
MAX_FILES = 100_000
_EVENT = struct.Struct("iIII")
_READ_BYTES = 64 * 1024

# A write is reported at once, because logs and generators keep files open for a long time.
_MODIFY, _CLOSE_WRITE, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x2, 0x8, 0x40, 0x80, 0x100, 0x200
_OVERFLOW, _IS_FOLDER, _IGNORED = 0x4000, 0x4000_0000, 0x8000
_ONLY_FOLDERS, _NO_LINKS = 0x0100_0000, 0x0200_0000
_NAMES = _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE
_MASK = _MODIFY | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _ONLY_FOLDERS | _NO_LINKS

Changes = dict[str, int]
Stamp = tuple[int, int]


class Watch(Protocol):
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


def watch(root: Path, wanted: Callable[[str], bool]) -> Watch:
    """Watches files whose name is `wanted`."""
    try:
        return KernelWatch(root, wanted)
    except OSError:
        return LookingWatch(root, wanted)


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
        for name in FOLDERS.intersection(folders):
            packages(f"{folder}/{name}" if folder else name)
        for entry in entries:
            if links is not None and entry.is_symlink():
                links.look(f"{folder}/{entry.name}" if folder else entry.name)
        yield folder, files


def note(changes: Changes, path: str, kind: int) -> None:
    """Adds a change: created and then changed is created, removed and created again is changed."""
    before = changes.get(path)
    if kind == CHANGED and before == MADE:
        return
    changes[path] = CHANGED if kind == MADE and before == REMOVED else kind


class LookingWatch:
    """Compares times and sizes of all files."""

    is_slow = True

    def __init__(self, root: Path, wanted: Callable[[str], bool]) -> None:
        self._root = root
        self._wanted = wanted
        self._listed: dict[str, int] = {}
        self._known = self._look()

    @property
    def complete(self) -> bool:
        return len(self._known) < MAX_FILES

    def changes(self) -> Changes | None:
        before, listed = self._known, self._listed
        self._known = self._look()
        return compare(before, self._known) if listed == self._listed else None

    def close(self) -> None:
        """There is nothing to close."""

    def _look(self) -> dict[str, Stamp]:
        self._listed = {}
        return look(self._root, self._wanted, self._note_packages)

    def _note_packages(self, folder: str) -> None:
        for listing in listings(self._root, folder):
            with contextlib.suppress(OSError):
                self._listed[listing] = (self._root / listing).stat().st_mtime_ns


def look(
    root: Path, wanted: Callable[[str], bool], packages: Callable[[str], None] = lambda folder: None
) -> dict[str, Stamp]:
    """Returns the times and sizes of all wanted files, under each of their names."""
    links = Links(root)
    found = _look(root, wanted, links, packages)
    return found | {name: stamp for path, stamp in found.items() for name in links.names(path)}


def _look(root: Path, wanted: Callable[[str], bool], links: Links, packages: Callable[[str], None]) -> dict[str, Stamp]:
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


def compare(before: dict[str, Stamp], after: dict[str, Stamp]) -> Changes:
    changes = {path: CHANGED if path in before else MADE for path in after if before.get(path) != after[path]}
    return changes | {path: REMOVED for path in before if path not in after}


class KernelWatch:
    """Watches with inotify. Raises OSError if there is none, or not enough watches for all folders."""

    is_slow = False

    def __init__(self, root: Path, wanted: Callable[[str], bool]) -> None:
        if not sys.platform.startswith("linux"):
            raise OSError(errno.ENOSYS, "no inotify")
        self._root = root
        self._wanted = wanted
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        self._folders: dict[int, str] = {}
        self._known: dict[str, Stamp] = {}
        self._links = Links(root)
        self._listings: set[int] = set()
        self._packages: dict[str, bool] = {}  # folders of packages, and whether they list any yet
        self._installed = False
        try:
            self._watch_below("")
        except OSError:
            self.close()
            raise

    @property
    def complete(self) -> bool:
        return len(self._folders) < MAX_FOLDERS and len(self._known) < MAX_FILES and self._links.complete

    def changes(self) -> Changes | None:
        found: Changes = {}
        self._installed = False
        while data := self._read():
            for folder, mask, name in self._events(data):
                self._take(folder, mask, name, found)
        for path, kind in list(found.items()):
            for other in self._links.names(path):
                note(found, other, kind)
        if self._installed or not all(self._packages.values()):
            self._watch_new_listings()
        return None if self._installed else found

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _read(self) -> bytes:
        try:
            return os.read(self._fd, _READ_BYTES)
        except BlockingIOError:
            return b""

    def _events(self, data: bytes) -> Iterator[tuple[str | None, int, str]]:
        at = 0
        while at + _EVENT.size <= len(data):
            number, mask, _, size = _EVENT.unpack_from(data, at)
            name = os.fsdecode(data[at + _EVENT.size : at + _EVENT.size + size].rstrip(b"\0"))
            at += _EVENT.size + size
            if number in self._listings:
                self._installed = self._installed or is_package(name)
            yield self._folders.get(number), mask, name
            if mask & _IGNORED:
                self._folders.pop(number, None)

    def _take(self, folder: str | None, mask: int, name: str, found: Changes) -> None:
        if mask & _OVERFLOW:
            self._start_over(found)
        elif folder is not None and name:
            path = f"{folder}/{name}" if folder else name
            if mask & _IS_FOLDER:
                self._take_folder(path, mask, found)
                return
            if mask & _NAMES:
                self._take_link(path, found)
            if self._wanted(name):
                note(found, path, self._kind(path, mask))

    def _take_link(self, path: str, found: Changes) -> None:
        """Reports all names below a link that is created, removed or changed."""
        before = self._named_below(path)
        if self._links.look(path):
            for name in before:
                note(found, name, REMOVED)
            for name in self._named_below(path):
                note(found, name, MADE)

    def _named_below(self, link: str) -> list[str]:
        if not self._links.leads(link):
            return []
        names = (name for known in self._known for name in self._links.names(known))
        return [name for name in names if name.startswith(f"{link}/")]

    def _kind(self, path: str, mask: int) -> int:
        if mask & (_DELETE | _MOVED_FROM):
            self._known.pop(path, None)
            return REMOVED
        kind = CHANGED if path in self._known else MADE
        self._known[path] = (0, 0)
        return kind

    def _take_folder(self, path: str, mask: int, found: Changes) -> None:
        if path.rpartition("/")[2] in FOLDERS:
            self._installed = True
            self._watch_packages(path)
        if mask & (_CREATE | _MOVED_TO):
            if path.rpartition("/")[2] not in SKIPPED_FOLDERS:
                for made, kind in self._watch_below(path).items():
                    note(found, made, kind)
        elif mask & (_DELETE | _MOVED_FROM):
            for known in [known for known in self._known if known.startswith(f"{path}/")]:
                note(found, known, REMOVED)
                del self._known[known]

    def _watch_below(self, below: str) -> Changes:
        """Adds watches before it lists files, so that a file created in between is reported twice rather than never."""
        found: Changes = {}
        for folder, files in self._walk(below):
            for entry in files:
                if self._wanted(entry.name) and len(self._known) < MAX_FILES:
                    path = f"{folder}/{entry.name}" if folder else entry.name
                    found[path] = CHANGED if path in self._known else MADE
                    self._known[path] = (0, 0)
        return found

    def _walk(self, below: str) -> Iterator[tuple[str, list[os.DirEntry[str]]]]:
        return walk(self._root, below, before=self._watch_folder, links=self._links, packages=self._watch_packages)

    def _watch_folder(self, folder: str) -> None:
        if (number := self._add_watch(folder, _MASK)) >= 0:
            self._folders[number] = folder

    def _watch_packages(self, folder: str) -> None:
        found = listings(self._root, folder)
        if len(self._packages) < MAX_FOLDERS:
            self._packages[folder] = bool(found)
        for listing in found:
            if (number := self._add_watch(listing, _NAMES | _ONLY_FOLDERS | _NO_LINKS)) >= 0:
                self._listings.add(number)

    def _watch_new_listings(self) -> None:
        """Watches package folders of an environment that is still being created."""
        for folder, had in list(self._packages.items()):
            if not (self._root / folder).is_dir():
                del self._packages[folder]
                continue
            self._watch_packages(folder)
            self._installed = self._installed or self._packages[folder] != had

    def _add_watch(self, folder: str, mask: int) -> int:
        """Returns a negative number if the folder is gone."""
        number: int = self._libc.inotify_add_watch(self._fd, os.fsencode(self._root / folder), mask)
        if number < 0 and ctypes.get_errno() in (errno.ENOSPC, errno.ENOMEM):
            raise OSError(ctypes.get_errno(), "no watches left")
        return number

    def _start_over(self, found: Changes) -> None:
        """Lists everything again after an overflow of the kernel's queue."""
        before = self._known
        self._known = {}
        found |= dict.fromkeys(before, CHANGED)
        now = self._watch_below("")
        found |= {path: CHANGED if path in before else MADE for path in now}
        found |= {path: REMOVED for path in before if path not in now}
