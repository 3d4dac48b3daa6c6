"""Opens the database file: makes it private, switches to WAL mode and migrates the schema, or refuses with a reason.

A database has aish's application id and, as its user version, the number of the last migration. Errors of SQLite and
of the file system become StoreErrors that tell the user what to do.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
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


APPLICATION_ID = 0x61697368  # "aish"
# The WAL shrinks back to this after a burst.
_WAL_BYTES = 16 * 1024 * 1024


def open_writer(path: Path, *, busy_timeout_s: float) -> sqlite3.Connection:
    """Raises sqlite3.Error, OSError or StoreError; leaves nothing open then."""
    _make_private(path)
    connection = sqlite3.connect(path, timeout=busy_timeout_s, isolation_level=None, check_same_thread=False)
    try:
        _check_owner(connection, path)
        _use_wal(connection, patience_s=busy_timeout_s)
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
        connection.execute("PRAGMA temp_store = MEMORY")  # otherwise savepoints put copies of data under /tmp
        migrate(connection, path, migrations())
    except BaseException:
        connection.close()
        raise
    return connection


def open_reader(path: Path, *, busy_timeout_s: float) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode=ro"
    return sqlite3.connect(uri, uri=True, timeout=busy_timeout_s, isolation_level=None, check_same_thread=False)


def migrations() -> Sequence[str]:
    """The numbered files in order. The number of a file is its position, from 1."""
    files = sorted(Path(__file__).with_name("migrations").glob("*.sql"))
    return [file.read_text(encoding="utf-8") for file in files]


def migrate(connection: sqlite3.Connection, path: Path, scripts: Sequence[str]) -> None:
    """Applies missing migrations, all or none. Of several processes one does it, and the others find it done."""
    if _version(connection) == len(scripts):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        done = _version(connection)
        if done > len(scripts):
            raise StoreError(
                f"the store {path} was made by a newer aish", hint="upgrade, or point store.path elsewhere"
            )
        for script in scripts[done:]:
            for statement in _statements(script):
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(scripts)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _make_private(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))


def _check_owner(connection: sqlite3.Connection, path: Path) -> None:
    # In this order: another process may be creating the tables, and its id appears together with them.
    empty = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
    owner = int(connection.execute("PRAGMA application_id").fetchone()[0])
    if owner != APPLICATION_ID and not (owner == 0 and empty):
        raise StoreError(f"{path} is a database of another program", hint="point store.path at a file of aish's own")


def _use_wal(connection: sqlite3.Connection, *, patience_s: float) -> None:
    """Retries, because SQLite itself does not wait for others when it changes the journal mode."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as exc:
            if not is_busy(exc) or time.monotonic() >= deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _statements(script: str) -> Iterator[str]:
    """Splits a script into statements, because `executescript` would commit first."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
