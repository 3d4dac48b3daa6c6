"""Makes a response's stream again from the recorded events of its turns."""

from __future__ import annotations

from collections.abc import Sequence

from aish.engine.turn.events import Transcript
from aish.frontends.http.openai.responses.encoder import ResponseEncoder
from aish.ports import Store
from aish.types.events import Event, Status, TurnFinished, TurnStarted, decode_event


class StreamReplay:
    """Each `read` continues after the events read before. `transcript` has the messages that were produced."""

    def __init__(self, store: Store, stream: ResponseEncoder) -> None:
        self.stream = stream
        self.transcript = Transcript()
        self._store = store
        self._seen: dict[str, int] = {}

    async def read(self, turns: Sequence[str]) -> bytes:
        pieces: list[bytes] = []
        for index, turn in enumerate(turns):
            lines = await self._store.read_events(turn, after_seq=self._seen.get(turn, 0))
            if events := [decode_event(line) for line in lines.splitlines()]:
                self._seen[turn] = events[-1].seq
                approved = self.stream.setup.approved and index == 0
                pieces.append(self.stream.encode(self._fold(without_turn_end(events) if approved else events)))
        return b"".join(pieces)

    def _fold(self, events: Sequence[Event]) -> Sequence[Event]:
        for event in events:
            if not isinstance(event.body, TurnStarted):
                self.transcript.apply(self.stream.setup.as_known(event))
        return events


def without_turn_end(events: Sequence[Event]) -> list[Event]:
    """For a turn that only runs approved calls: its end is not the end of the response."""
    return [event for event in events if not isinstance(event.body, TurnFinished | Status)]


def slice_events(data: bytes, first: int, upto: int | None) -> bytes:
    """The events from `first` up to `upto`, which is not included."""
    chosen = data.split(b"\n\n")[:-1][first:upto]
    return b"".join(event + b"\n\n" for event in chosen)
