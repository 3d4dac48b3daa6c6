"""Compares two trees of a workspace, and brings one back where the other is.

Every folder is opened below the one above it, and no link is followed. A file is replaced by a rename, and only if it
is still as the newer checkpoint has it, so nothing is lost that no checkpoint has. What one of the trees does not hold
(ignored, too large, not readable) stays as it is.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from aish.tools.checkpoints.database import (
    IGNORED,
    SKIPPED,
    CheckpointDatabase,
    KnownFolder,
    is_folder_mode,
)
from aish.types.checkpoints import FileChanges

_FOLDER = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
_O_PATH = getattr(os, "O_PATH", 0)  # opens what may not be read, too
_NO_LINK = _O_PATH | os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_LENDS_RIGHTS = stat.S_ISUID | stat.S_ISGID
_NO_FD = -1
_WAS_SKIPPED = "it was too large or not readable then, and is not stored"
_WAS_IGNORED = "it was ignored then, and is not stored"
_IS_SKIPPED = "it is too large or not readable now, and would be lost"
_IS_IGNORED = "it is ignored now, and would be lost"
_HAS_CHANGED = "it has just changed"
_NOT_EMPTY = "it holds files that are not stored"

_Item = tuple[int, bytes]  # mode and id


def compare_trees(db: CheckpointDatabase, then: bytes, now: bytes) -> FileChanges:
    """What bringing `then` back would change."""
    change = _TreeChange(db, None)
    change.change_folder(_NO_FD, b"", then, now)
    return change.collect()


def restore_tree(
    db: CheckpointDatabase, root: bytes, then: bytes, now: bytes, known: Mapping[bytes, KnownFolder]
) -> FileChanges:
    """Brings `then` back. `now` is the tree of the workspace, and `known` what was seen of it just before."""
    change = _TreeChange(db, known)
    fd = os.open(root, _FOLDER & ~getattr(os, "O_NOFOLLOW", 0))
    try:
        change.change_folder(fd, b"", then, now)
    finally:
        os.close(fd)
    return change.collect()


class _TreeChange:
    """Without `known` nothing is changed, only listed."""

    def __init__(self, db: CheckpointDatabase, known: Mapping[bytes, KnownFolder] | None) -> None:
        self._db = db
        self._known = known
        self._restored: list[str] = []
        self._replaced: list[str] = []
        self._removed: list[str] = []
        self._left: list[tuple[str, str]] = []

    def collect(self) -> FileChanges:
        return FileChanges(tuple(self._restored), tuple(self._replaced), tuple(self._removed), tuple(self._left))

    def change_folder(self, fd: int, path: bytes, then: bytes, now: bytes) -> None:
        before, after = self._db.read_tree(then), self._db.read_tree(now)
        for name in sorted({*before, *after}):
            old, new = before.get(name), after.get(name)
            if old == new:
                continue
            place = path + b"/" + name if path else name
            if (reason := _why_left(old, new)) is None:
                try:
                    self._change_entry(fd, place, name, old, new)
                except OSError as exc:
                    self._left.append((_to_text(place), _reason(exc)))
            elif reason:
                self._left.append((_to_text(place), reason))

    def _change_entry(self, fd: int, place: bytes, name: bytes, old: _Item | None, new: _Item | None) -> None:
        if old is not None and new is not None and is_folder_mode(old[0]) and is_folder_mode(new[0]):
            with self._open_folder(fd, name) as folder:
                self.change_folder(folder, place, old[1], new[1])
            if old[0] != new[0]:
                self._change_mode(fd, place, name, old[0])
        elif old is not None and new is not None and old[1] == new[1] and stat.S_ISREG(old[0]) and stat.S_ISREG(new[0]):
            self._change_mode(fd, place, name, old[0])
        elif old is not None and is_folder_mode(old[0]):
            if new is not None:
                self._remove(fd, place, name, new)
            self._make_folder(fd, place, name, old)
        elif old is not None:
            if new is not None and is_folder_mode(new[0]):
                self._remove(fd, place, name, new)
                new = None
            self._put_file(fd, place, name, old, new)
        elif new is not None:
            self._remove(fd, place, name, new)

    def _remove(self, fd: int, place: bytes, name: bytes, item: _Item) -> None:
        if is_folder_mode(item[0]):
            with self._open_folder(fd, name) as folder:
                self.change_folder(folder, place, b"", item[1])
            if not self._db.read_tree(item[1]):
                self._removed.append(_to_text(place))
            if self._known is not None:
                os.rmdir(name, dir_fd=fd)
            return
        if self._known is not None:
            self._check_unchanged(fd, place, name)
            os.unlink(name, dir_fd=fd)
        self._removed.append(_to_text(place))

    def _make_folder(self, fd: int, place: bytes, name: bytes, item: _Item) -> None:
        if self._known is not None:
            os.mkdir(name, 0o700, dir_fd=fd)
        if not self._db.read_tree(item[1]):
            self._restored.append(_to_text(place))
        with self._open_folder(fd, name) as folder:
            self.change_folder(folder, place, item[1], b"")
            if self._known is not None:
                os.fchmod(folder, stat.S_IMODE(item[0]))

    def _put_file(self, fd: int, place: bytes, name: bytes, item: _Item, new: _Item | None) -> None:
        if self._known is not None:
            staged = b".%s.%s.aish" % (name[:100], secrets.token_hex(6).encode())
            try:
                _stage(fd, staged, item[0], self._db.read_content(item[1]))
                if new is not None:
                    self._check_unchanged(fd, place, name)
                elif _exists(fd, name):
                    raise OSError(errno.EEXIST, _HAS_CHANGED)
                os.rename(staged, name, src_dir_fd=fd, dst_dir_fd=fd)
            except BaseException:
                with suppress(OSError):
                    os.unlink(staged, dir_fd=fd)
                raise
        (self._restored if new is None else self._replaced).append(_to_text(place))

    def _change_mode(self, fd: int, place: bytes, name: bytes, mode: int) -> None:
        if self._known is not None:
            if not is_folder_mode(mode):
                self._check_unchanged(fd, place, name)
            _set_mode(fd, name, mode)
        self._replaced.append(_to_text(place))

    def _check_unchanged(self, fd: int, place: bytes, name: bytes) -> None:
        """Raises OSError if the file is not as it was when it was stored."""
        assert self._known is not None
        known = self._known[place.rpartition(b"/")[0]].entries[name]
        status = os.lstat(name, dir_fd=fd)
        if (abs(known.changed_ns), known.inode, known.size) != (status.st_ctime_ns, status.st_ino, status.st_size):
            raise OSError(errno.ESTALE, _HAS_CHANGED)

    @contextmanager
    def _open_folder(self, fd: int, name: bytes) -> Iterator[int]:
        if self._known is None:
            yield _NO_FD
            return
        folder = os.open(name, _FOLDER, dir_fd=fd)
        try:
            yield folder
        finally:
            os.close(folder)


def _why_left(old: _Item | None, new: _Item | None) -> str | None:
    """Why a name is left as it is; "" if there is nothing to tell, None if it is changed."""
    if old is not None and old[0] in (IGNORED, SKIPPED):
        if new is not None and new[0] in (IGNORED, SKIPPED):
            return ""
        return _WAS_IGNORED if old[0] == IGNORED else _WAS_SKIPPED
    if new is not None and new[0] == IGNORED:
        return _IS_IGNORED if old is not None else ""
    return _IS_SKIPPED if new is not None and new[0] == SKIPPED else None


def _stage(fd: int, name: bytes, mode: int, content: bytes) -> None:
    """Writes a file or a link under another name."""
    if stat.S_ISLNK(mode):
        os.symlink(content, name, dir_fd=fd)
        return
    with open(os.open(name, _NEW_FILE, 0o600, dir_fd=fd), "wb") as file:  # noqa: PTH123  # a descriptor has no path
        file.write(content)
        file.flush()
        os.fchmod(file.fileno(), _permissions(mode))


def _permissions(mode: int) -> int:
    """Of a file without the bits that lend its owner's rights: its owner may be another one now."""
    return stat.S_IMODE(mode) & ~_LENDS_RIGHTS if stat.S_ISREG(mode) else stat.S_IMODE(mode)


def _set_mode(fd: int, name: bytes, mode: int) -> None:
    """Never through a link, even if one takes the file's place at this moment."""
    found = os.open(name, _NO_LINK, dir_fd=fd)
    try:
        if stat.S_IFMT(os.fstat(found).st_mode) != stat.S_IFMT(mode):
            raise OSError(errno.ESTALE, _HAS_CHANGED)
        os.chmod(f"/proc/self/fd/{found}" if _O_PATH else found, _permissions(mode))  # noqa: PTH101 -- a descriptor
    finally:
        os.close(found)


def _exists(fd: int, name: bytes) -> bool:
    try:
        os.lstat(name, dir_fd=fd)
    except FileNotFoundError:
        return False
    return True


def _reason(exc: OSError) -> str:
    if exc.errno in (errno.ENOTEMPTY, errno.EEXIST) and exc.strerror != _HAS_CHANGED:
        return _NOT_EMPTY
    return exc.strerror or type(exc).__name__


def _to_text(path: bytes) -> str:
    """The path as text that can be stored and shown."""
    return path.decode("utf-8", "backslashreplace")
