"""Records turns: writes their events to the store as they pass, without the secrets in them.

`Recording.events` wraps the stream of one turn. The decision for an effect, its result and the end of the turn are
durable before they are passed on; other events are written within a quarter of a second, those of a turn that is not
streamed at its end. With `write_through`, for a user at a terminal, each event is written before it is shown, so that
what the user has seen survives `kill -9`.

Text that may be the beginning of a secret is not written before it is known how it goes on (`stream_redaction.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing, suppress

import msgspec

from aish.engine.turn.loop import Turn
from aish.engine.turn.resume_state import RETURN_ENDS, note_attempt, store_for_return
from aish.engine.turn.stream_redaction import count_writable, redact_events
from aish.errors import AishError
from aish.ports import Store, TextSink
from aish.safety.redaction.redactor import Redactor
from aish.types.decisions import Verdict
from aish.types.events import (
    Body,
    DecisionMade,
    Event,
    Failed,
    ReasoningDelta,
    Status,
    StepStarted,
    TextDelta,
    ToolOutputDelta,
    ToolResult,
    TurnEnd,
    TurnFinished,
    TurnStarted,
    UsageReported,
    encode_events,
)
from aish.types.messages import Message, TextPart, UserMessage
from aish.types.records import TurnRecord
from aish.types.tools import Effect

# How long words may wait to be written together. A crash loses at most the words of this time.
_WRITE_INTERVAL_S = 0.25
_MAX_WRITES_AT_ONCE = 100  # turns written without a pause: about two milliseconds
_EFFECTS = (DecisionMade, ToolResult)
# Events that are inspected: effects and the end may have to be durable; the last two may quote a secret.
_INSPECTED = frozenset({*_EFFECTS, TurnFinished, Status, Failed})
_WITHOUT_TEXT = frozenset({StepStarted, UsageReported})  # their only text is the model's name, which TurnStarted has

_messages_decoder = msgspec.json.Decoder(tuple[Message, ...])


class Recorder:
    """Records all turns of an engine. `running` are the ids of those under way."""

    def __init__(self, store: Store, redactor: Redactor, *, write_through: bool) -> None:
        self.store = store
        self.redactor = redactor
        self.write_through = write_through
        self.running: set[str] = set()
        self._waiting: set[Recording] = set()  # have words to write at the end of the interval
        self._due: list[Recording] = []  # have words of the last interval
        self._timer: asyncio.Handle | None = None

    def begin(self, turn: Turn, record: TurnRecord | None) -> Recording:
        """Starts a recording. `record` is the record of the turn if it is not in the store yet."""
        self.running.add(turn.id)
        return Recording(self, turn, record)

    def end(self, recording: Recording) -> None:
        """Nothing more will be written of it."""
        self._waiting.discard(recording)
        self.running.discard(recording.turn.id)

    def write_soon(self, recording: Recording) -> None:
        self._waiting.add(recording)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_WRITE_INTERVAL_S, self._end_interval)

    def do_not_wait(self, recording: Recording) -> None:
        self._waiting.discard(recording)

    def _end_interval(self) -> None:
        """Writes the words of all turns, so that they are committed together, but pauses between many of them."""
        loop = asyncio.get_running_loop()
        if not self._due:
            self._due = list(self._waiting)
            self._waiting.clear()
        for _ in range(min(_MAX_WRITES_AT_ONCE, len(self._due))):
            self._write_words(self._due.pop())
        if self._due:
            self._timer = loop.call_soon(self._end_interval)
        else:
            self._timer = loop.call_later(_WRITE_INTERVAL_S, self._end_interval) if self._waiting else None

    def flush_running_turns(self, to_the_end: Collection[str] = ()) -> None:
        """Writes now what all turns have said. Turns in `to_the_end` also write text that may begin a secret."""
        recordings = (*self._due, *self._waiting)
        self._due.clear()
        self._waiting.clear()
        for recording in recordings:
            self._write_words(recording, to_the_end=recording.turn.id in to_the_end)

    def _write_words(self, recording: Recording, *, to_the_end: bool = False) -> None:
        if recording.write_words(to_the_end=to_the_end):
            self._waiting.add(recording)

    def encode(self, events: Sequence[Event]) -> bytes:
        """The lines to store, without secrets. Mostly only a small part of a line can hold one: its text."""
        redactor = self.redactor
        text = _text_of(events)
        if text is not None and redactor.text(text) is text:
            return encode_events(events)
        lines = encode_events(redact_events(events, redactor))
        if redactor.line(lines) is lines:
            return lines
        # Line by line: a match across two lines would remove the end of one and the beginning of the other.
        return b"".join(map(redactor.line, lines.splitlines(keepends=True)))

    def redact_event(self, event: Event) -> Event:
        """Redacts the text of a backend or tool in a status or an error, which may quote a key."""
        body = event.body
        if isinstance(body, Status):
            shown: Body = Status(self.redactor.text(body.text))
        elif isinstance(body, Failed):
            shown = msgspec.structs.replace(body, message=self.redactor.text(body.message))
        else:
            return event
        return event if shown == body else msgspec.structs.replace(event, body=shown)

    def redact_messages(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """The messages as they are stored, and as the next turn will see them."""
        line = msgspec.json.encode(messages)
        redacted = self.redactor.line(line)
        return messages if redacted is line else _messages_decoder.decode(redacted)


class Recording:
    """The recording of one turn. `pending` are events that were passed on or wait for their write, in order."""

    has_failed = False  # by a defect or the store, not because its consumer left
    is_finished = False  # the end of the turn is recorded
    has_attempt_note = False  # see `resume_state`

    def __init__(self, recorder: Recorder, turn: Turn, record: TurnRecord | None) -> None:
        self.turn = turn
        self._recorder = recorder
        self._store = recorder.store
        self._unwritten_record = record
        self._pending: list[Event] = []

    async def events(self, text_sink: TextSink | None) -> AsyncGenerator[list[Event], None]:
        """The batches of the turn. What must be durable is durable before it is passed on."""
        if self._recorder.write_through or not self.turn.request.stream:
            text_sink = None  # text is written before it is shown, or the client wants the whole answer
        try:
            async with aclosing(self.turn.run(text_sink, self._add_word)) as batches:
                async for events in batches:
                    if self._add(events):
                        await self.write()
                    yield events
        except Exception:
            self.has_failed = True
            raise

    def close(self) -> list[Event]:
        """Ends a turn that was left early, or whose end could not be written. Returns the events it still owed."""
        if self.is_finished:
            return []
        if self._pending and type(self._pending[-1].body) is TurnFinished:  # an end that was not passed on
            self._pending.pop()
            self.turn.free_end_number()
        owed = self.turn.close(TurnEnd.FAILED if self.has_failed else TurnEnd.CANCELLED)
        self._pending += owed
        return owed

    def _add(self, events: list[Event]) -> bool:
        """Adds events, without secrets in statuses. Returns whether they must be written before they are passed on."""
        must_write = self._recorder.write_through
        if len(events) != 1 or type(events[0].body) is not TextDelta:
            if events and type(events[0].body) is ToolOutputDelta:  # then all of them are
                return False
            must_write = self._inspect(events) or must_write
        self._pending += events
        if not must_write and self.turn.request.stream:
            self._recorder.write_soon(self)
        return must_write

    def _add_word(self, event: Event) -> None:
        """Adds a word that was relayed past the loop."""
        self._pending.append(event)
        if len(self._pending) == 1:
            self._recorder.write_soon(self)

    def _inspect(self, events: list[Event]) -> bool:
        """Redacts statuses and errors in place. Returns whether an event must be written at once."""
        must_write = False
        for index, event in enumerate(events):
            if (kind := type(event.body)) not in _INSPECTED:
                continue
            if kind in _EFFECTS:
                must_write = must_write or _must_be_durable(event.body)
            elif kind is TurnFinished:
                must_write = True
            else:
                events[index] = self._recorder.redact_event(event)
        return must_write

    def write_words(self, *, to_the_end: bool) -> bool:
        """Writes what is pending, as far as it is known to hold no secret. Returns whether something is left."""
        pending = self._pending
        if not pending or self.is_finished:
            return False
        count = len(pending) if to_the_end else count_writable(pending, self._recorder.redactor)
        with suppress(AishError):  # the next write reports a store that fails
            if count:
                self._append(pending[:count])
                self._pending = pending[count:]
        return bool(self._pending)

    async def write(self) -> None:
        """Writes what is pending; durable if it holds an effect or the end."""
        recorder, turn, store = self._recorder, self.turn, self._store
        recorder.do_not_wait(self)
        events, self._pending = self._pending, []  # before any wait, so that nothing is written twice
        if recorder.write_through and (count := count_writable(events, recorder.redactor)) < len(events):
            events, self._pending = events[:count], events[count:]
            if not events:
                return
        last = events[-1]
        finished = type(last.body) is TurnFinished
        if finished and turn.end in RETURN_ENDS:
            try:
                await store_for_return(store, turn, recorder.redactor.line)
            except BaseException:
                self._pending = events
                raise
        if finished and (record := self._unwritten_record) is not None:
            lines = recorder.encode(events)
            self.is_finished = True
            self._unwritten_record = None
            await store.record_turn(_ended_record(record, last), last.seq, lines)
            return
        self._append(events)
        if finished:
            self.is_finished = True
            await self._finish(last)
        elif any(_must_be_durable(event.body) for event in events if type(event.body) in _EFFECTS):
            if turn.retry_key and not self.has_attempt_note:
                self.has_attempt_note = True
                await note_attempt(store, turn.retry_key, turn.id, turn.now_ms())
            await store.flush()
        elif recorder.write_through:
            await store.flush(durable=False)

    def _append(self, events: Sequence[Event]) -> None:
        if self._unwritten_record is not None:
            self._store.begin_turn(self._unwritten_record)
            self._unwritten_record = None
        first, last = events[0], events[-1]
        self._store.append_events(last.turn, first.seq, last.seq, self._recorder.encode(events))

    async def _finish(self, event: Event) -> None:
        """Finishes the turn in the store. A turn of no session is not gone on with: its events say everything, and
        nothing waits until it is durable."""
        assert isinstance(event.body, TurnFinished)
        turn = self.turn
        await self._store.finish_turn(
            event.turn,
            end=event.body.reason,
            finished_ms=event.at_ms,
            messages=self._recorder.redact_messages(turn.messages()) if turn.session else (),
            usage=event.body.usage,
            wait=bool(turn.session),
        )


def _ended_record(record: TurnRecord, event: Event) -> TurnRecord:
    end = event.body
    assert isinstance(end, TurnFinished)
    return TurnRecord(
        record.id, "", 0, record.model, record.started_ms, (), end.reason, event.at_ms, (), end.usage, record.owner
    )


def _text_of(events: Sequence[Event]) -> str | None:
    """All text in the events that could hold a secret; None if they hold more than plain text.

    Each text stands on lines of its own, since what stands before a key can hide it. What came in pieces also stands
    there as a whole.
    """
    other: list[str] = []
    answer: list[str] = []
    reasoning: list[str] = []
    for event in events:
        body = event.body
        kind = type(body)
        if kind is TextDelta:
            answer.append(body.text)  # type: ignore[union-attr]
        elif kind in _WITHOUT_TEXT:
            continue
        elif kind is ReasoningDelta:
            reasoning.append(body.text)  # type: ignore[union-attr]
        elif kind is TurnFinished:
            other.append(body.detail)  # type: ignore[union-attr]
        elif kind is TurnStarted:
            other.append(body.model)  # type: ignore[union-attr]
            for message in body.input:  # type: ignore[union-attr]
                if type(message) is not UserMessage:
                    return None
                for part in message.parts:
                    if type(part) is not TextPart:
                        return None
                    other.append(part.text)
        else:
            return None
    if reasoning:
        other += (*reasoning, "".join(reasoning))
    if len(answer) > 1:
        other.append("".join(answer))
    return "\n".join(other + answer)


def _must_be_durable(body: Body) -> bool:
    if isinstance(body, DecisionMade):
        return body.effect is not Effect.READ and body.decision.verdict is Verdict.ALLOW
    return isinstance(body, ToolResult) and body.effect not in (None, Effect.READ)
