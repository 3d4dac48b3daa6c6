"""Executes the file operations of a change, forwards or backwards. Each direction can be repeated after a crash.

A file that has neither its old nor its new content was changed by another program and stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from aish.errors import ToolError
from aish.tools.code.edits.placement import Placing
from aish.tools.code.edits.records import Change, Record
from aish.types.tools import ResultStatus

Step = Callable[[str], None]


def can_finish(placing: Placing, record: Record) -> bool:
    return all(_can_finish(placing, change) for change in record.changes)


def finish(placing: Placing, record: Record, step: Step) -> None:
    """Raises ToolError if one of the files has changed."""
    for change in record.changes:
        step(f"place {change.path}")
        if _is_pending(placing, change):
            placing.commit(change)
        else:
            placing.discard(change)  # a new file has two names for a moment
    sync(placing, record, step)
    for folder in record.leaves:
        placing.leave_folder(folder)


def take_back(placing: Placing, record: Record, step: Step) -> list[str]:
    """Returns the files that stay as they are because another program has changed them."""
    left: list[str] = []
    for change in reversed(record.changes):
        step(f"take back {change.path}")
        placing.discard(change)
        found = placing.find_hash(change.path)
        if found == change.old:
            continue
        if found != change.new or not _restored(placing, change):
            left.append(change.path)
    sync(placing, record, step)
    for folder in reversed(record.folders):
        placing.leave_folder(folder)
    return left


def sync(placing: Placing, record: Record, step: Step) -> None:
    folders = {change.path.rpartition("/")[0]: change.path for change in record.changes}
    for path in folders.values():
        step(f"sync the folder of {path}")
        placing.sync(path)


def _can_finish(placing: Placing, change: Change) -> bool:
    found = placing.find_hash(change.path)
    if found == change.new:
        return True
    if change.new is None:
        return found == change.old
    staged = placing.stage_hash(change)
    # Without its stage it was in place already, and another program has changed it since.
    return found != change.old if staged is None else (staged == change.new and found == change.old)


def _is_pending(placing: Placing, change: Change) -> bool:
    if placing.find_hash(change.path) == change.new:
        return False
    return change.new is None or placing.stage_hash(change) is not None


def _restored(placing: Placing, change: Change) -> bool:
    """Puts back the old content with the same stage name."""
    back = msgspec.structs.replace(change, old=change.new, new=change.old)
    try:
        if change.before is not None:
            placing.stage(back, change.before)
        placing.commit(back)
    except ToolError as exc:
        if exc.status is ResultStatus.NOT_ALLOWED:  # the path is a link by now
            placing.discard(back)
            return False
        raise
    return True
