"""Writes a turn's events to the store as they pass, without the secrets in them.

An intent or outcome of more than a read, and the end of the turn, are durable before the consumer sees them.
"""

from __future__ import annotations

import msgspec

from aish.engine.turn import Turn
from aish.ports import Store
from aish.safety.redact import Redactor
from aish.types.decisions import Verdict
from aish.types.events import Body, DecisionMade, Event, Failed, Status, ToolResult, TurnFinished, encode_event
from aish.types.messages import Message
from aish.types.tools import Effect

_messages_decoder = msgspec.json.Decoder(tuple[Message, ...])


class Recorder:
    """`write_through` is for a person at a terminal: each event is written before it is shown, so that what they have
    seen survives `kill -9`."""

    def __init__(self, store: Store, redactor: Redactor, *, write_through: bool) -> None:
        self._store = store
        self._redactor = redactor
        self._write_through = write_through

    async def record(self, turn: Turn, event: Event) -> None:
        line = self._redactor.line(encode_event(event)) + b"\n"
        self._store.append_events(event.turn, event.seq, event.seq, line)
        if isinstance(event.body, TurnFinished):
            turn.finished()
            await self._store.finish_turn(
                event.turn,
                end=event.body.reason,
                finished_ms=event.at_ms,
                messages=self.redacted(turn.messages()),
                usage=event.body.usage,
            )
        elif _must_be_durable(event):
            await self._store.flush()
        elif self._write_through:
            await self._store.flush(durable=False)

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


def _must_be_durable(event: Event) -> bool:
    body = event.body
    if isinstance(body, DecisionMade):
        return body.effect is not Effect.READ and body.decision.verdict is Verdict.ALLOW
    return isinstance(body, ToolResult) and body.effect not in (None, Effect.READ)
