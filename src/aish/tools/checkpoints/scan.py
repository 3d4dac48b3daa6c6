"""Stores the files of a workspace that have changed since they were seen last.

Each folder is opened below the one above it, and no link is followed. Left out are the folders of version control,
files that `.gitignore` or `.git/info/exclude` name, files above a size, what cannot be read, and aish's own files. What
is left out is noted in the tree, so a rewind does not take it for something new.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from time import monotonic, time_ns

import msgspec

from aish.errors import CheckpointError
from aish.tools.checkpoints.database import (
    IGNORED,
    SKIPPED,
    CheckpointDatabase,
    Entry,
    KnownFolder,
    Tree,
    is_folder_mode,
)
from aish.tools.code.search.walk import ALWAYS, Pattern, is_ignored, read_patterns

MAX_ENTRIES = 300_000
MAX_DEPTH = 200
# A file that changed so shortly before it was read may change again with the same times.
_CLOCK_NS = 100_000_000
_IGNORE_FILE = ".gitignore"
_MAX_IGNORE_BYTES = 256 * 1024
_FOLDER = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_FILE = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_IGNORED_ENTRY = Entry(IGNORED)
_SKIPPED_ENTRY = Entry(SKIPPED)


class OutOfTime(Exception):
    """What was stored stays there, so the next scan gets further."""


class ScanRules(msgspec.Struct, frozen=True):
    """`hides` are paths below the root that are never opened. A scan that `is_stopped` ends like one without time."""

    max_file_bytes: int
    max_s: float
    hides: frozenset[bytes] = frozenset()
    is_stopped: Callable[[], bool] = lambda: False


class _Ignores(msgspec.Struct, frozen=True):
    """The ignore rules that apply in a folder. `id` is the same for the same rules."""

    patterns: tuple[Pattern, ...] = ()
    id: bytes = b""

    def extend(self, fd: int, file: str, folder: bytes) -> _Ignores:
        content = _read_small(fd, file)
        if not content.strip():
            return self
        patterns = read_patterns(content.decode("utf-8", "replace"), os.fsdecode(folder))
        id = blake2b(self.id + folder + b"\0" + content, digest_size=8).digest()
        return _Ignores((*self.patterns, *patterns), id)


class WorkspaceScan:
    """One scan. `keeps` is a tree whose files are stored whatever the rules say now: they are about to be replaced."""

    def __init__(self, db: CheckpointDatabase, root: bytes, rules: ScanRules, *, keeps: bytes = b"") -> None:
        self._db = db
        self._root = root
        self._rules = rules
        self._keeps = keeps
        self._known = db.read_known()
        self._recent_ns = time_ns() - _CLOCK_NS
        self._due_s = monotonic() + rules.max_s
        self._left = MAX_ENTRIES

    def run(self) -> bytes:
        """Returns the id of the tree. Raises OutOfTime, StoreFull and CheckpointError."""
        fd = os.open(self._root, _FOLDER & ~getattr(os, "O_NOFOLLOW", 0))
        try:
            ignores = _Ignores().extend(fd, ".git/info/exclude", b"")
            return self._scan_folder(fd, b"", ignores, self._keeps, 0)
        finally:
            os.close(fd)

    def _scan_folder(self, fd: int, path: bytes, ignores: _Ignores, keeps: bytes, depth: int) -> bytes:
        if monotonic() > self._due_s or self._rules.is_stopped():
            raise OutOfTime
        with os.scandir(fd) as found:
            listed = list(found)
        self._left -= len(listed)
        if self._left < 0:
            raise CheckpointError(f"there are more than {MAX_ENTRIES} files that are not ignored")
        if any(item.name == _IGNORE_FILE for item in listed):
            ignores = ignores.extend(fd, _IGNORE_FILE, path)
        known = self._known.get(path, _UNKNOWN)
        folder = _Folder(fd, path, ignores, known, self._kept_names(keeps), depth)
        entries: dict[bytes, Entry] = {}
        try:
            for item in listed:
                if item.name not in ALWAYS:
                    name = os.fsencode(item.name)
                    entries[name] = self._scan_entry(folder, item, name)
        except OutOfTime:
            self._db.put_known(path, KnownFolder(ignores.id, b"", {**known.entries, **entries}))
            raise
        if known.tree and known.rules == ignores.id and entries == known.entries:
            return known.tree
        return self._store_folder(folder, entries)

    def _kept_names(self, keeps: bytes) -> Tree:
        """What the tree that is kept has stored of a folder."""
        tree = self._db.read_tree(keeps) if keeps else {}
        return {name: entry for name, entry in tree.items() if entry[0] not in (IGNORED, SKIPPED)}

    def _store_folder(self, folder: _Folder, entries: dict[bytes, Entry]) -> bytes:
        tree = self._db.put_tree(entries)
        self._db.put_known(folder.path, KnownFolder(folder.ignores.id, tree, entries))
        gone = tuple(
            _join(folder.path, name) + b"/"
            for name, entry in folder.known.entries.items()
            if is_folder_mode(entry.mode) and not (name in entries and is_folder_mode(entries[name].mode))
        )
        if gone:
            self._db.forget_known(path for path in self._known if (path + b"/").startswith(gone))
        return tree

    def _scan_entry(self, folder: _Folder, item: os.DirEntry[str], name: bytes) -> Entry:
        is_folder = item.is_dir(follow_symlinks=False)
        old = folder.known.entries.get(name)
        if (old is None or old.mode == IGNORED or not folder.has_same_rules) and name not in folder.kept_names:
            is_decided = old is not None and folder.has_same_rules
            if is_decided or folder.ignores_entry(item.name, is_folder=is_folder):
                return _IGNORED_ENTRY
        if self._rules.hides and _join(folder.path, name) in self._rules.hides:
            return _SKIPPED_ENTRY
        try:
            if is_folder:
                return self._scan_subfolder(folder, item.name, name)
            status = item.stat(follow_symlinks=False)
            if (
                old is not None
                and old.changed_ns == status.st_ctime_ns
                and old.inode == status.st_ino
                and old.size == status.st_size
            ):
                return old
            return self._store_file(folder, item.name, status)
        except PermissionError:
            return _unreadable(item, old)
        except OSError:  # it is gone by now
            return _SKIPPED_ENTRY

    def _scan_subfolder(self, folder: _Folder, name: str, key: bytes) -> Entry:
        """Raises OSError."""
        if folder.depth >= MAX_DEPTH:
            return _SKIPPED_ENTRY
        fd = os.open(name, _FOLDER, dir_fd=folder.fd)
        try:
            mode, keeps = folder.kept_names.get(key, (0, b""))
            keeps = keeps if is_folder_mode(mode) else b""
            tree = self._scan_folder(fd, _join(folder.path, key), folder.ignores, keeps, folder.depth + 1)
            status = os.fstat(fd)
            return Entry(status.st_mode, tree, inode=status.st_ino)
        finally:
            os.close(fd)

    def _store_file(self, folder: _Folder, name: str, status: os.stat_result) -> Entry:
        """Raises OSError."""
        if monotonic() > self._due_s or self._rules.is_stopped():
            raise OutOfTime
        if stat.S_ISLNK(status.st_mode):
            content = os.fsencode(os.readlink(name, dir_fd=folder.fd))
        elif not stat.S_ISREG(status.st_mode) or status.st_size > self._rules.max_file_bytes:
            return _SKIPPED_ENTRY
        else:
            content, status = _read_file(folder.fd, name, self._rules.max_file_bytes)
        id = self._db.put_content(content)
        changed_ns = status.st_ctime_ns if status.st_ctime_ns < self._recent_ns else -status.st_ctime_ns
        return Entry(status.st_mode, id, changed_ns, status.st_ino, status.st_size, status.st_mtime_ns)


_UNKNOWN = KnownFolder(b"", b"", {})


class _Folder(msgspec.Struct, frozen=True):
    """A folder that is being scanned. `kept_names` are stored entries of the tree that is kept."""

    fd: int
    path: bytes
    ignores: _Ignores
    known: KnownFolder
    kept_names: Tree
    depth: int

    @property
    def has_same_rules(self) -> bool:
        return self.known.rules == self.ignores.id

    def ignores_entry(self, name: str, *, is_folder: bool) -> bool:
        path = os.fsdecode(_join(self.path, os.fsencode(name)))
        return is_ignored(path, self.ignores.patterns, folder=is_folder)


def _unreadable(item: os.DirEntry[str], old: Entry | None) -> Entry:
    """What was stored before, if only the mode has changed."""
    with suppress(OSError):
        status = item.stat(follow_symlinks=False)
        if old is not None and old.id and old.inode == status.st_ino:
            same = is_folder_mode(old.mode) or (old.size, old.modified_ns) == (status.st_size, status.st_mtime_ns)
            if same and stat.S_IFMT(old.mode) == stat.S_IFMT(status.st_mode):
                return msgspec.structs.replace(old, mode=status.st_mode, changed_ns=-status.st_ctime_ns)
    return _SKIPPED_ENTRY


def _join(path: bytes, name: bytes) -> bytes:
    return path + b"/" + name if path else name


def _read_file(folder: int, name: str, max_bytes: int) -> tuple[bytes, os.stat_result]:
    """The content and the status before it was read. Raises OSError."""
    fd = os.open(name, _FILE, dir_fd=folder)
    with open(fd, "rb") as file:  # noqa: PTH123  # a descriptor has no path
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError("it is no regular file any more")
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise OSError("it has grown")
    return content, status


def _read_small(folder: int, name: str) -> bytes:
    with suppress(OSError):
        return _read_file(folder, name, _MAX_IGNORE_BYTES)[0]
    return b""
