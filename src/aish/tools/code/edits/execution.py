"""Executes the file operations of a change, forwards or backwards. Each direction can be repeated after a crash.

A file that has neither its old nor its new content was changed by another program and stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from aish.errors import ToolError
from aish.tools.code.edits.placement import FilePlacement
from aish.tools.code.edits.records import FileChange, Record
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
