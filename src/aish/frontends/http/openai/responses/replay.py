"""A response's stream, made again from the recorded events of its turns."""

from __future__ import annotations

from collections.abc import Sequence

from aish.engine.turn.transcript import Transcript
from aish.frontends.http.openai.responses.encoder import ResponseStream
from aish.ports import Store
from aish.types.events import Event, Status, TurnFinished, TurnStarted, decode_event


class Again:
    """Goes on where it was when it read last. `transcript` has the messages that were produced."""

    def __init__(self, store: Store, stream: ResponseStream) -> None:
        self.stream = stream
        self.transcript = Transcript()
        self._store = store
        self._seen: dict[str, int] = {}

    async def read(self, turns: Sequence[str]) -> bytes:
        pieces: list[bytes] = []
        for place, turn in enumerate(turns):
            lines = await self._store.read_events(turn, after_seq=self._seen.get(turn, 0))
            if events := [decode_event(line) for line in lines.splitlines()]:
                self._seen[turn] = events[-1].seq
                approved = self.stream.setup.approved and place == 0
                pieces.append(self.stream.encode(self._fold(without_end(events) if approved else events)))
        return b"".join(pieces)

    def _fold(self, events: Sequence[Event]) -> Sequence[Event]:
        for event in events:
            if not isinstance(event.body, TurnStarted):
                self.transcript.apply(self.stream.setup.as_known(event))
        return events


def without_end(events: Sequence[Event]) -> list[Event]:
    """Of a turn that only runs what was approved: its end is not the response's."""
    return [event for event in events if not isinstance(event.body, TurnFinished | Status)]


def cut(data: bytes, first: int, upto: int | None) -> bytes:
    """Of these events, those from `first` up to, not with, `upto`."""
    chosen = data.split(b"\n\n")[:-1][first:upto]
    return b"".join(event + b"\n\n" for event in chosen)
