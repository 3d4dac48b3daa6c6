"""Watches the files of a workspace with inotify, called through ctypes. docs/dependencies.md compares `watchfiles`."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from aish.tools.code.files.watcher import (
    CHANGED,
    CREATED,
    MAX_FILES,
    MAX_FOLDERS,
    PACKAGE_FOLDERS,
    REMOVED,
    SKIPPED_FOLDERS,
    Changes,
    Links,
    Stamp,
    add_change,
    find_listings,
    is_package,
    walk,
)

_EVENT = struct.Struct("iIII")
_READ_BYTES = 64 * 1024

# A write is reported at once, because logs and generators keep files open for a long time.
_MODIFY, _CLOSE_WRITE, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x2, 0x8, 0x40, 0x80, 0x100, 0x200
_OVERFLOW, _IS_FOLDER, _IGNORED = 0x4000, 0x4000_0000, 0x8000
_ONLY_FOLDERS, _NO_LINKS = 0x0100_0000, 0x0200_0000
_NAMES = _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE
_MASK = _MODIFY | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _ONLY_FOLDERS | _NO_LINKS


class InotifyWatch:
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
        self._files: dict[str, Stamp] = {}
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
        return len(self._folders) < MAX_FOLDERS and len(self._files) < MAX_FILES and self._links.complete

    def changes(self) -> Changes | None:
        changes: Changes = {}
        self._installed = False
        while data := self._read():
            for folder, mask, name in self._events(data):
                self._handle_event(folder, mask, name, changes)
        for path, kind in list(changes.items()):
            for other in self._links.names(path):
                add_change(changes, other, kind)
        if self._installed or not all(self._packages.values()):
            self._watch_new_listings()
        return None if self._installed else changes

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

    def _handle_event(self, folder: str | None, mask: int, name: str, changes: Changes) -> None:
        if mask & _OVERFLOW:
            self._start_over(changes)
        elif folder is not None and name:
            path = f"{folder}/{name}" if folder else name
            if mask & _IS_FOLDER:
                self._handle_folder(path, mask, changes)
                return
            if mask & _NAMES:
                self._handle_link(path, changes)
            if self._wanted(name):
                add_change(changes, path, self._kind(path, mask))

    def _handle_link(self, path: str, changes: Changes) -> None:
        """Reports all names below a link that is created, removed or changed."""
        before = self._named_below(path)
        if self._links.update(path):
            for name in before:
                add_change(changes, name, REMOVED)
            for name in self._named_below(path):
                add_change(changes, name, CREATED)

    def _named_below(self, link: str) -> list[str]:
        if not self._links.has_target(link):
            return []
        names = (name for known in self._files for name in self._links.names(known))
        return [name for name in names if name.startswith(f"{link}/")]

    def _kind(self, path: str, mask: int) -> int:
        if mask & (_DELETE | _MOVED_FROM):
            self._files.pop(path, None)
            return REMOVED
        kind = CHANGED if path in self._files else CREATED
        self._files[path] = (0, 0)
        return kind

    def _handle_folder(self, path: str, mask: int, changes: Changes) -> None:
        if path.rpartition("/")[2] in PACKAGE_FOLDERS:
            self._installed = True
            self._watch_packages(path)
        if mask & (_CREATE | _MOVED_TO):
            if path.rpartition("/")[2] not in SKIPPED_FOLDERS:
                for made, kind in self._watch_below(path).items():
                    add_change(changes, made, kind)
        elif mask & (_DELETE | _MOVED_FROM):
            for known in [known for known in self._files if known.startswith(f"{path}/")]:
                add_change(changes, known, REMOVED)
                del self._files[known]

    def _watch_below(self, below: str) -> Changes:
        """Adds watches before it lists files, so that a file created in between is reported twice rather than never."""
        changes: Changes = {}
        for folder, files in self._walk(below):
            for entry in files:
                if self._wanted(entry.name) and len(self._files) < MAX_FILES:
                    path = f"{folder}/{entry.name}" if folder else entry.name
                    changes[path] = CHANGED if path in self._files else CREATED
                    self._files[path] = (0, 0)
        return changes

    def _walk(self, below: str) -> Iterator[tuple[str, list[os.DirEntry[str]]]]:
        return walk(self._root, below, before=self._watch_folder, links=self._links, packages=self._watch_packages)

    def _watch_folder(self, folder: str) -> None:
        if (number := self._add_watch(folder, _MASK)) >= 0:
            self._folders[number] = folder

    def _watch_packages(self, folder: str) -> None:
        changes = find_listings(self._root, folder)
        if len(self._packages) < MAX_FOLDERS:
            self._packages[folder] = bool(changes)
        for listing in changes:
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

    def _start_over(self, changes: Changes) -> None:
        """Lists everything again after an overflow of the kernel's queue."""
        before = self._files
        self._files = {}
        changes |= dict.fromkeys(before, CHANGED)
        now = self._watch_below("")
        changes |= {path: CHANGED if path in before else CREATED for path in now}
        changes |= {path: REMOVED for path in before if path not in now}
