"""What one step of work towards a goal said and did."""

from __future__ import annotations

from collections.abc import Sequence

from aish.types.events import Event, Failed, StepStarted, TextDelta, ToolResult, TurnEnd, TurnFinished, TurnStarted
from aish.types.tools import ResultStatus


class Heard:
    def __init__(self) -> None:
        self.session = ""
        self.trouble = ""
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
                case TurnStarted():
                    self.session = event.session
                case StepStarted():
                    self._said.append("\n" if self._said else "")
                case TextDelta(text):
                    self._said.append(text)
                case ToolResult(status=status):
                    self.acted = self.acted or status is not ResultStatus.UNKNOWN_TOOL
                case Failed(message=message):
                    self.trouble = message
                case TurnFinished(reason, _, detail) if reason in (TurnEnd.FAILED, TurnEnd.COST):
                    self.trouble = self.trouble or detail
                    self.is_spent = reason is TurnEnd.COST
                case _:
                    pass
