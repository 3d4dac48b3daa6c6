"""Collects from the events of a turn what it answered, did and cost."""

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


class TurnSummary:
    def __init__(self) -> None:
        self.session = ""
        self.model = ""
        self.usage = Usage()
        self.context_tokens = 0
        self.error = ""  # why the model could not be asked or did not answer
        self.end_detail = ""  # what the end of the turn says about itself
        self.has_failed = False  # without any text
        self.is_over_budget = False  # no call was made, because of what it might have cost
        self.has_acted = False  # a tool was called that exists
        self.is_between_actions = False
        self._texts: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._texts)

    def add(self, events: Sequence[Event]) -> None:
        for event in events:
            self.is_between_actions = isinstance(event.body, ToolResult | TurnFinished)
            match event.body:
                case TextDelta(text):
                    self._texts.append(text)
                case StepStarted():
                    self._texts.append("\n" if self._texts else "")
                case TurnStarted(model=model):
                    self.session, self.model = event.session, model
                case ToolResult(status=status):
                    self.has_acted = self.has_acted or status is not ResultStatus.UNKNOWN_TOOL
                case Failed(message=message):
                    self.error = message
                case UsageReported(usage=usage):
                    self.context_tokens = usage.total_tokens
                case TurnFinished() as finished:
                    self._finish(finished)
                case _:
                    pass

    def fail(self, error: str) -> None:
        """The turn could not be run to its end."""
        self.error = error

    def _finish(self, finished: TurnFinished) -> None:
        self.usage, self.end_detail = finished.usage, finished.detail
        self.is_over_budget = finished.reason is TurnEnd.COST
        if self.is_over_budget or finished.reason is TurnEnd.FAILED:
            self.error = self.error or finished.detail
            self.has_failed = not self.text.strip()
