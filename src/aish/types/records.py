"""The records of the store: sessions, turns, usage, documents, and facts that outlive a session."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from aish.types.events import TurnEnd
from aish.types.messages import Message
from aish.types.usage import Usage


class SessionRecord(msgspec.Struct, frozen=True):
    """`parent` is the turn that has started an agent whose session this is, or the session whose user has; "" for all
    other sessions."""

    id: str
    created_ms: int
    updated_ms: int
    title: str = ""
    model: str = ""
    turns: int = 0
    parent: str = ""


class TurnRecord(msgspec.Struct, frozen=True):
    """`end` None: the turn is running, or its process died. `messages` is the valid history that the turn left, () if
    none.

    `owner` names the process that runs it, so that a running turn can be told from an abandoned one.
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
    """Events of one turn as they were written together: newline-terminated lines, and the number of the first.

    `cursor` is above that of every row written before, by any process.
    """

    cursor: int
    session: str
    turn: str
    first_seq: int
    lines: bytes


class Document(msgspec.Struct, frozen=True):
    """A record of a frontend or the engine: `kind` says what it is, `body` is JSON.

    `owner` is the key it belongs to, "" for all. After `expires_ms` it does not exist any more; 0 means never.
    """

    kind: str
    id: str
    body: bytes
    owner: str = ""
    created_ms: int = 0
    expires_ms: int = 0


class FactKind(StrEnum):
    FACT = "fact"
    PREFERENCE = "preference"
    CONTEXT = "context"


class Fact(msgspec.Struct, frozen=True):
    """`source` says where it comes from: `user`, `import`, or the session it was proposed in."""

    id: str
    text: str
    created_ms: int
    updated_ms: int
    kind: FactKind = FactKind.FACT
    tags: tuple[str, ...] = ()
    source: str = "user"
