"""Makes the events of one turn: each with its ids, its step and a number without gaps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from aish.types.events import Body, Event

_NS_PER_MS = 1_000_000


class EventFactory(msgspec.Struct, eq=False):
    session: str
    turn: str
    _now_ns: Callable[[], int]
    step: int = 0
    seq: int = 0  # of the last event

    def now_ms(self) -> int:
        return self._now_ns() // _NS_PER_MS

    def events(self, bodies: Sequence[Body]) -> list[Event]:
        """Events that happened at the same moment."""
        session, turn, step = self.session, self.turn, self.step
        first, at_ms = self.seq + 1, self._now_ns() // _NS_PER_MS
        self.seq += len(bodies)
        return [Event(session, turn, seq, at_ms, body, step, "") for seq, body in enumerate(bodies, first)]

    def event(self, body: Body, call: str = "") -> Event:
        self.seq += 1
        return Event(self.session, self.turn, self.seq, self._now_ns() // _NS_PER_MS, body, self.step, call)
