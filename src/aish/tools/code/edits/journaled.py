"""Applies edits of many files completely or not at all, also across `kill -9`, and undoes them on request.

New contents are staged beside the old ones, and a journal records the change with the old contents. Only then is each
file renamed into place. If the process dies, the journal stays; the next process that opens the workspace finishes the
change or rolls it back. Either can be repeated after a crash. A file that has neither its old nor its new content was
changed by another program and stays as it is. Other programs can see some files changed before others, for the few
milliseconds of the renames.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from aish.errors import ToolError
from aish.tools.code.edits.placement import FilePlacement, PreparedChange
from aish.tools.code.edits.records import EditConflict, EditOutcome, FileChange, FileEdit, Record, UndoEntry, UndoResult
from aish.tools.code.edits.undo_log import UndoLog
from aish.tools.workspace import Workspace
from aish.types.tools import ResultStatus

Step = Callable[[str], None]


def can_finish(placement: FilePlacement, record: Record) -> bool:
    return all(_can_finish(placement, change) for change in record.changes)


def finish(placement: FilePlacement, record: Record, step: Step) -> None:
    """Raises ToolError if one of the files has changed."""
    for change in record.changes:
        step(f"place {change.path}")
        if _is_pending(placement, change):
            placement.commit(change)
        else:
            placement.discard(change)  # a new file has two names for a moment
    sync(placement, record, step)
    for folder in record.leaves:
        placement.leave_folder(folder)


def roll_back(placement: FilePlacement, record: Record, step: Step) -> list[str]:
    """Returns the files that stay as they are because another program has changed them."""
    left: list[str] = []
    for change in reversed(record.changes):
        step(f"take back {change.path}")
        placement.discard(change)
        found = placement.find_hash(change.path)
        if found == change.old:
            continue
        if found != change.new or not _restore(placement, change):
            left.append(change.path)
    sync(placement, record, step)
    for folder in reversed(record.folders):
        placement.leave_folder(folder)
    return left


def sync(placement: FilePlacement, record: Record, step: Step) -> None:
    folders = {change.path.rpartition("/")[0]: change.path for change in record.changes}
    for path in folders.values():
        step(f"sync the folder of {path}")
        placement.sync(path)


def _can_finish(placement: FilePlacement, change: FileChange) -> bool:
    found = placement.find_hash(change.path)
    if found == change.new:
        return True
    if change.new is None:
        return found == change.old
    staged = placement.stage_hash(change)
    # Without its stage it was in place already, and another program has changed it since.
    return found != change.old if staged is None else (staged == change.new and found == change.old)


def _is_pending(placement: FilePlacement, change: FileChange) -> bool:
    if placement.find_hash(change.path) == change.new:
        return False
    return change.new is None or placement.stage_hash(change) is not None


def _restore(placement: FilePlacement, change: FileChange) -> bool:
    """Puts back the old content with the same stage name."""
    back = msgspec.structs.replace(change, old=change.new, new=change.old)
    try:
        if change.before is not None:
            placement.stage(back, change.before)
        placement.commit(back)
    except ToolError as exc:
        if exc.status is ResultStatus.NOT_ALLOWED:  # the path is a link by now
            placement.discard(back)
            return False
        raise
    return True


_SHOWN = 5


class JournaledApplier:
    """`state` is a private folder of the user. `step` is called before each step. All methods raise ToolError."""

    def __init__(self, space: Workspace, state: Path, *, step: Step = lambda what: None) -> None:
        self._space = space
        self._placement = FilePlacement(space)
        self._undo_log = UndoLog(state, space.root)
        self._step = step

    async def recover(self) -> str:
        """Finishes or rolls back an interrupted change; says what was done, "" if nothing was."""
        return await asyncio.to_thread(self._recover) if not self._undo_log.is_clear() else ""

    async def apply(self, edits: Sequence[FileEdit], *, title: str) -> EditOutcome:
        """Applies all edits or none. `title` describes the change in one line."""
        return await asyncio.to_thread(self._apply, edits, title)

    async def undo(self, id: str = "") -> UndoResult:
        """Undoes the last change, or the given one, if every file is as the change left it."""
        return await asyncio.to_thread(self._undo, id)

    async def list_undoable(self) -> Sequence[UndoEntry]:
        """Returns the changes that can be undone, newest first."""
        return await asyncio.to_thread(self._list_undoable)

    def _recover(self) -> str:
        with self._undo_log.lock():
            return self._recover_locked()

    def _apply(self, edits: Sequence[FileEdit], title: str) -> EditOutcome:
        with self._undo_log.lock():
            note = self._recover_locked()
            plan = PreparedChange(self._space, self._placement, edits)
            if plan.conflicts:
                return EditOutcome(conflicts=tuple(plan.conflicts), note=note)
            if not plan.changes:
                return EditOutcome(applied=plan.paths, note=note)
            record = Record(plan.id, title, _now_ms(), tuple(plan.changes), tuple(plan.missing_folders()))
            conflicts = self._execute(record, plan.contents)
        if conflicts:
            return EditOutcome(conflicts=conflicts, note=note)
        return EditOutcome(applied=plan.paths, undo=record.id, note=note)

    def _undo(self, id: str) -> UndoResult:
        with self._undo_log.lock():
            note = self._recover_locked()
            undoable = self._undo_log.list_undoable()
            record = self._undo_log.find_undoable(id or undoable[0]) if undoable else None
            if record is None:
                raise ToolError(
                    f"there is no edit {id} to undo; `:undo list` shows them"
                    if id and undoable
                    else "there is nothing to undo"
                )
            edits = tuple(FileEdit(change.path, change.new, change.before) for change in record.changes)
            modes = {change.path: change.mode for change in record.changes}
            plan = PreparedChange(self._space, self._placement, edits, modes, since="since that edit")
            conflicts = tuple(plan.conflicts)
            if not conflicts:
                back = Record(
                    plan.id,
                    f"undo {record.title}",
                    _now_ms(),
                    tuple(plan.changes),
                    tuple(plan.missing_folders()),
                    leaves=tuple(reversed(record.folders)),
                    undoes=record.id,
                )
                conflicts = self._execute(back, plan.contents)
        applied = () if conflicts else plan.paths
        return UndoResult(record.title, edits, EditOutcome(applied, conflicts, note=note))

    def _list_undoable(self) -> Sequence[UndoEntry]:
        with self._undo_log.lock():
            found = map(self._undo_log.find_undoable, self._undo_log.list_undoable())
            records = [record for record in found if record is not None]
        return [
            UndoEntry(record.id, record.title, record.made_ms, tuple(change.path for change in record.changes))
            for record in records
        ]

    def _execute(self, record: Record, contents: Sequence[bytes | None]) -> tuple[EditConflict, ...]:
        """Returns the conflicts if nothing has changed; empty on success. Raises ToolError if staging fails."""
        self._step("write the intent")
        self._undo_log.write_intent(record)
        try:
            self._stage(record, contents)
        except ToolError:
            self._unstage(record)
            raise
        self._step("begin")
        self._undo_log.begin()
        try:
            finish(self._placement, record, self._step)
        except ToolError as exc:
            unrestored = self._start_rollback(record)
            reasons = [EditConflict(path, "another program changed it, and it stays as it is") for path in unrestored]
            return (EditConflict(record.title, exc.message), *reasons)
        self._step("keep")
        self._undo_log.keep(record)
        return ()

    def _stage(self, record: Record, contents: Sequence[bytes | None]) -> None:
        for folder in record.folders:
            self._step(f"make {folder}")
            self._placement.make_folder(folder)
        for change, content in zip(record.changes, contents, strict=True):
            if content is not None:
                self._step(f"stage {change.path}")
                self._placement.stage(change, content)
        sync(self._placement, record, self._step)

    def _unstage(self, record: Record) -> None:
        for change in record.changes:
            self._step(f"discard {change.stage}")
            self._placement.discard(change)
        for folder in reversed(record.folders):
            self._placement.leave_folder(folder)
        self._undo_log.forget()

    def _start_rollback(self, record: Record) -> list[str]:
        self._undo_log.mark_rollback()
        return self._finish_rollback(record)

    def _finish_rollback(self, record: Record) -> list[str]:
        try:
            unrestored = roll_back(self._placement, record, self._step)
        except ToolError as exc:
            half = f"a change is half done and could not be taken back yet: {record.title}"
            raise ToolError(f"{half} ({exc.message}). Fix that; the next edit tries again.") from exc
        self._step("forget")
        self._undo_log.forget()
        return unrestored

    def _recover_locked(self) -> str:
        """Finishes or rolls back what a dead process left behind. Returns a note; raises ToolError if it fails."""
        if self._undo_log.is_clear():
            return ""
        if (record := self._undo_log.find_journal()) is not None:
            return self._complete(record)
        if (record := self._undo_log.find_rollback()) is not None:
            return _rollback_note(record, self._finish_rollback(record))
        if (record := self._undo_log.find_staging()) is not None:
            self._unstage(record)
            return f"an interrupted change had not begun, and nothing of it is left: {record.title}"
        self._undo_log.forget()
        return ""

    def _complete(self, record: Record) -> str:
        if can_finish(self._placement, record):
            try:
                finish(self._placement, record, self._step)
            except ToolError:
                return _rollback_note(record, self._start_rollback(record))
            self._step("keep")
            self._undo_log.keep(record)
            return f"an interrupted change was finished: {record.title} ({len(record.changes)} files)"
        return _rollback_note(record, self._start_rollback(record))


def _rollback_note(record: Record, unrestored: Sequence[str]) -> str:
    note = f"an interrupted change was taken back: {record.title}"
    return f"{note}; changed by another program and left so: {', '.join(unrestored[:_SHOWN])}" if unrestored else note


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
