"""Single file operations of a change, each safe inside the workspace even if folders are replaced meanwhile.

Each operation opens the folder again from the root and works in it by name without following links. The order of
operations is decided by the caller.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator

import msgspec

from aish.errors import ToolError
from aish.tools.code.edits.records import FileChange
from aish.tools.code.files.source import content_hash
from aish.tools.workspace import MAX_FILE_BYTES, Workspace
from aish.types.tools import ResultStatus

_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_MAKE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)  # file systems without hard links
_GONE = (errno.ENOENT, errno.ENOTDIR)


class FileState(msgspec.Struct, frozen=True):
    """A file as it is on disk. `identity` is the same for two names of one file."""

    content: bytes
    mode: int
    owner: tuple[int, int]
    identity: tuple[int, int]

    @property
    def hash(self) -> str:
        return content_hash(self.content)


class FilePlacement:
    def __init__(self, space: Workspace) -> None:
        self._space = space

    def find(self, path: str) -> FileState | None:
        """Returns None if there is no file. Raises ToolError if it may not be replaced."""
        with _ignoring(is_gone), self._space.folder_of(path) as (folder, name):
            return _find(folder, name, path)
        return None

    def find_folder(self, path: str) -> tuple[int, int] | None:
        """Returns the identity of the file's folder, None if there is none. Raises ToolError if the file may not be
        replaced."""
        self.find(path)
        with _ignoring(is_gone), self._space.folder_of(path) as (folder, _):
            status = os.fstat(folder)
            return status.st_dev, status.st_ino
        return None

    def find_hash(self, path: str) -> str | None:
        """Returns the hash for comparison; "" if it is not a plain file."""
        return self._hash_of(path)

    def stage_hash(self, change: FileChange) -> str | None:
        return self._hash_of(change.path, change.stage)

    def _hash_of(self, path: str, stage: str = "") -> str | None:
        try:
            with self._space.folder_of(path) as (folder, name):
                return _hash(folder, stage or name)
        except ToolError as exc:
            return None if is_gone(exc) else ""

    def stage(self, change: FileChange, content: bytes) -> None:
        """Writes the stage: private until it is complete, then with its final mode."""
        with self._space.folder_of(change.path) as (folder, _):
            fd = os.open(change.stage, _MAKE, 0o600, dir_fd=folder)
            with open(fd, "wb") as stream:  # noqa: PTH123  # a descriptor has no path
                stream.write(content)
                stream.flush()
                if change.owner is not None and change.owner != (os.geteuid(), os.getegid()):
                    with contextlib.suppress(PermissionError):  # only root may change the owner
                        os.fchown(fd, *change.owner)
                os.fchmod(fd, change.mode)
                os.fsync(fd)

    def commit(self, change: FileChange) -> None:
        """Raises ToolError if the file is not the one that the change replaces."""
        with self._space.folder_of(change.path) as (folder, name):
            current = _find(folder, name, change.path)
            if (current.hash if current else None) != change.old:
                raise ToolError(f"{change.path} changed in the meantime")
            if change.new is None:
                os.unlink(name, dir_fd=folder)
            elif change.old is None:
                _put_new(folder, change.stage, name)
            else:
                os.rename(change.stage, name, src_dir_fd=folder, dst_dir_fd=folder)

    def discard(self, change: FileChange) -> None:
        """Removes the stage, if there is one."""
        with _ignoring(_is_out_of_reach), self._space.folder_of(change.path) as (folder, _):
            os.unlink(change.stage, dir_fd=folder)

    def sync(self, path: str) -> None:
        """Makes changes in the file's folder survive a loss of power."""
        with _ignoring(_is_out_of_reach), self._space.folder_of(path) as (folder, _):
            os.fsync(folder)

    def make_folder(self, path: str) -> None:
        with self._space.folder_of(path) as (folder, name):
            os.mkdir(name, 0o755, dir_fd=folder)
            os.fsync(folder)

    def leave_folder(self, path: str) -> None:
        """Removes the folder if it is empty."""
        with contextlib.suppress(ToolError), self._space.folder_of(path) as (folder, name):
            os.rmdir(name, dir_fd=folder)


@contextlib.contextmanager
def _ignoring(is_ignored: Callable[[ToolError], bool]) -> Iterator[None]:
    try:
        yield
    except ToolError as exc:
        if not is_ignored(exc):
            raise


def is_gone(exc: ToolError) -> bool:
    return isinstance(exc.__cause__, OSError) and exc.__cause__.errno in _GONE


def _is_out_of_reach(exc: ToolError) -> bool:
    """Whether the folder is gone or leads outside, so that there is nothing of ours."""
    return is_gone(exc) or exc.status is ResultStatus.NOT_ALLOWED


def _find(folder: int, name: str, path: str) -> FileState | None:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):  # before opening: opening a device can have effects
        raise _not_allowed(f"{path} is not a regular file")
    fd = os.open(name, _READ, dir_fd=folder)
    with open(fd, "rb") as stream:  # noqa: PTH123  # a descriptor has no path
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise _not_allowed(f"{path} is not a regular file")
        if status.st_nlink > 1:
            raise _not_allowed(f"{path} is a hard link: the same file has another name, perhaps outside the workspace")
        content = stream.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise _not_allowed(f"{path} has more than the {MAX_FILE_BYTES} bytes that can be changed at once")
    identity = (status.st_dev, status.st_ino)
    return FileState(content, stat.S_IMODE(status.st_mode), (status.st_uid, status.st_gid), identity)


def _hash(folder: int, name: str) -> str:
    if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        return ""
    with open(os.open(name, _READ, dir_fd=folder), "rb") as stream:  # noqa: PTH123  # as above
        content = stream.read(MAX_FILE_BYTES + 1)
    return content_hash(content) if len(content) <= MAX_FILE_BYTES else ""


def _put_new(folder: int, stage: str, name: str) -> None:
    """Creates a file without ever replacing one: linking fails if the name exists."""
    try:
        os.link(stage, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except OSError as exc:
        if exc.errno not in _NO_LINKS:
            raise
        os.rename(stage, name, src_dir_fd=folder, dst_dir_fd=folder)
    else:
        os.unlink(stage, dir_fd=folder)


def _not_allowed(text: str) -> ToolError:
    return ToolError(text, status=ResultStatus.NOT_ALLOWED)
