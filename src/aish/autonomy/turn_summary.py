"""What a turn said, did and cost, collected from its events."""

from __future__ import annotations

from collections.abc import Sequence

from aish.types.events import (
    Event,
    Failed,
    StepStarted,
    TextDelta,
    ToolResult,
    TurnEnd,
    TurnFinished,
    TurnStarted,
    UsageReported,
)
from aish.types.tools import ResultStatus
from aish.types.usage import Usage


class Heard:
    def __init__(self) -> None:
        self.session = ""
        self.model = ""
        self.usage = Usage()
        self.context_tokens = 0
        self.trouble = ""  # why the model was not heard
        self.detail = ""  # what the end of the turn says of itself
        self.failed = False  # and nothing was answered
        self.is_spent = False  # no call was made, because of what it might have cost
        self.acted = False
        self.is_between_actions = False
        self._said: list[str] = []

    @property
    def said(self) -> str:
        return "".join(self._said)

    def see(self, events: Sequence[Event]) -> None:
        for event in events:
            self.is_between_actions = isinstance(event.body, ToolResult | TurnFinished)
            match event.body:
                case TextDelta(text):
                    self._said.append(text)
                case StepStarted():
                    self._said.append("\n" if self._said else "")
                case TurnStarted(model=model):
                    self.session, self.model = event.session, model
                case ToolResult(status=status):
                    self.acted = self.acted or status is not ResultStatus.UNKNOWN_TOOL
                case Failed(message=message):
                    self.trouble = message
                case UsageReported(usage=usage):
                    self.context_tokens = usage.total_tokens
                case TurnFinished() as finished:
                    self._finish(finished)
                case _:
                    pass

    def _finish(self, finished: TurnFinished) -> None:
        self.usage, self.detail = finished.usage, finished.detail
        self.is_spent = finished.reason is TurnEnd.COST
        if self.is_spent or finished.reason is TurnEnd.FAILED:
            self.trouble = self.trouble or finished.detail
            self.failed = not self.said.strip()
