"""Edits as data, between those who compute them (rename, format, fixes, the model's own) and the one who applies them.

An edit names the whole new content of a file and the hash of the content it replaces. Whoever applies a set of them
checks every hash first and does all or nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec


class FileEdit(msgspec.Struct, frozen=True):
    """`path` is relative to the workspace. `base` is the SHA-256 (hex) of what is there now, None if nothing may be
    there yet. `content` is what shall be there, None to remove the file."""

    path: str
    base: str | None
    content: bytes | None


class Conflict(msgspec.Struct, frozen=True):
    path: str
    reason: str


class Outcome(msgspec.Struct, frozen=True):
    """Either every file was changed, or `conflicts` says why none was. `undo` names a change that can be undone.

    `note` says what was done about an earlier change whose process had died.
    """

    applied: tuple[str, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    undo: str = ""
    note: str = ""


class Undone(msgspec.Struct, frozen=True):
    """What was taken back, and the edits that did it; nothing, where the outcome has conflicts."""

    title: str
    edits: tuple[FileEdit, ...]
    outcome: Outcome


class Kept(msgspec.Struct, frozen=True):
    """A change that can be undone."""

    id: str
    title: str
    made_ms: int
    paths: tuple[str, ...]


class EditApplier(Protocol):
    """All raise ToolError."""

    async def recover(self) -> str:
        """Finish or take back what a process that died has left half done; says what, "" if there was nothing."""

    async def apply(self, edits: Sequence[FileEdit], *, title: str) -> Outcome:
        """All or nothing. `title` says in a line what the change is, for a person who may want to undo it."""

    async def undo(self, id: str = "") -> Undone:
        """The last change, or that one; only if every file is as it left them."""

    async def kept(self) -> Sequence[Kept]:
        """What can be undone, newest first."""

    async def aclose(self) -> None: ...
