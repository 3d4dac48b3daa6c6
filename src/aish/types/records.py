"""What the store keeps."""

from __future__ import annotations

import msgspec

from aish.types.events import TurnEnd
from aish.types.messages import Message
from aish.types.usage import Usage


class SessionRecord(msgspec.Struct, frozen=True):
    id: str
    created_ms: int
    updated_ms: int
    title: str = ""
    model: str = ""
    turns: int = 0


class TurnRecord(msgspec.Struct, frozen=True):
    """`end` None: still running, or its process died. `messages` is the valid history the turn left, () if none.

    `owner` names the process that runs it, so that another can tell a turn under way from one left behind.
    """

    id: str
    session: str
    number: int  # from 1 within its session
    model: str
    started_ms: int
    input: tuple[Message, ...]
    end: TurnEnd | None = None
    finished_ms: int | None = None
    messages: tuple[Message, ...] = ()
    usage: Usage = Usage()
    owner: str = ""


class FeedRow(msgspec.Struct, frozen=True):
    """Events of one turn as they were written together: newline-terminated lines, the first of that number.

    `cursor` is above that of every row written before, whoever wrote it.
    """

    cursor: int
    session: str
    turn: str
    first_seq: int
    lines: bytes


class Document(msgspec.Struct, frozen=True):
    """Something a frontend or the engine keeps under a name of its own: `kind` says what it is, `body` is JSON.

    `owner` is whom it belongs to, "" everybody; past `expires_ms` it is no longer there, 0 means never.
    """

    kind: str
    id: str
    body: bytes
    owner: str = ""
    created_ms: int = 0
    expires_ms: int = 0
