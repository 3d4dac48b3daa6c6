"""Closes a turn whose process died: what it had recorded stays, what was open gets its one result, and it ends."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from aish.engine.tools.dispatch import result_event
from aish.engine.tools.executor import aish_says
from aish.engine.turn.event_factory import EventFactory
from aish.engine.turn.transcript import Transcript
from aish.ports import Clock, Store
from aish.types.events import DecisionMade, Event, TurnEnd, TurnFinished, UsageReported, decode_event, encode_event
from aish.types.messages import Message
from aish.types.records import TurnRecord
from aish.types.tools import ResultStatus
from aish.types.usage import Usage

Redact = Callable[[tuple[Message, ...]], tuple[Message, ...]]

_SAYING = "interrupted: aish ended before this turn did"
_UNKNOWN = "interrupted: aish ended while this was under way; it may or may not have had its effect."
_NOT_RUN = "interrupted: aish ended before this was run."


async def close_interrupted(turn: TurnRecord, store: Store, clock: Clock, redact: Redact) -> TurnRecord:
    transcript, usage, owed = await _read(turn, store, clock)
    for event in owed:
        store.append_events(turn.id, event.seq, event.seq, encode_event(event) + b"\n")
    messages, now_ms = redact(transcript.history(f"[aish] {_SAYING}")), clock.now_ms()
    await store.finish_turn(turn.id, end=TurnEnd.INTERRUPTED, finished_ms=now_ms, messages=messages, usage=usage)
    return msgspec.structs.replace(turn, end=TurnEnd.INTERRUPTED, finished_ms=now_ms, messages=messages, usage=usage)


async def produced_before(turn: TurnRecord, store: Store, clock: Clock) -> tuple[Message, ...]:
    """What it had said and done when its process died, each call with its result."""
    transcript, _, _ = await _read(turn, store, clock)
    return transcript.produced()


async def _read(turn: TurnRecord, store: Store, clock: Clock) -> tuple[Transcript, Usage, list[Event]]:
    """All that happened in it, and the events that are owed."""
    recorded = [decode_event(line) for line in (await store.read_events(turn.id)).splitlines()]
    transcript = Transcript()
    usage = Usage()
    for event in recorded:
        transcript.apply(event)
        if isinstance(event.body, UsageReported):
            usage = usage + event.body.usage
    owed = _owed(turn, recorded, transcript, usage, clock)
    for event in owed:
        transcript.apply(event)
    return transcript, usage, owed


def _owed(turn: TurnRecord, recorded: list[Event], transcript: Transcript, usage: Usage, clock: Clock) -> list[Event]:
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
