"""What is written down of a change before it happens: enough to finish it, to take it back, or to undo it later."""

from __future__ import annotations

import msgspec

FORMAT = 1


class Change(msgspec.Struct, frozen=True):
    """One file. `old` and `new` are hashes, None where there is no file; `before` is the content that `old` names.

    `stage` is a name in the same folder that nobody else uses: it holds a content until that is renamed into place.
    `mode` and `owner` are those of the file that is replaced or removed, or what a new file gets.
    """

    path: str
    old: str | None
    new: str | None
    stage: str
    mode: int
    before: bytes | None
    owner: tuple[int, int] | None = None


class Record(msgspec.Struct, frozen=True):
    """`folders` are those made for it, outermost first; `leaves` those to remove with it, innermost first.

    `undoes` is the id of the record that this one takes back.
    """

    id: str
    title: str
    made_ms: int
    changes: tuple[Change, ...]
    folders: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    undoes: str = ""
    format: int = FORMAT


encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Record).decode
