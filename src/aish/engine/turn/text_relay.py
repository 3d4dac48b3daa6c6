"""Relays single words from the socket of the backend to the socket of the client, past the loop.

A model that streams says one word at a time. To pass each of them through the loop, a task has to be woken and half a
dozen generators resumed. So a word that arrives alone is handled in the callback that reads it: it is decoded by the
provider, scanned for tool calls, written to the client, and recorded as an event. It saves a quarter of the cost of
such a word (`python bench/perf_check.py`, row "words").

The plain way is a batch through `Turn.run`. Where `accept` returns False, nothing has happened to the text, and the
provider yields it in a batch. Both ways make the same events, numbers and bytes, which the tests compare:
`tests/engine/turn/test_text_relay.py` and `tests/frontends/http/test_text_relay.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from aish.engine.model.stream_assembly import StepAssembler
from aish.engine.turn.events import EventFactory, Transcript
from aish.ports import TextSink
from aish.types.events import Event, TextDelta


class StepTextRelay:
    """Relays the text of one step. The first word of the step goes through the loop, and so does every word after which
    the text must be checked for repetition."""

    def __init__(
        self,
        sink: TextSink,
        record: Callable[[Event], None],
        step: StepAssembler,
        events: EventFactory,
        transcript: Transcript,
    ) -> None:
        self._is_open, self._write = sink.is_open, sink.write
        self._record = record
        self._step = step
        self._make_event = events.event
        self._add_text = transcript.add_text
        self._scan: Callable[[str], bool] | None = None

    def scan_with(self, passes: Callable[[str], bool]) -> None:
        """From now on text is relayed only if `passes` takes it: then no tool call can begin in it."""
        self._scan = passes

    def accept(self, text: str) -> bool:
        step = self._step
        if not 0 < step.text_chars < step.check_at_chars or not self._is_open():
            return False
        if self._scan is not None and not self._scan(text):
            return False
        self._write(text)
        step.text_chars += len(text)
        self._add_text(text)
        self._record(self._make_event(TextDelta(text)))
        return True
