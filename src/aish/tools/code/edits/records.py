"""The journal's records: enough to finish, roll back or undo a change."""

from __future__ import annotations

import msgspec

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
