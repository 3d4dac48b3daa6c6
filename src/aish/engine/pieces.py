"""Secrets that a model says in pieces, a word at a time, none of which tells anything: they are found in what the
pieces are together, as far as these are written together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from aish.safety.redact import Redactor
from aish.types.events import ArgumentsDelta, Event, ReasoningDelta, TextDelta

_PIECES = (TextDelta, ReasoningDelta, ArgumentsDelta)


def without_secrets(events: Sequence[Event], redactor: Redactor) -> Sequence[Event]:
    """As many. Of a secret that several have pieces of, the first has the mark and the others nothing."""
    told = list(events)
    for places, pieces in _streams(events):
        for place, old, new in zip(places, pieces, redactor.pieces(pieces), strict=True):
            if new != old:
                body = msgspec.structs.replace(events[place].body, text=new)
                told[place] = msgspec.structs.replace(events[place], body=body)
    return told


def _streams(events: Sequence[Event]) -> Iterable[tuple[Sequence[int], Sequence[str]]]:
    """What is one text in pieces, an answer, a thought or the arguments of a call: where the pieces are, and they."""
    streams: dict[tuple[type, int, str], tuple[list[int], list[str]]] = {}
    for place, event in enumerate(events):
        if isinstance(body := event.body, _PIECES):
            places, pieces = streams.setdefault((type(body), event.step, event.call), ([], []))
            places.append(place)
            pieces.append(body.text)
    return streams.values()
