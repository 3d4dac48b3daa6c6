"""The one closed set of events that every frontend encodes and every store records.

An `Event` is an envelope (session, turn, step, call, sequence number, time) around a `Body`. A turn's events are
numbered from 1 without gaps; the first is TurnStarted, the last TurnFinished. Only `ToolOutputDelta` has no number of
its own. Match bodies exhaustively and end in `assert_never`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from aish.types.decisions import Decision, Question
from aish.types.messages import Message, Part
from aish.types.tools import Effect, Repair, ResultStatus, StructuredResult
from aish.types.usage import Category, Usage


class TurnEnd(StrEnum):
    """Why a turn ended."""

    ANSWERED = "answered"
    LENGTH = "length"  # the model's answer was cut at its token limit
    MAX_STEPS = "max_steps"
    MAX_TOOL_CALLS = "max_tool_calls"
    WALL_TIME = "wall_time"
    TOKENS = "tokens"
    COST = "cost"
    REPEATED = "repeated"
    CLIENT_TOOLS = "client_tools"  # calls were left to the client; their results begin the next turn
    APPROVAL = "approval"  # calls wait for decisions, which begin the next turn
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"  # the process died; closed when next opened
    FAILED = "failed"


LIMIT_ENDS = frozenset({
    TurnEnd.MAX_STEPS, TurnEnd.MAX_TOOL_CALLS, TurnEnd.WALL_TIME, TurnEnd.TOKENS, TurnEnd.COST, TurnEnd.REPEATED,
})  # fmt: skip


class TurnStarted(msgspec.Struct, frozen=True, tag="turn_started", omit_defaults=True):
    """`traceparent` is the trace of the caller, "" if there is none. `after_effect`: the turn goes on from an attempt
    that broke off and has had an effect."""

    model: str
    input: tuple[Message, ...]
    traceparent: str = ""
    after_effect: bool = False


class StepStarted(msgspec.Struct, frozen=True, tag="step_started"):
    model: str


# `gc=False` here and below: an answer has thousands of them, and none can be part of a reference cycle.
class TextDelta(msgspec.Struct, frozen=True, gc=False, tag="text_delta"):
    """`logprobs`: the probabilities of its tokens in OpenAI's form, if they were requested."""

    text: str
    logprobs: list[dict[str, Any]] | UnsetType = UNSET


class ReasoningDelta(msgspec.Struct, frozen=True, gc=False, tag="reasoning_delta"):
    text: str


class ToolCallStarted(msgspec.Struct, frozen=True, tag="tool_call_started"):
    index: int
    name: str


class ArgumentsDelta(msgspec.Struct, frozen=True, gc=False, tag="arguments_delta"):
    text: str


class ToolCallReady(msgspec.Struct, frozen=True, tag="tool_call_ready"):
    """The model has finished writing this call. `repairs` were needed to read it from the model's text."""

    name: str
    arguments: str
    repairs: tuple[Repair, ...] | msgspec.UnsetType = msgspec.UNSET


class DecisionAsked(msgspec.Struct, frozen=True, tag="decision_asked"):
    question: Question


class DecisionMade(msgspec.Struct, frozen=True, tag="decision_made"):
    """The decision of the gate. If it allows more than a read, it is durable before the effect: this is the intent."""

    decision: Decision
    effect: Effect


class ToolResult(msgspec.Struct, frozen=True, tag="tool_result"):
    """The one result of a call. After more than a read, it is durable before the next step: this is the outcome.

    `repairs` are corrections of the call's name and arguments. `structured` is for programs that call a tool without a
    model; turns do not have it. `child_turn` is the turn of the agent that the call has run.
    """

    name: str
    status: ResultStatus
    parts: tuple[Part, ...]
    effect: Effect | None = None
    duration_ms: float = 0.0
    truncated_chars: int = 0
    repairs: tuple[Repair, ...] | msgspec.UnsetType = msgspec.UNSET
    structured: StructuredResult | msgspec.UnsetType = msgspec.UNSET
    child_turn: str | msgspec.UnsetType = msgspec.UNSET


class UsageReported(msgspec.Struct, frozen=True, tag="usage", omit_defaults=True):
    """`estimate` is our own count of the prompt before it was sent, 0 if there was none. `left_out` are the turns that
    did not fit the window. `prefix_lost` says why the prompt does not begin with the last one of the session, so that
    the backend had to read it again; "" if it does."""

    model: str
    usage: Usage
    category: Category = Category.MAIN
    estimate: int = 0
    left_out: int = 0
    prefix_lost: str = ""


class ToolOutputDelta(msgspec.Struct, frozen=True, tag="tool_output"):
    """What a running call has printed since the last of these: whole lines, for a user who watches. Of much output only
    the end is here; `left_out_chars` counts the rest. The result has everything, so this is not recorded, and it has
    the number of the event before it."""

    text: str
    left_out_chars: int = 0


class Status(msgspec.Struct, frozen=True, tag="status"):
    """A line for the user."""

    text: str


class PlanProposed(msgspec.Struct, frozen=True, tag="plan_proposed"):
    plan: Any
    attempt: int


class PlanRejected(msgspec.Struct, frozen=True, tag="plan_rejected"):
    errors: tuple[str, ...]


class PlanAccepted(msgspec.Struct, frozen=True, tag="plan_accepted"):
    plan: Any


class PlanStepStarted(msgspec.Struct, frozen=True, tag="plan_step_started"):
    id: str
    tool: str


class PlanStepFinished(msgspec.Struct, frozen=True, tag="plan_step_finished"):
    id: str
    status: ResultStatus


class Halted(msgspec.Struct, frozen=True, tag="halted"):
    reason: str


class TurnFinished(msgspec.Struct, frozen=True, tag="turn_finished"):
    reason: TurnEnd
    usage: Usage = Usage()
    detail: str = ""


class Failed(msgspec.Struct, frozen=True, tag="error"):
    """What went wrong, for the user. `kind` is the error's class, `retry` whether asking again may help, `status` the
    status of a backend's refusal."""

    kind: str
    message: str
    hint: str = ""
    retry: bool = False
    status: int = 0


Body = (
    TurnStarted
    | StepStarted
    | TextDelta
    | ReasoningDelta
    | ToolCallStarted
    | ArgumentsDelta
    | ToolCallReady
    | DecisionAsked
    | DecisionMade
    | ToolResult
    | UsageReported
    | ToolOutputDelta
    | Status
    | PlanProposed
    | PlanRejected
    | PlanAccepted
    | PlanStepStarted
    | PlanStepFinished
    | Halted
    | TurnFinished
    | Failed
)


class Event(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    session: str
    turn: str
    seq: int
    at_ms: int
    body: Body
    step: int = 0
    call: str = ""


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Event)

# Each event as a line, newline included.
encode_events: Callable[[Sequence[Event]], bytes] = _encoder.encode_lines


def encode_event(event: Event) -> bytes:
    """One line of JSON without its newline, as in `--json`, in the store and in exports."""
    return _encoder.encode(event)


def decode_event(line: bytes) -> Event:
    return _decoder.decode(line)
