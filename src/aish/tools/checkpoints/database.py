"""The database of one workspace's checkpoints: contents of files and folders by their hash, in one SQLite file.

A folder is stored as the list of its entries, so a checkpoint is the hash of its root folder, and what did not change
is stored once. `known` remembers each folder as it was seen last, with the times of its files: a file with the same
times is not read again.
"""

from __future__ import annotations

import os
import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path

import msgspec

from aish.errors import CheckpointError

MAX_CHECKPOINTS = 200
_PRUNE_AT_ONCE = 50
_DAY_MS = 86_400_000
_LOCK_WAIT_S = 20.0  # twice the time that a checkpoint may take
_POLL_S = 0.02
_HASH_BYTES = 20
# Level 1 takes a fifth of the time of the default and stores a tenth more.
_COMPRESSION = 1
_MIN_COMPRESSED = 128
_FORMAT = 1
_SCHEMA = """
CREATE TABLE objects (id BLOB PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE known (path BLOB PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE checkpoints (number INTEGER PRIMARY KEY, tree BLOB NOT NULL);
"""

# Modes of entries that are not stored: only that they were there is known.
IGNORED = 0
SKIPPED = 1


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One name in a folder. `id` finds its content. `changed_ns` is negative if the file changed so shortly before it
    was read that it may have changed again since."""

    mode: int
    id: bytes = b""
    changed_ns: int = 0
    inode: int = 0
    size: int = 0
    modified_ns: int = 0


class KnownFolder(msgspec.Struct, array_like=True, gc=False):
    """A folder as it was seen last. `rules` stands for the ignore rules that applied. `tree` is b"" if it was not seen
    to its end."""

    rules: bytes
    tree: bytes
    entries: dict[bytes, Entry]


Tree = dict[bytes, tuple[int, bytes]]  # name -> mode and id
_tree_encoder = msgspec.msgpack.Encoder()
_tree_decoder = msgspec.msgpack.Decoder(Tree)
_known_decoder = msgspec.msgpack.Decoder(KnownFolder)


class StoreFull(Exception):
    """The checkpoint does not fit into the size that the store may have."""


class _Discarded(Exception):
    """Ends a transaction whose changes are not kept."""


class CheckpointDatabase:
    """Use `opened`. All errors of SQLite are raised as CheckpointError."""

    def __init__(self, db: sqlite3.Connection, max_bytes: int) -> None:
        self._db = db
        self._max_bytes = max_bytes
        self._size = self._used_bytes()

    # Contents.

    def put_content(self, content: bytes) -> bytes:
        id = blake2b(content, digest_size=_HASH_BYTES).digest()
        if not self._db.execute("SELECT 1 FROM objects WHERE id = ?", (id,)).fetchone():
            packed = zlib.compress(content, _COMPRESSION) if len(content) >= _MIN_COMPRESSED else content
            data = b"z" + packed if len(packed) < len(content) else b"=" + content
            self._size += len(data)
            if self._size > self._max_bytes:
                raise StoreFull
            self._db.execute("INSERT INTO objects VALUES (?, ?)", (id, data))
        return id

    def read_content(self, id: bytes) -> bytes:
        row = self._db.execute("SELECT data FROM objects WHERE id = ?", (id,)).fetchone()
        if row is None:
            raise CheckpointError("a part of this checkpoint is missing", hint="an older or a newer one may be whole")
        data: bytes = row[0]
        return zlib.decompress(data[1:]) if data[:1] == b"z" else data[1:]

    def put_tree(self, entries: dict[bytes, Entry]) -> bytes:
        return self.put_content(
            _tree_encoder.encode({name: (entry.mode, entry.id) for name, entry in sorted(entries.items())})
        )

    def read_tree(self, id: bytes) -> Tree:
        return _tree_decoder.decode(self.read_content(id)) if id else {}

    # What was seen last.

    def read_known(self) -> dict[bytes, KnownFolder]:
        rows = self._db.execute("SELECT path, body FROM known")
        return {path: _known_decoder.decode(body) for path, body in rows}

    def put_known(self, path: bytes, folder: KnownFolder) -> None:
        self._db.execute("INSERT OR REPLACE INTO known VALUES (?, ?)", (path, _tree_encoder.encode(folder)))

    def forget_known(self, paths: Iterable[bytes]) -> None:
        self._db.executemany("DELETE FROM known WHERE path = ?", ((path,) for path in paths))

    # Checkpoints.

    def find_tree(self, number: int) -> bytes | None:
        row = self._db.execute("SELECT tree FROM checkpoints WHERE number = ?", (number,)).fetchone()
        return row[0] if row else None

    def add_checkpoint(self, tree: bytes, now_ms: int) -> int:
        """The number of the newest checkpoint if it has the same tree; else of a new one. Numbers are times in
        milliseconds, so a store that was made anew never gives an old number to other files."""
        newest = self._db.execute("SELECT number, tree FROM checkpoints ORDER BY number DESC LIMIT 1").fetchone()
        if newest and newest[1] == tree:
            return int(newest[0])
        number = max(now_ms, int(newest[0]) + 1 if newest else 0)
        self._db.execute("INSERT INTO checkpoints VALUES (?, ?)", (number, tree))
        return number

    def prune(self, *, now_ms: int, keep_days: int | None) -> None:
        """Deletes checkpoints that are too old or too many, but not the newest."""
        newest = self._db.execute("SELECT max(number) FROM checkpoints").fetchone()[0] or 0
        oldest = min(newest, now_ms - keep_days * _DAY_MS if keep_days else 0)
        deleted = self._db.execute("DELETE FROM checkpoints WHERE number < ?", (oldest,)).rowcount
        count = self._db.execute("SELECT count(*) FROM checkpoints").fetchone()[0]
        if count > MAX_CHECKPOINTS:
            deleted += self._delete_oldest(_PRUNE_AT_ONCE)
        if deleted:
            self._sweep()

    def make_room(self, protects: bytes) -> bool:
        """Deletes the older half of the checkpoints, but none with the tree `protects`. Returns whether there were
        any."""
        count = self._db.execute("SELECT count(*) FROM checkpoints WHERE tree != ?", (protects,)).fetchone()[0]
        if not count:
            return False
        self._delete_oldest((count + 1) // 2, protects)
        self._sweep()
        return True

    def _delete_oldest(self, count: int, protects: bytes = b"") -> int:
        oldest = "SELECT number FROM checkpoints WHERE tree != ? ORDER BY number LIMIT ?"
        return self._db.execute(f"DELETE FROM checkpoints WHERE number IN ({oldest})", (protects, count)).rowcount

    def _sweep(self) -> None:
        """Deletes contents that no checkpoint has. What was seen last keeps its contents while there are checkpoints:
        the next one will have most of them."""
        roots = [row[0] for row in self._db.execute("SELECT DISTINCT tree FROM checkpoints")]
        if not roots:
            self._db.execute("DELETE FROM known")
        self._db.execute("CREATE TEMP TABLE IF NOT EXISTS live (id BLOB PRIMARY KEY)")
        self._db.execute("DELETE FROM live")
        known = (entry.id for folder in self.read_known().values() for entry in folder.entries.values() if entry.id)
        live = {*self._reachable(roots), *known, *(folder.tree for folder in self.read_known().values())}
        self._db.executemany("INSERT OR IGNORE INTO live VALUES (?)", ((id,) for id in live))
        self._db.execute("DELETE FROM objects WHERE id NOT IN (SELECT id FROM live)")
        self._size = self._used_bytes()

    def _reachable(self, trees: list[bytes]) -> Iterator[bytes]:
        waiting, seen = list(trees), set(trees)
        while waiting:
            tree = waiting.pop()
            yield tree
            for mode, id in self.read_tree(tree).values():
                if is_folder_mode(mode):
                    if id not in seen:
                        seen.add(id)
                        waiting.append(id)
                elif id:
                    yield id

    def _used_bytes(self) -> int:
        pages, free, size = (
            self._db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * size)

    # Transactions.

    @contextmanager
    def transaction(self, *, kept_after: type[Exception] | None = None) -> Iterator[None]:
        """Rolled back after an error, but not after one of the kind `kept_after`."""
        self._db.execute("BEGIN")
        try:
            yield
        except BaseException as exc:
            if kept_after is not None and isinstance(exc, kept_after):
                self._db.commit()
            else:
                self._roll_back()
            raise
        self._db.commit()

    @contextmanager
    def discarded_transaction(self, *, kept_after: type[Exception]) -> Iterator[None]:
        """Rolled back at its end."""
        with suppress(_Discarded), self.transaction(kept_after=kept_after):
            yield
            raise _Discarded

    def _roll_back(self) -> None:
        self._db.rollback()
        self._size = self._used_bytes()

    def shrink_file(self) -> None:
        """Gives pages that became free back to the file system."""
        for _ in self._db.execute("PRAGMA incremental_vacuum"):
            pass


def is_folder_mode(mode: int) -> bool:
    return mode & 0o170000 == 0o040000


@contextmanager
def open_database(folder: Path, *, max_bytes: int) -> Iterator[CheckpointDatabase]:
    """Opens it for one process at a time. Only its user can read the folder: files that hold secrets are in it, too."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        with _lock(folder / "lock"), closing(sqlite3.connect(folder / "checkpoints.db", isolation_level=None)) as db:
            _prepare(db)
            yield CheckpointDatabase(db, max_bytes)
    except OSError as exc:
        raise CheckpointError(f"checkpoints cannot be stored in {folder}: {exc.strerror}") from exc
    except (sqlite3.Error, msgspec.MsgspecError, zlib.error) as exc:
        raise CheckpointError(
            f"checkpoints cannot be stored in {folder}: {exc}", hint="is the disk full? The folder may be deleted"
        ) from exc


@contextmanager
def _lock(file: Path) -> Iterator[None]:
    """The lock is the kernel's and ends with the process."""
    import fcntl  # not on Windows, where there are no checkpoints

    fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        due_s = time.monotonic() + _LOCK_WAIT_S
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= due_s:
                    problem = f"another aish has been busy with the files here for {_LOCK_WAIT_S:g} s"
                    raise CheckpointError(problem, hint="try again") from None
            time.sleep(_POLL_S)
        yield
    finally:
        os.close(fd)


def _prepare(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA auto_vacuum = INCREMENTAL")
    db.execute("PRAGMA journal_mode = TRUNCATE")
    db.execute("PRAGMA synchronous = NORMAL")
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version not in (0, _FORMAT):
        raise CheckpointError("the checkpoints here were stored by another version of aish")
    if version == 0:
        db.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {_FORMAT}; COMMIT;")
