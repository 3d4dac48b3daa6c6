"""Stores the records of changes in one workspace: the running one and those that can be undone.

The folder is private to the user, outside the workspace, and named by a hash of the workspace's path. A change is one
file that is renamed from state to state: `staging` while new contents are written beside the old, `journal` while they
are put in place, `undo-…` when done, `rollback` until a failed change is reverted. Each transition is one rename, so
after a crash exactly one of them exists.

One process at a time changes a workspace. The lock is the kernel's and ends with the process; the file names the
process for others that wait.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from aish.errors import ToolError
from aish.process.liveness import ProcessOwners
from aish.tools.code.edits.records import FORMAT, Record, decode, encode
from aish.tools.code.files.source import content_hash

MAX_ENTRIES = 20
MAX_UNDO_BYTES = 64 * 1024 * 1024
_LOCK_WAIT_S = 10.0
_POLL_S = 0.02
_KEY_CHARS = 32


class UndoLog:
    """All methods except `is_clear` require the lock and raise ToolError."""

    def __init__(self, state: Path, root: Path, *, lock_wait_s: float = _LOCK_WAIT_S) -> None:
        self.folder = state / content_hash(os.fsencode(root))[:_KEY_CHARS]
        self._staging = self.folder / "staging"
        self._journal = self.folder / "journal"
        self._rollback = self.folder / "rollback"
        self._lock_wait_s = lock_wait_s

    def is_clear(self) -> bool:
        """Whether no change is running or was interrupted."""
        return not any(path.exists() for path in (self._staging, self._journal, self._rollback))

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        with _file_errors():
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            self._lock(fd)
            os.ftruncate(fd, 0)
            os.pwrite(fd, ProcessOwners().me.encode(), 0)
            yield
        finally:
            os.close(fd)

    def write_intent(self, record: Record) -> None:
        """Records the change before its first stage is written."""
        with _file_errors():
            _write_durably(self._staging, encode(record))
            _sync_folder(self.folder)

    def begin(self) -> None:
        """Records that all stages are written. From here on the change is finished or rolled back as a whole."""
        with _file_errors():
            self._staging.rename(self._journal)
            _sync_folder(self.folder)

    def keep(self, record: Record) -> None:
        """Records that the change is done and can be undone, or that it has undone another one."""
        with _file_errors():
            if record.undoes:
                self._entry(record.undoes).unlink(missing_ok=True)
                self._journal.unlink(missing_ok=True)
            else:
                self._journal.rename(self._entry(record.id))
                self._prune()
            _sync_folder(self.folder)

    def mark_rollback(self) -> None:
        """Records the rollback, because a half reverted change may look as if it could be finished."""
        with _file_errors():
            self._journal.rename(self._rollback)
            _sync_folder(self.folder)

    def forget(self) -> None:
        """Removes the record of a change that was rolled back or never began."""
        with _file_errors():
            self._staging.unlink(missing_ok=True)
            self._rollback.unlink(missing_ok=True)
            _sync_folder(self.folder)

    def find_staging(self) -> Record | None:
        """Returns the record of a change that never began. None if the record itself is incomplete: then nothing was
        staged."""
        try:
            return _read_record(self._staging)
        except ToolError:
            return None

    def find_journal(self) -> Record | None:
        return _read_record(self._journal)

    def find_rollback(self) -> Record | None:
        return _read_record(self._rollback)

    def list_undoable(self) -> list[str]:
        """Returns the ids of changes that can be undone, newest first."""
        return [path.name.removeprefix("undo-") for path in reversed(self._entries())]

    def find_undoable(self, id: str) -> Record | None:
        return _read_record(self._entry(id)) if id in self.list_undoable() else None

    def _lock(self, fd: int) -> None:
        deadline = time.monotonic() + self._lock_wait_s
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    owner = os.pread(fd, 500, 0).decode(errors="replace")
                    raise ToolError(
                        f"another aish ({owner}) has been changing files here for {self._lock_wait_s:g} s; try again"
                    ) from None
                time.sleep(_POLL_S)
            else:
                return

    def _entry(self, id: str) -> Path:
        return self.folder / f"undo-{id}"

    def _entries(self) -> list[Path]:
        """Oldest first, because ids begin with the time."""
        return sorted(self.folder.glob("undo-*"))

    def _prune(self) -> None:
        left = MAX_UNDO_BYTES
        for count, path in enumerate(reversed(self._entries()), 1):
            left -= path.stat().st_size
            if count > 1 and (count > MAX_ENTRIES or left < 0):
                path.unlink()


def _write_durably(path: Path, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with open(fd, "wb") as stream:  # noqa: PTH123  # a descriptor has no path
        stream.write(data)
        stream.flush()
        os.fsync(fd)


def _read_record(path: Path) -> Record | None:
    try:
        with _file_errors():
            record = decode(path.read_bytes()) if path.exists() else None
    except msgspec.MsgspecError as exc:
        raise ToolError(f"{path} cannot be read; look at the workspace, then remove that file") from exc
    if record is not None and record.format != FORMAT:
        raise ToolError(f"{path} was written by another version of aish; use that one, or remove the file")
    return record


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextlib.contextmanager
def _file_errors() -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise ToolError(f"no record of changes can be kept in {exc.filename}: {exc.strerror}") from exc
