"""Edits as data, and the journal's records of them: enough to finish, roll back or undo a change.

An edit has the new content of a file and the hash of the old one. All hashes are checked first, and all edits are
applied or none.
"""

from __future__ import annotations

import msgspec


class FileEdit(msgspec.Struct, frozen=True):
    """`path` is relative to the workspace. `base` is the SHA-256 (hex) of the current content, None for a new file.
    `content` is the new content, None to remove the file."""

    path: str
    base: str | None
    content: bytes | None


class EditConflict(msgspec.Struct, frozen=True):
    """A path, and why its edit was not applied."""

    path: str
    reason: str


class EditOutcome(msgspec.Struct, frozen=True):
    """Either all files were changed, or `conflicts` says why none was. `undo` is the id for undoing the change.

    `note` says what was done about an earlier, interrupted change.
    """

    applied: tuple[str, ...] = ()
    conflicts: tuple[EditConflict, ...] = ()
    undo: str = ""
    note: str = ""


class UndoResult(msgspec.Struct, frozen=True):
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


FORMAT = 1


class FileChange(msgspec.Struct, frozen=True):
    """The change of one file. `old` and `new` are hashes, None for no file; `before` is the old content.

    `stage` is a temporary name in the same folder for the new content. `mode` and `owner` are those of the old file, or
    those of the new one if there was none.
    """

    path: str
    old: str | None
    new: str | None
    stage: str
    mode: int
    before: bytes | None
    owner: tuple[int, int] | None = None


class Record(msgspec.Struct, frozen=True):
    """`folders` were created for this change, outermost first; `leaves` are removed with it, innermost first.

    `undoes` is the id of the record that this one undoes.
    """

    id: str
    title: str
    made_ms: int
    changes: tuple[FileChange, ...]
    folders: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    undoes: str = ""
    format: int = FORMAT


encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Record).decode
