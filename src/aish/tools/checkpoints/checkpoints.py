"""Takes checkpoints of workspaces and brings them back. Implements the port `Checkpoints`.

Each workspace has a database of its own in a private folder outside of it. The person's git state is neither read nor
changed, except for the list `.git/info/exclude`. All work runs in a thread, for one process at a time.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from threading import Event
from typing import TypeVar

import msgspec

from aish.errors import CheckpointError
from aish.tools.checkpoints.database import CheckpointDatabase, StoreFull, open_database
from aish.tools.checkpoints.restore import compare_trees, restore_tree
from aish.tools.checkpoints.scan import OutOfTime, ScanRules, WorkspaceScan
from aish.types.checkpoints import Checkpoint, FileChanges, RestoredFiles

# What the first effect of a turn waits for at most. A large workspace is stored in several turns.
MAX_TAKE_S = 10.0
_KEY_BYTES = 16
# How long a cancelled call waits for its thread.
_STOP_WAIT_S = 2.0
_RESTORE_WAIT_S = 60.0

Result = TypeVar("Result")
# A folder with one of these is a project.
PROJECT_MARKS = (".git", ".hg", ".svn")


class CheckpointSettings(msgspec.Struct, frozen=True):
    """`state` is the private folder. `hides` are files and folders that are never stored. `home` is no workspace, nor
    is a folder that contains it."""

    state: Path
    home: Path
    hides: tuple[Path, ...] = ()
    max_file_bytes: int = 16 * 1024 * 1024
    max_store_bytes: int = 1024 * 1024 * 1024
    keep_days: int | None = None
    max_take_s: float = MAX_TAKE_S


class WorkspaceCheckpoints:
    """`find_workspace` says which folder is the workspace now."""

    def __init__(self, settings: CheckpointSettings, find_workspace: Callable[[], Path]) -> None:
        self._settings = settings
        self._find_workspace = find_workspace
        # The turns of a server that wait for the files here must not take all threads that there are for such work.
        self._one_at_a_time = asyncio.Lock()

    async def take(self, before: Checkpoint | None = None) -> Checkpoint:
        return await self._in_thread(lambda stop: self._take(before, stop))

    async def compare(self, root: str, numbers: Iterable[int]) -> Mapping[int, FileChanges]:
        return await self._in_thread(lambda stop: self._compare(Path(root), tuple(numbers), stop))

    async def restore(self, checkpoint: Checkpoint) -> RestoredFiles:
        return await self._in_thread(lambda stop: self._restore(checkpoint, stop), stop_wait_s=_RESTORE_WAIT_S)

    async def _in_thread(self, work: Callable[[Event], Result], *, stop_wait_s: float = _STOP_WAIT_S) -> Result:
        """If it is cancelled, a scan stops, and files that are being brought back are all brought back; only then the
        next one may begin. A file system that hangs is not waited for."""
        async with self._one_at_a_time:
            stop = Event()
            running = asyncio.ensure_future(asyncio.to_thread(work, stop))
            try:
                return await asyncio.shield(running)
            except asyncio.CancelledError:
                stop.set()
                await asyncio.wait({running}, timeout=stop_wait_s)
                running.add_done_callback(lambda done: done.cancelled() or done.exception())
                raise

    def _take(self, before: Checkpoint | None, stop: Event) -> Checkpoint:
        root = self._check_root(Path(before.root) if before else self._find_workspace())
        with open_database(self._folder_of(root), max_bytes=self._settings.max_store_bytes) as db:
            keeps = db.find_tree(before.number) if before else None
            taken, _ = self._store(db, root, stop, keeps=keeps or b"")
            return taken

    def _compare(self, workspace: Path, numbers: Sequence[int], stop: Event) -> Mapping[int, FileChanges]:
        """Stores nothing: what is only listed must not take the place of checkpoints."""
        root = self._check_root(workspace)
        with (
            open_database(self._folder_of(root), max_bytes=self._settings.max_store_bytes) as db,
            self._translate_faults(root),
            db.discarded_transaction(kept_after=OutOfTime),
        ):
            now = WorkspaceScan(db, os.fsencode(root), self._scan_rules(root, stop)).run()
            trees = {number: tree for number in numbers if (tree := db.find_tree(number)) is not None}
            return {number: compare_trees(db, tree, now) for number, tree in trees.items()}

    def _restore(self, checkpoint: Checkpoint, stop: Event) -> RestoredFiles:
        root = self._check_root(Path(checkpoint.root))
        with open_database(self._folder_of(root), max_bytes=self._settings.max_store_bytes) as db:
            then = db.find_tree(checkpoint.number)
            if then is None:
                raise CheckpointError("this checkpoint is not stored any more", hint="only so many are; see [rewind]")
            before, now = self._store(db, root, stop, keeps=then)
            changes = restore_tree(db, os.fsencode(root), then, now, db.read_known())
            return RestoredFiles(changes, before)

    def _store(
        self, db: CheckpointDatabase, root: Path, stop: Event, *, keeps: bytes = b""
    ) -> tuple[Checkpoint, bytes]:
        """Takes a checkpoint. `keeps` as in WorkspaceScan; this tree makes no room for the checkpoint."""
        now_ms = time.time_ns() // 1_000_000
        with self._translate_faults(root):
            while True:
                try:
                    return self._scan(db, root, stop, keeps, now_ms)
                except StoreFull:
                    with db.transaction():
                        if not db.make_room(keeps):
                            raise
                    db.shrink_file()

    @contextmanager
    def _translate_faults(self, root: Path) -> Iterator[None]:
        try:
            yield
        except OutOfTime:
            problem = f"the files could not be stored within {self._settings.max_take_s:g} s"
            raise CheckpointError(problem, hint="the next checkpoint goes on from here") from None
        except StoreFull:
            size_mb = self._settings.max_store_bytes >> 20
            raise CheckpointError(f"the files take more than the {size_mb} MB of rewind.max_store_mb") from None
        except OSError as exc:
            raise CheckpointError(f"{root} cannot be read: {exc.strerror}") from exc

    def _scan(
        self, db: CheckpointDatabase, root: Path, stop: Event, keeps: bytes, now_ms: int
    ) -> tuple[Checkpoint, bytes]:
        """What was read stays stored if there is not enough time."""
        with db.transaction(kept_after=OutOfTime):
            tree = WorkspaceScan(db, os.fsencode(root), self._scan_rules(root, stop), keeps=keeps).run()
            number = db.add_checkpoint(tree, now_ms)
            if not keeps:
                db.prune(now_ms=now_ms, keep_days=self._settings.keep_days)
        return Checkpoint(str(root), number), tree

    def _scan_rules(self, root: Path, stop: Event) -> ScanRules:
        settings = self._settings
        return ScanRules(settings.max_file_bytes, settings.max_take_s, self._hides_below(root), stop.is_set)

    def _check_root(self, workspace: Path) -> Path:
        if sys.platform == "win32":
            raise CheckpointError("there are no checkpoints on this system")
        root, home = workspace.resolve(), self._settings.home.resolve()
        if home.is_relative_to(root):
            which = "the home directory" if root == home else f"{root}, which is above the home directory,"
            raise CheckpointError(f"{which} is no workspace", hint="work in the folder of a project")
        if not root.is_dir():
            raise CheckpointError(f"{root} is not there any more")
        return root

    def _folder_of(self, root: Path) -> Path:
        return self._settings.state / blake2b(os.fsencode(root), digest_size=_KEY_BYTES).hexdigest()

    def _hides_below(self, root: Path) -> frozenset[bytes]:
        real = (path.resolve() for path in (*self._settings.hides, self._settings.state))
        return frozenset(os.fsencode(path.relative_to(root)) for path in real if path.is_relative_to(root))


def find_workspace(launched_in: Path, now_in: Path, home: Path) -> Path:
    """The folder that aish was started in, if the user is still below it and it is no home; else the project that the
    user is in now."""
    if now_in.is_relative_to(launched_in) and not home.is_relative_to(launched_in):
        return launched_in
    for folder in (now_in, *now_in.parents):
        if home.is_relative_to(folder):
            break
        if any((folder / mark).exists() for mark in PROJECT_MARKS):
            return folder
    return now_in
