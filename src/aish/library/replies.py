"""What the library returns: replies of models, read into a type if one is wanted, and reports of autonomous work."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from aish.errors import UsageError
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
from aish.types.tools import JsonSchema
from aish.types.usage import Usage

_FENCE = re.compile(r"```(?:json)?\s*\n(.*?)```", re.S)
_NOTE = "Answer with JSON only, without any other text. It must fit this JSON schema:\n"

Value = TypeVar("Value")


class ToolUse(msgspec.Struct, frozen=True):
    """A tool call of a turn. `status` is "ok", or says how the call failed or why it was refused."""

    name: str
    arguments: str
    status: str
    text: str


class Reply(msgspec.Struct, Generic[Value], frozen=True):
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


class ReplyReader:
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

    def read(self) -> Reply[None]:
        return Reply(
            "".join(self._text), None, self._session, self._turn, self._model, self._end, self._usage,
            tuple(self._tools),
        )  # fmt: skip


def schema_of(kind: type[Any]) -> JsonSchema:
    """Raises UsageError for a type that has no schema."""
    try:
        return msgspec.json.schema(kind)
    except TypeError as exc:
        raise UsageError(f"{kind} has no schema: {exc}", hint="use a dataclass or a msgspec.Struct") from exc


def describe_schema(kind: type[Any]) -> str:
    """System text for backends that cannot be held to a schema."""
    return _NOTE + msgspec.json.encode(schema_of(kind)).decode()


def read_value(text: str, kind: type[Any]) -> tuple[Any, str]:
    """The value in an answer, and "" or what is wrong with it."""
    problem = "it is no JSON"
    for candidate in _find_candidates(text):
        try:
            return msgspec.json.decode(candidate, type=kind), ""
        except msgspec.ValidationError as exc:
            problem = str(exc)
        except (msgspec.DecodeError, UnicodeEncodeError):
            continue
    return None, problem


def _find_candidates(text: str) -> Iterator[str]:
    """What may be the JSON of the answer: all of it, a block of code, or what stands between the outermost brackets."""
    yield text.strip()
    yield from (match[1] for match in _FENCE.finditer(text))
    for opening, closing in ("{}", "[]"):
        start, end = text.find(opening), text.rfind(closing)
        if 0 <= start < end:
            yield text[start : end + 1]
