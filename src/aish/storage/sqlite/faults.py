"""Translates errors of SQLite and the file system into StoreErrors that tell the user what to do: the one place for
it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from aish.errors import AishError, StoreError

_ELSEWHERE = "point store.path elsewhere, or keep nothing (AISH_STORE__ENABLED=false)"

_REASONS: dict[int, tuple[str, str]] = {
    sqlite3.SQLITE_NOTADB: ("is not a database", f"move that file away, or {_ELSEWHERE}"),
    sqlite3.SQLITE_CORRUPT: (
        "is damaged",
        "save what can be read with `sqlite3 FILE .recover`, then move the file and its -wal and -shm away",
    ),
    sqlite3.SQLITE_FULL: ("cannot grow: the disk is full", f"free some space, or {_ELSEWHERE}"),
    sqlite3.SQLITE_BUSY: ("is locked by another process", "end the program that holds it and try again"),
    sqlite3.SQLITE_LOCKED: ("is locked by another process", "end the program that holds it and try again"),
    sqlite3.SQLITE_READONLY: (
        "cannot be written",
        f"make the file and its directory writable, or {_ELSEWHERE}",
    ),
    sqlite3.SQLITE_PERM: ("may not be opened", f"make the file and its directory yours, or {_ELSEWHERE}"),
    sqlite3.SQLITE_CANTOPEN: (
        "cannot be opened",
        f"check that it is a file in a directory you may write, or {_ELSEWHERE}",
    ),
    sqlite3.SQLITE_IOERR: ("cannot be read or written: the disk fails or is full", f"check the disk, or {_ELSEWHERE}"),
}


def primary_code(error: sqlite3.Error) -> int:
    """SQLite's result code without the detail in its upper bits; 0 for errors of the Python module."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def is_busy(error: sqlite3.Error) -> bool:
    return primary_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def breaks_the_group(error: BaseException) -> bool:
    """Whether an error concerns the whole file, and not just the operation that met it."""
    return type(error) in (sqlite3.OperationalError, sqlite3.DatabaseError, sqlite3.InternalError)


def translate(error: BaseException, path: Path) -> AishError:
    if isinstance(error, AishError):
        return error
    if isinstance(error, sqlite3.Error) and primary_code(error) in _REASONS:
        reason, hint = _REASONS[primary_code(error)]
        return StoreError(f"the store {path} {reason}", hint=hint)
    if isinstance(error, OSError):
        return StoreError(
            f"the store {path} cannot be opened: {error.strerror}",
            hint=f"check that its directory exists and is yours, or {_ELSEWHERE}",
        )
    return StoreError(
        f"the store {path} refused an operation: {error}", hint="this looks like a defect; please report it"
    )
