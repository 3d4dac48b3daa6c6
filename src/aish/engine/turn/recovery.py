"""Closes a turn whose process died: what it had recorded stays, what was open gets its one result, and it ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from aish.engine.tools.dispatch import result_event
from aish.engine.tools.executor import aish_says
from aish.engine.turn.events import EventFactory, Transcript
from aish.engine.turn.resume_state import drop_unfinished_answers
from aish.ports import Clock, Store
from aish.safety.redaction.redactor import MARK
from aish.types.decisions import Verdict
from aish.types.events import (
    DecisionMade,
    Event,
    ToolCallReady,
    ToolResult,
    TurnEnd,
    TurnFinished,
    TurnStarted,
    UsageReported,
    decode_event,
    encode_event,
)
from aish.types.messages import Message
from aish.types.records import TurnRecord
from aish.types.requests import EarlierAttempts
from aish.types.tools import Effect, ResultStatus
from aish.types.usage import Usage

Redact = Callable[[tuple[Message, ...]], tuple[Message, ...]]

_MAX_AGENTS = 100  # the calls of a turn are limited, too
_SAYING = "interrupted: aish ended before this turn did"
_UNKNOWN = "interrupted: aish ended while this was under way; it may or may not have had its effect."
_NOT_RUN = "interrupted: aish ended before this was run."


async def close_interrupted_turn(turn: TurnRecord, store: Store, clock: Clock, redact: Redact) -> TurnRecord:
    """Closes first the turns of agents that it has started."""
    for session in await store.list_sessions(limit=_MAX_AGENTS, parent=turn.id):
        for child in await store.list_turns(session.id):
            if child.end is None:
                await close_interrupted_turn(child, store, clock, redact)
    transcript, usage, owed = await _read(turn, store, clock)
    for event in owed:
        store.append_events(turn.id, event.seq, event.seq, encode_event(event) + b"\n")
    messages, now_ms = redact(transcript.history(f"[aish] {_SAYING}")), clock.now_ms()
    await store.finish_turn(turn.id, end=TurnEnd.INTERRUPTED, finished_ms=now_ms, messages=messages, usage=usage)
    return msgspec.structs.replace(turn, end=TurnEnd.INTERRUPTED, finished_ms=now_ms, messages=messages, usage=usage)


async def read_earlier_attempts(turns: Sequence[TurnRecord], store: Store) -> EarlierAttempts:
    """What the attempts at one request have done, in their order.

    A call that was broken off has no result here. Calls that had not begun, and reads, stay open: the next attempt
    makes them. Other calls may or may not have had their effect. So may those whose arguments held a secret: it is not
    stored, so they cannot be made again.
    """
    transcript, had_effect = Transcript(), False
    allowed: set[str] = set()
    made_in: dict[str, str] = {}
    for turn in turns:
        for event in map(decode_event, (await store.read_events(turn.id)).splitlines()):
            match event.body:
                case DecisionMade(decision, effect):
                    if decision.verdict is Verdict.ALLOW and effect is not Effect.READ:
                        allowed.add(event.call)
                case ToolCallReady():
                    made_in[event.call] = turn.id
                case ToolResult(status=ResultStatus.CANCELLED | ResultStatus.INTERRUPTED):
                    continue
                case ToolResult(effect=effect):
                    had_effect = had_effect or effect not in (None, Effect.READ)
                case _:
                    pass
            if not isinstance(event.body, TurnStarted):
                transcript.apply(event)
    lost = [call for call in transcript.open_calls if call.id in allowed or MARK in call.arguments]
    unknown = [f"{call.name} (/v1/traces/{made_in[call.id]})" for call in lost]
    messages = drop_unfinished_answers(transcript.messages())
    return EarlierAttempts(messages, had_effect or bool(unknown), tuple(unknown))


async def _read(turn: TurnRecord, store: Store, clock: Clock) -> tuple[Transcript, Usage, list[Event]]:
    """All that happened in it, and the events that are owed."""
    recorded = [decode_event(line) for line in (await store.read_events(turn.id)).splitlines()]
    transcript = Transcript()
    usage = Usage()
    for event in recorded:
        transcript.apply(event)
        if isinstance(event.body, UsageReported):
            usage = usage + event.body.usage
    owed = _missing_events(turn, recorded, transcript, usage, clock)
    for event in owed:
        transcript.apply(event)
    return transcript, usage, owed


def _missing_events(
    turn: TurnRecord, recorded: list[Event], transcript: Transcript, usage: Usage, clock: Clock
) -> list[Event]:
    events = EventFactory(turn.session, turn.id, clock.now_ns)
    if recorded:
        events.step, events.seq = recorded[-1].step, recorded[-1].seq
    begun = {event.call for event in recorded if isinstance(event.body, DecisionMade)}  # an effect is decided before
    results = [
        events.event(
            result_event(call, aish_says(ResultStatus.INTERRUPTED, _UNKNOWN if call.id in begun else _NOT_RUN)), call.id
        )
        for call in transcript.open_calls
    ]
    return [*results, events.event(TurnFinished(TurnEnd.INTERRUPTED, usage, _SAYING))]
