"""Edits as data, passed from rename, format, fixes and model edits to the applier.

An edit has the new content of a file and the hash of the old one. The applier checks all hashes first and applies all
edits or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec


class FileEdit(msgspec.Struct, frozen=True):
    """`path` is relative to the workspace. `base` is the SHA-256 (hex) of the current content, None for a new file.
    `content` is the new content, None to remove the file."""

    path: str
    base: str | None
    content: bytes | None


class Conflict(msgspec.Struct, frozen=True):
    path: str
    reason: str


class EditOutcome(msgspec.Struct, frozen=True):
    """Either all files were changed, or `conflicts` says why none was. `undo` is the id for undoing the change.

    `note` says what was done about an earlier, interrupted change.
    """

    applied: tuple[str, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    undo: str = ""
    note: str = ""


class Undone(msgspec.Struct, frozen=True):
    """The title and edits of an undone change. With conflicts in the outcome, nothing was undone."""

    title: str
    edits: tuple[FileEdit, ...]
    outcome: EditOutcome


class UndoEntry(msgspec.Struct, frozen=True):
    """A change that can be undone."""

    id: str
    title: str
    made_ms: int
    paths: tuple[str, ...]


class EditApplier(Protocol):
    """All methods raise ToolError."""

    async def recover(self) -> str:
        """Finishes or rolls back an interrupted change; says what was done, "" if nothing was."""

    async def apply(self, edits: Sequence[FileEdit], *, title: str) -> EditOutcome:
        """Applies all edits or none. `title` describes the change in one line."""

    async def undo(self, id: str = "") -> Undone:
        """Undoes the last change, or the given one, if every file is as the change left it."""

    async def list_undoable(self) -> Sequence[UndoEntry]:
        """Returns the changes that can be undone, newest first."""
