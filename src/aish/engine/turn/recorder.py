"""Writes a turn's events to the store as they pass, without the secrets in them.

An intent or outcome of more than a read, and the end of the turn, are durable before the consumer sees them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress

import msgspec

from aish.engine.turn.loop import Turn
from aish.engine.turn.resume_state import HELD_ENDS, hold, note_attempt
from aish.engine.turn.stream_redaction import count_settled, without_secrets
from aish.errors import AishError
from aish.ports import Store
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
    ToolResult,
    TurnFinished,
    TurnStarted,
    UsageReported,
    encode_events,
)
from aish.types.messages import Message, TextPart, UserMessage
from aish.types.records import TurnRecord
from aish.types.tools import Effect

# Words wait for company, no longer than this. What a crash may lose is the words of one such moment.
_MOMENT_S = 0.25
_AT_ONCE = 100  # turns whose words are written without a pause: about two milliseconds
_OF_EFFECTS = (DecisionMade, ToolResult)
_LOOKED_AT = frozenset({*_OF_EFFECTS, TurnFinished, Status, Failed})  # the last two may repeat what others have said
_WITHOUT_WORDS = frozenset({StepStarted, UsageReported})  # but the model's name, which the turn began with

_messages_decoder = msgspec.json.Decoder(tuple[Message, ...])


class Recorder:
    """`write_through` is for a person at a terminal: each event is written before it is shown, so that what they have
    seen survives `kill -9`. But what may be the beginning of a secret waits until it is known how it goes on."""

    def __init__(self, store: Store, redactor: Redactor, *, write_through: bool) -> None:
        self._store = store
        self._redactor = redactor
        self.write_through = write_through
        self._speaking: set[Turn] = set()  # whose words are to be written at the end of the moment
        self._due: list[Turn] = []  # at the end of the last one
        self._moment: asyncio.Handle | None = None

    def take(self, turn: Turn, events: list[Event]) -> bool:
        """Makes them fit to be shown, and says whether they have to be written before they are: an intent, an outcome
        and the end. What else happens is written by the moment; of a turn that nobody watches, at its end.

        So a watched turn with something unwritten is one whose moment will end, and more may be put to it without being
        given here: words are (`turn._Straight`)."""
        is_due = self.write_through
        if len(events) != 1 or type(events[0].body) is not TextDelta:
            is_due = self._look_at(events) or is_due
        turn.unwritten += events
        if not is_due and turn.is_watched:
            self._speaking.add(turn)
            if self._moment is None:
                self._moment = asyncio.get_running_loop().call_later(_MOMENT_S, self._end_moment)
        return is_due

    def _look_at(self, events: list[Event]) -> bool:
        """Makes them presentable where they stand, and says whether one of them has to be written now."""
        is_due = False
        for place, event in enumerate(events):
            if (kind := type(event.body)) not in _LOOKED_AT:
                continue
            if kind in _OF_EFFECTS:
                is_due = is_due or _must_be_durable(event.body)
            elif kind is TurnFinished:
                is_due = True
            else:
                events[place] = self.presentable(event)
        return is_due

    def let_go(self, turn: Turn) -> None:
        """Nothing of it is waited for any more."""
        self._speaking.discard(turn)

    def _end_moment(self) -> None:
        """Of all turns, so that what they say is written together, but not of thousands without a pause."""
        loop = asyncio.get_running_loop()
        if not self._due:
            self._due = list(self._speaking)
            self._speaking.clear()
        for _ in range(min(_AT_ONCE, len(self._due))):
            self._write_words(self._due.pop())
        if self._due:
            self._moment = loop.call_soon(self._end_moment)
        else:
            self._moment = loop.call_later(_MOMENT_S, self._end_moment) if self._speaking else None

    def catch_up(self, whole: Collection[str] = ()) -> None:
        """Now, of all turns: somebody wants to read it. Of those in `whole` whatever it may be the beginning of."""
        turns = (*self._due, *self._speaking)
        self._due.clear()
        self._speaking.clear()
        for turn in turns:
            self._write_words(turn, to_the_end=turn.id in whole)

    def _write_words(self, turn: Turn, *, to_the_end: bool = False) -> None:
        """Whoever follows it through the store sees what a model has said before it fell silent."""
        if not turn.unwritten or turn.is_finished:
            return
        count = len(turn.unwritten) if to_the_end else count_settled(turn.unwritten, self._redactor)
        with suppress(AishError):  # a store that fails is told of by the next write
            if count:
                self._begin(turn)
                self._append(turn.unwritten[:count])
                turn.unwritten = turn.unwritten[count:]
        if turn.unwritten:
            self._speaking.add(turn)

    def _begin(self, turn: Turn) -> None:
        """Where nothing of it has been written yet."""
        if (record := turn.unrecorded) is not None:
            self._store.begin_turn(record)
            turn.unrecorded = None

    def _append(self, events: Sequence[Event]) -> None:
        self._store.append_events(events[-1].turn, events[0].seq, events[-1].seq, self._lines(events))

    async def write(self, turn: Turn) -> None:
        self._speaking.discard(turn)
        events, turn.unwritten = turn.unwritten, []  # before anything is waited for: nobody else writes them then
        if self.write_through and (count := count_settled(events, self._redactor)) < len(events):
            events, turn.unwritten = events[:count], events[count:]
            if not events:
                return
        first, last = events[0], events[-1]
        finished = type(last.body) is TurnFinished
        if finished and turn.end in HELD_ENDS:
            try:
                await hold(self._store, turn, self._redactor.line)
            except BaseException:
                turn.unwritten = events
                raise
        lines = self._lines(events)
        if finished and (record := turn.unrecorded) is not None:
            turn.is_finished = True
            turn.unrecorded = None
            await self._store.record_turn(_ended(record, last), last.seq, lines)
            return
        self._begin(turn)
        self._store.append_events(last.turn, first.seq, last.seq, lines)
        if finished:
            turn.is_finished = True
            await self._finish(turn, last)
        elif _any_durable(events):
            if turn.retry_key and not turn.is_noted:
                await note_attempt(self._store, turn)
            await self._store.flush()
        elif self.write_through:
            await self._store.flush(durable=False)

    async def _finish(self, turn: Turn, event: Event) -> None:
        """A turn of no session is kept for looking at, not for going on from: its events say what was said, and nobody
        waits until it is safe."""
        assert isinstance(event.body, TurnFinished)
        await self._store.finish_turn(
            event.turn,
            end=event.body.reason,
            finished_ms=event.at_ms,
            messages=self.redacted(turn.messages()) if turn.session else (),
            usage=event.body.usage,
            wait=bool(turn.session),
        )

    def _lines(self, events: Sequence[Event]) -> bytes:
        """Without secrets. Mostly only what was said can hold one, a small part of the line."""
        said = _words(events)
        if said is not None and self._redactor.text(said) is said:
            return encode_events(events)
        lines = encode_events(without_secrets(events, self._redactor))
        if self._redactor.line(lines) is lines:
            return lines
        # One by one: what seems to go from one to the next would take the ends of both with it.
        return b"".join(map(self._redactor.line, lines.splitlines(keepends=True)))

    def presentable(self, event: Event) -> Event:
        """What others said of a failure may hold a key; what is shown of it does not."""
        body = event.body
        if isinstance(body, Status):
            shown: Body = Status(self._redactor.text(body.text))
        elif isinstance(body, Failed):
            shown = msgspec.structs.replace(body, message=self._redactor.text(body.message))
        else:
            return event
        return event if shown == body else msgspec.structs.replace(event, body=shown)

    def redacted(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """What is kept of a conversation holds no known secret, and neither does what the next turn sees of it."""
        line = msgspec.json.encode(messages)
        redacted = self._redactor.line(line)
        return messages if redacted is line else _messages_decoder.decode(redacted)


def _ended(record: TurnRecord, event: Event) -> TurnRecord:
    end = event.body
    assert isinstance(end, TurnFinished)
    return TurnRecord(
        record.id, "", 0, record.model, record.started_ms, (), end.reason, event.at_ms, (), end.usage, record.owner
    )


def _words(events: Sequence[Event]) -> str | None:
    """All that somebody said in them, and the name a client may have made up for a model; None where it is not that
    simple. Each on lines of its own, since what stands before a key can hide it; and together what came in pieces."""
    words: list[str] = []
    said: list[str] = []
    thought: list[str] = []
    for event in events:
        body = event.body
        kind = type(body)
        if kind is TextDelta:
            said.append(body.text)  # type: ignore[union-attr]
        elif kind in _WITHOUT_WORDS:
            continue
        elif kind is ReasoningDelta:
            thought.append(body.text)  # type: ignore[union-attr]
        elif kind is TurnFinished:
            words.append(body.detail)  # type: ignore[union-attr]
        elif kind is TurnStarted:
            words.append(body.model)  # type: ignore[union-attr]
            for message in body.input:  # type: ignore[union-attr]
                if type(message) is not UserMessage:
                    return None
                for part in message.parts:
                    if type(part) is not TextPart:
                        return None
                    words.append(part.text)
        else:
            return None
    if thought:
        words += (*thought, "".join(thought))
    if len(said) > 1:
        words.append("".join(said))
    return "\n".join(words + said)


def _any_durable(events: Sequence[Event]) -> bool:
    return any(_must_be_durable(event.body) for event in events if type(event.body) in _OF_EFFECTS)


def _must_be_durable(body: Body) -> bool:
    if isinstance(body, DecisionMade):
        return body.effect is not Effect.READ and body.decision.verdict is Verdict.ALLOW
    return isinstance(body, ToolResult) and body.effect not in (None, Effect.READ)
