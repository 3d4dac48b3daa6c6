"""What the gate is asked, what it answers, and what a person may say when it asks them."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from aish.types.tools import Arguments, ToolSpec


class Verdict(StrEnum):
    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class Decision(msgspec.Struct, frozen=True):
    """`rule` names what decided: a policy rule, the person, or the failure that closed the gate."""

    verdict: Verdict
    rule: str
    reason: str = ""


class EffectRequest(msgspec.Struct, frozen=True):
    """One effect, prepared in full: exactly these arguments run if the gate lets them."""

    call: str
    tool: ToolSpec
    arguments: Arguments


class QuestionKind(StrEnum):
    EFFECT = "effect"  # may this run?
    REPEAT = "repeat"  # the model keeps making the same call: go on?


class Question(msgspec.Struct, frozen=True):
    call: str
    kind: QuestionKind
    tool: str
    effect: str
    arguments: Arguments
    reason: str


class Choice(StrEnum):
    YES = "yes"
    NO = "no"
    TURN = "turn"  # yes, and for every like call in the rest of this turn


class Answer(msgspec.Struct, frozen=True):
    choice: Choice
    note: str = ""  # told to the model when the answer is no
