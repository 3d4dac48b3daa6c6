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
