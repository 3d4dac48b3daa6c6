"""Single file operations of a change, and the change that edits of files on disk come to.

Each operation is safe inside the workspace even if folders are replaced meanwhile: it opens the folder again from the
root and works in it by name without following links. The order of operations is decided by the caller.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePosixPath

import msgspec

from aish.errors import ToolError
from aish.tools.code.edits.records import EditConflict, FileChange, FileEdit
from aish.tools.code.edits.undo_log import MAX_UNDO_BYTES
from aish.tools.code.files.source import content_hash
from aish.tools.workspace import MAX_FILE_BYTES, Workspace
from aish.types.tools import ResultStatus

_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_MAKE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)  # file systems without hard links
_MISSING = (errno.ENOENT, errno.ENOTDIR)


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
        with _ignoring(is_missing), self._space.folder_of(path) as (folder, name):
            return _find(folder, name, path)
        return None

    def find_folder(self, path: str) -> tuple[int, int] | None:
        """Returns the identity of the file's folder, None if there is none. Raises ToolError if the file may not be
        replaced."""
        self.find(path)
        with _ignoring(is_missing), self._space.folder_of(path) as (folder, _):
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
            return None if is_missing(exc) else ""

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


def is_missing(exc: ToolError) -> bool:
    return isinstance(exc.__cause__, OSError) and exc.__cause__.errno in _MISSING


def _is_out_of_reach(exc: ToolError) -> bool:
    """Whether the folder is gone or leads outside, so that there is nothing of ours."""
    return is_missing(exc) or exc.status is ResultStatus.NOT_ALLOWED


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


_NEW_MODE = 0o644
# Git's own files can make git run programs. They are never edited.
_NOT_CODE = ".git"


class PreparedChange:
    """`modes` are for files that are restored. `since` completes the message of a conflict."""

    def __init__(
        self,
        space: Workspace,
        placement: FilePlacement,
        edits: Sequence[FileEdit],
        modes: dict[str, int] | None = None,
        *,
        since: str = "since it was read",
    ) -> None:
        self.id = f"{time.time_ns() // 1000:013x}{secrets.token_hex(2)}"  # ids sort by time
        self.paths = tuple(edit.path for edit in edits)
        self.conflicts: list[EditConflict] = []
        self.changes: list[FileChange] = []
        self.contents: list[bytes | None] = []
        self._space = space
        self._placement = placement
        self._modes = modes or {}
        self._since = since
        self._paths_by_file: dict[tuple[int, int] | str, str] = {}
        self._removed: dict[str, FileState] = {}
        self._left_bytes = MAX_UNDO_BYTES
        # Removals come first, so that a moved file keeps its mode.
        for edit in sorted(edits, key=lambda edit: edit.content is not None):
            try:
                reason = self._add(edit)
            except ToolError as exc:
                reason = exc.message
            if reason:
                self.conflicts.append(EditConflict(edit.path, reason))

    def missing_folders(self) -> list[str]:
        """Returns the folders that new files need, outermost first."""
        created = [PurePosixPath(change.path) for change in self.changes if change.old is None]
        parents = {parent for path in created for parent in path.parents[:-1]}
        return [str(path) for path in sorted(parents) if not self._space.exists(str(path))]

    def _add(self, edit: FileEdit) -> str:
        """Adds an edit. Returns the conflict, or ""."""
        path = self._space.relative(edit.path)
        if belongs_to_git(self._space, path):
            return "git's own files are not for editing; use git"
        current = self._placement.find(path)
        if reason := _find_conflict(edit, current, self._since) or self._find_duplicate(path, current):
            return reason
        self._left_bytes -= len(current.content) if current else 0
        if self._left_bytes < 0:
            return f"the files of one change may have {MAX_UNDO_BYTES} bytes together; make smaller ones"
        if current is None or current.content != edit.content:
            self._change(path, current, edit.content)
        return ""

    def _change(self, path: str, current: FileState | None, content: bytes | None) -> None:
        new = content_hash(content) if content is not None else None
        if current is not None and new is None:
            self._removed[current.hash] = current
        like = current or self._removed.get(new or "")
        mode = like.mode if like else self._modes.get(path, _NEW_MODE)
        stage = f".aish-{self.id}-{len(self.changes)}"
        before = current.content if current else None
        owner = like.owner if like else None
        self.changes.append(FileChange(path, current.hash if current else None, new, stage, mode, before, owner))
        self.contents.append(content)

    def _find_duplicate(self, path: str, current: FileState | None) -> str:
        """Detects a file that is edited under two names, for example through a link to a folder."""
        key = current.identity if current else path
        if key not in self._paths_by_file:
            self._paths_by_file[key] = path
            return ""
        other = self._paths_by_file[key]
        return "it is edited twice in one change" if other == path else f"it is the same file as {other}"


def belongs_to_git(space: Workspace, path: str) -> bool:
    """Checks the name and the target of links."""
    return any(part.lower() == _NOT_CODE for part in (*PurePosixPath(path).parts, *space.resolve(path).parts))


def _find_conflict(edit: FileEdit, current: FileState | None, since: str) -> str:
    if (current.hash if current else None) == edit.base:
        return ""
    if current is None:
        return "it is gone"
    return f"it changed {since}" if edit.base is not None else "it is there already"
