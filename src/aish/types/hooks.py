"""Hooks: what they are told at a point of a turn, and what they may answer.

A hook can deny, ask, narrow and add. It can never allow what the gate does not.
"""

from __future__ import annotations

import msgspec

from aish.types.extensions import HookPoint
from aish.types.tools import Arguments


class HookEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a hook is told. Which fields are set depends on the point.

    `text` is the question before a turn, the answer after it, the result after a tool, the reason of a question.
    `status` says how the tool or the turn ended.
    """

    point: HookPoint
    session: str = ""
    turn: str = ""
    workspace: str = ""
    model: str = ""
    tool: str = ""
    effect: str = ""
    arguments: Arguments = {}
    text: str = ""
    status: str = ""


class Deny(msgspec.Struct, frozen=True, tag="deny", tag_field="answer"):
    """The call, or the turn, is refused."""

    reason: str = ""


class Ask(msgspec.Struct, frozen=True, tag="ask", tag_field="answer"):
    """The user is asked, also where the gate would allow the call."""

    reason: str = ""


class Change(msgspec.Struct, frozen=True, tag="change", tag_field="answer"):
    """The call is made with these arguments instead. The gate decides about them as about any."""

    arguments: Arguments


class Note(msgspec.Struct, frozen=True, tag="note", tag_field="answer"):
    """The model is told this, with the question or with the result."""

    text: str


HookAnswer = Deny | Ask | Change | Note
