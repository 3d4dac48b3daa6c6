"""What the library returns: the answer of a turn, and the report of autonomous work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import msgspec

from aish.types.events import (
    Event,
    Failed,
    StepStarted,
    TextDelta,
    ToolCallReady,
    ToolResult,
    TurnEnd,
    TurnFinished,
    TurnStarted,
)
from aish.types.messages import text_of
from aish.types.runs import RunState
from aish.types.usage import Usage

Value = TypeVar("Value")


class ToolUse(msgspec.Struct, frozen=True):
    """A tool call of a turn. `status` is "ok", or says how the call failed or why it was refused."""

    name: str
    arguments: str
    status: str
    text: str


class Answer(msgspec.Struct, Generic[Value], frozen=True):
    """The answer of a turn. `value` is the text read into the type that was asked for, None if none was.

    `session` goes on with the conversation. `end` says why the turn ended; anything but "answered" means that the
    answer is not whole.
    """

    text: str
    value: Value
    session: str
    turn: str
    model: str
    end: TurnEnd
    usage: Usage
    tools: tuple[ToolUse, ...] = ()

    def __str__(self) -> str:
        return self.text


class GoalReport(msgspec.Struct, frozen=True):
    """What became of work towards a goal. `run` resumes it if it halted; `reason` says why it ended."""

    state: RunState
    run: str
    reason: str
    steps: Sequence[str] = ()


class AnswerReader:
    """Reads the events of a turn into an answer. The text is that of the last step."""

    def __init__(self) -> None:
        self.failure: Failed | None = None
        self._text: list[str] = []
        self._calls: dict[str, ToolCallReady] = {}
        self._tools: list[ToolUse] = []
        self._model = self._session = self._turn = ""
        self._end, self._usage = TurnEnd.FAILED, Usage()

    def add(self, events: Sequence[Event]) -> None:
        for event in events:
            self._add(event)

    def _add(self, event: Event) -> None:
        match event.body:
            case TurnStarted(model=model):
                self._model, self._session, self._turn = model, event.session, event.turn
            case StepStarted():
                self._text.clear()
            case TextDelta(text=text):
                self._text.append(text)
            case ToolCallReady() as ready:
                self._calls[event.call] = ready
            case ToolResult() as result:
                call = self._calls.get(event.call)
                self._tools.append(
                    ToolUse(result.name, call.arguments if call else "", result.status.value, text_of(result.parts))
                )
            case Failed() as failure:
                self.failure = failure
            case TurnFinished(reason=reason, usage=usage):
                self._end, self._usage = reason, usage
            case _:
                pass

    def read(self) -> Answer[None]:
        return Answer(
            "".join(self._text), None, self._session, self._turn, self._model, self._end, self._usage,
            tuple(self._tools),
        )  # fmt: skip
