"""What a turn may do, for the turns that its calls start."""

from __future__ import annotations

import msgspec

from aish.engine.tools.selection import ToolSelection
from aish.engine.turn.events import EventFactory
from aish.ports import Ask, CallerRights, SharedBudget
from aish.types.requests import TurnRequest


class TurnRights(msgspec.Struct, frozen=True):
    """`model` answers in the turn. `caller` is the turn that has started this one, if any."""

    request: TurnRequest
    events: EventFactory
    model: str
    caller: CallerRights | None

    @property
    def session(self) -> str:
        """The session whose approvals count: an agent works in that of its caller."""
        return self.caller.session if self.caller else self.events.session

    def for_child(self, tools: ToolSelection, budget: SharedBudget, ask: Ask | None) -> CallerRights:
        return CallerRights(
            self.request,
            self.session,
            self.events.turn,
            self.model,
            tuple(spec.name for spec in tools.own_specs),
            budget,
            ask,
            self.caller.depth + 1 if self.caller else 1,
        )
