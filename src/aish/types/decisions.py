"""What the gate is asked, what it decides, and what the user may answer; what hooks are told and may answer."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

import msgspec

from aish.types.tools import Arguments, JsonSchema, ToolSpec


class Verdict(StrEnum):
    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class Mode(StrEnum):
    """How much runs without a question. Rules of the user come before it, and what the gate insists on is always
    asked."""

    ASK = "ask"  # only what is proved to read
    EDITS = "edits"  # and edits of files in the workspace that can be undone
    AUTO = "auto"  # and commands that the sandbox holds and that lose nothing
    PLAN = "plan"  # nothing but reads: the model writes a plan


# The rule of a command line that may run because it is proved to change nothing.
PROVED_RULE = "proved read-only"
# How the rules begin by which a call runs that no person has allowed: of modes, and of autonomous work.
MODE_RULE = "mode "
AUTONOMOUS_RULE = "autonomous work"
UNASKED_RULES = (MODE_RULE, AUTONOMOUS_RULE)


class Decision(msgspec.Struct, frozen=True, omit_defaults=True):
    """`rule` names what decided: a policy rule, the user, or the failure that closed the gate.

    `arguments` are set if the user changed them: these are allowed, not the original ones.
    """

    verdict: Verdict
    rule: str
    reason: str = ""
    arguments: Arguments | None = None


class EffectRequest(msgspec.Struct, frozen=True):
    """One effect, prepared in full: exactly these arguments run if the gate allows them.

    `owner` is the key of the tenant it is for, "" for the local user and for administrators. `mode` None: the gate's
    own.
    """

    call: str
    tool: ToolSpec
    arguments: Arguments
    owner: str = ""
    turn: str = ""  # the directory of a tool may depend on earlier calls of the turn
    session: str = ""  # what a yes for the session counts for, "" if there is none
    mode: Mode | None = None


class QuestionKind(StrEnum):
    EFFECT = "effect"  # may this run?
    REPEAT = "repeat"  # the model keeps making the same call: go on?
    PLAN = "plan"  # a plan is written: shall it be followed?
    INPUT = "input"  # a tool asks for something: the note of a yes is the answer


class Danger(StrEnum):
    """How much a call can lose."""

    NONE = ""
    DESTRUCTIVE = "destructive"
    CATASTROPHE = "catastrophe"  # the answer must spell out "yes"


class StepCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """Another call of the same step that one answer may cover."""

    call: str
    tool: str
    arguments: Arguments
    preview: str = ""


class Question(msgspec.Struct, frozen=True, omit_defaults=True):
    """A question of the gate to the user.

    `insist`: a blanket yes does not cover it. `always` is the rule that the answer "always" would add, "" if none.
    `like` says in words which calls a yes for the turn or the session covers, "" if only this one. `others` are the
    other calls of this step that are like it; a yes may cover them, too. `preview` shows what would change, as a
    unified diff for files; "" if that is unknown. `danger` says how much may be lost, `loss` what, as counted on the
    disk. `rule` names what asks, as in a Decision. `schema` is what edited arguments must fit; it is sent with the
    question, and not recorded. `owner` is the key that a lasting yes counts for, "" for all; an administrator's counts
    for all.
    """

    call: str
    kind: QuestionKind
    tool: str
    effect: str
    arguments: Arguments
    reason: str
    reasons: tuple[str, ...] = ()
    insist: bool = False
    always: str = ""
    like: str = ""
    preview: str = ""
    rule: str = ""
    schema: JsonSchema = {}
    owner: str = ""
    turn: str = ""  # the turn of the call; not recorded
    danger: Danger = Danger.NONE
    loss: str = ""
    others: tuple[StepCall, ...] = ()
    mode: Mode = Mode.ASK  # the mode in which it is asked


class Choice(StrEnum):
    YES = "yes"
    NO = "no"
    STEP = "step"  # yes, and for the other calls of the step that were listed
    TURN = "turn"  # yes, and for every similar call in the rest of this turn
    SESSION = "session"  # yes, and for every similar call in this session, until aish ends
    ALWAYS = "always"  # yes, and by the rule that was shown from now on
    EDIT = "edit"  # yes, but with these arguments instead
    LATER = "later"  # not in this turn: it ends, and the answer begins another


# Answers that let this very call run as it is. ALWAYS is not among them: it needs a rule that was shown.
YES_CHOICES = frozenset({Choice.YES, Choice.STEP, Choice.TURN, Choice.SESSION})


class Answer(msgspec.Struct, frozen=True):
    choice: Choice
    note: str = ""  # told to the model when the answer is no
    arguments: Arguments | None = None  # with EDIT
    rule: str = ""  # with ALWAYS: what it covers, if the user changed it
    is_automatic: bool = False  # no person gave it
    for_all: bool = False  # with ALWAYS: an administrator's answer to a tenant's question counts for all


HookPoint = Literal["before_turn", "before_tool", "after_tool", "after_turn", "on_question"]
HOOK_POINTS: tuple[HookPoint, ...] = ("before_turn", "before_tool", "after_tool", "after_turn", "on_question")


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


class HookVerdict(msgspec.Struct, frozen=True):
    """The answers of all hooks at one point. `refusal` and `question` are reasons, None if no hook denies or asks.
    `notes` are for the model, `notices` for the user: hooks that failed and were skipped."""

    refusal: str | None = None
    question: str | None = None
    arguments: Arguments | None = None
    notes: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


NO_VERDICT = HookVerdict()
