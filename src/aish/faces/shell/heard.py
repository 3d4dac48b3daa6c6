"""What a turn said and cost, for the shell to go on from."""

from __future__ import annotations

from collections.abc import Sequence

from aish.types.events import Event, Failed, StepStarted, TextDelta, TurnEnd, TurnFinished, TurnStarted, UsageReported
from aish.types.usage import Usage


class Heard:
    def __init__(self) -> None:
        self.session = ""
        self.model = ""
        self.usage = Usage()
        self.context_tokens = 0
        self.failed = False
        self.trouble = ""  # why there is no answer
        self._said: list[str] = []

    @property
    def said(self) -> str:
        return "".join(self._said)

    def see(self, events: Sequence[Event]) -> None:
        for event in events:
            match event.body:
                case TextDelta(text):
                    self._said.append(text)
                case StepStarted():
                    self._said.append("\n" if self._said else "")
                case TurnStarted(model=model):
                    self.session, self.model = event.session, model
                case Failed(message=message):
                    self.trouble = message
                case UsageReported(usage=usage):
                    self.context_tokens = usage.total_tokens
                case TurnFinished(reason, usage, detail):
                    self.trouble = self.trouble or detail
                    self.usage = usage
                    self.failed = reason in (TurnEnd.FAILED, TurnEnd.COST) and not self.said.strip()
                case _:
                    pass
