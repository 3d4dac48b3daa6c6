"""Writes the envelope of every event of one turn: ids, step, and a number without gaps."""

from __future__ import annotations

from collections.abc import Sequence

from aish.ports import Clock
from aish.types.events import Body, Event


class Scribe:
    def __init__(self, session: str, turn: str, clock: Clock, *, last_seq: int = 0) -> None:
        self.session = session
        self.turn = turn
        self.step = 0
        self._seq = last_seq
        self.now_ms = clock.now_ms

    def events(self, bodies: Sequence[Body]) -> list[Event]:
        """Of what came together."""
        session, turn, step, first, at_ms = self.session, self.turn, self.step, self._seq + 1, self.now_ms()
        self._seq += len(bodies)
        return [Event(session, turn, seq, at_ms, body, step, "") for seq, body in enumerate(bodies, first)]

    def event(self, body: Body, call: str = "") -> Event:
        self._seq += 1
        return Event(self.session, self.turn, self._seq, self.now_ms(), body, self.step, call)
