"""Folds a turn's events into the messages it leaves behind.

A live turn, a cancelled one and one whose process died all go through this same fold, so history is what the events
say and nothing else. Every tool call in it has exactly one result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from aish.types.events import (
    Event,
    ReasoningDelta,
    StepStarted,
    TextDelta,
    ToolCallReady,
    ToolResult,
    TurnFinished,
    TurnStarted,
    decode_event,
)
from aish.types.messages import AssistantMessage, Message, ToolCall, ToolMessage
from aish.types.records import TurnRecord

NO_ANSWER = "the model gave no answer"
# The events that change the messages. One set lookup is faster than a chain of class patterns.
_FOLDED = frozenset({TextDelta, StepStarted, TurnStarted, ReasoningDelta, ToolCallReady, ToolResult})


class Transcript(msgspec.Struct, eq=False):
    _messages: list[Message] = []
    _input_length: int = 0
    _text: list[str] = []
    _reasoning: list[str] = []
    _calls: list[ToolCall] = []
    _open: dict[str, ToolCall] = {}

    def apply_all(self, events: Sequence[Event]) -> None:
        parts = self._text
        for event in events:
            body = event.body
            if type(body) is TextDelta:
                parts.append(body.text)
            elif type(body) in _FOLDED:
                self.apply(event)
                parts = self._text

    def add_text(self, text: str) -> None:
        """Adds text of the model, like applying a TextDelta."""
        self._text.append(text)

    def apply(self, event: Event) -> None:
        body = event.body
        if type(body) not in _FOLDED:
            return
        match body:
            case TextDelta(text):
                self._text.append(text)
            case StepStarted():
                self._end_step()
            case TurnStarted(input=messages):
                self._messages.extend(messages)
                self._input_length = len(messages)
            case ReasoningDelta(text):
                self._reasoning.append(text)
            case ToolCallReady(name, arguments):
                call = ToolCall(event.call, name, arguments)
                self._calls.append(call)
                self._open[call.id] = call
            case ToolResult(name=name, parts=parts):
                self._end_step()
                self._open.pop(event.call, None)
                self._messages.append(ToolMessage(event.call, name, parts))
            case _:
                pass

    @property
    def open_calls(self) -> list[ToolCall]:
        """Calls without a result yet, in order."""
        return list(self._open.values())

    @property
    def step_text(self) -> str:
        """The text of the model since the last step began."""
        return "".join(self._text)

    def newest_text(self, chars: int) -> str:
        """At least the last `chars` characters of that text."""
        pieces: list[str] = []
        for piece in reversed(self._text):
            pieces.append(piece)
            chars -= len(piece)
            if chars <= 0:
                break
        return "".join(reversed(pieces))

    def messages(self) -> tuple[Message, ...]:
        """The messages so far, for the next model call."""
        self._end_step()
        return tuple(self._messages)

    def new_messages(self) -> tuple[Message, ...]:
        """The messages that the turn added to its input."""
        return self.messages()[self._input_length :]

    def history(self, closing: str) -> tuple[Message, ...]:
        """The messages that the finished turn leaves. They end with the assistant; `closing` is its text if it had
        none.

        Empty if the model never said or did anything, so that no half turn is kept. Calls without a result are left to
        the next turn, which goes on from there.
        """
        messages = self.messages()
        if len(messages) == self._input_length:
            return ()
        last = messages[-1]
        if self._open or (isinstance(last, AssistantMessage) and not last.tool_calls):
            return messages
        return (*messages, AssistantMessage(closing))

    def _end_step(self) -> None:
        if self._text or self._calls:
            text, reasoning = "".join(self._text), "".join(self._reasoning)
            self._messages.append(AssistantMessage(text, tuple(self._calls), reasoning))
            self._text, self._calls = [], []
        if self._reasoning:
            self._reasoning = []


def record_from_events(lines: Iterable[bytes], turn: TurnRecord) -> TurnRecord:
    """The record with its input and its messages, computed from recorded events. For a turn of no session they are
    stored nowhere else. The caller must redact them, since pieces are joined here for the first time."""
    transcript, input, messages = Transcript(), turn.input, None
    for event in map(decode_event, lines):
        transcript.apply(event)
        if isinstance(event.body, TurnStarted):
            input = event.body.input
        elif isinstance(event.body, TurnFinished):
            messages = transcript.history(f"[aish] {event.body.detail or NO_ANSWER}")
    return msgspec.structs.replace(turn, input=input, messages=transcript.messages() if messages is None else messages)
