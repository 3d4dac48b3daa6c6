"""Secrets that a model says in pieces, a word at a time, none of which tells anything: they are found in what the
pieces are together. So what may be the beginning of one is not written before it is known how it goes on."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

import msgspec

from aish.safety.redaction.redactor import Redactor
from aish.types.events import ArgumentsDelta, Event, ReasoningDelta, Status, TextDelta, ToolCallStarted

_PIECES = (TextDelta, ReasoningDelta, ArgumentsDelta)
_GOES_ON = (*_PIECES, Status, ToolCallStarted)  # after which a text of the same step may go on
# Events of other texts that one may be interrupted by. After more of them it is taken to have ended: what was thought
# may end like the beginning of a key, and is not to hold back the whole answer.
_MAX_BETWEEN = 16


def without_secrets(events: Sequence[Event], redactor: Redactor) -> Sequence[Event]:
    """As many. Of a secret that several have pieces of, the first has the mark and the others nothing."""
    told = list(events)
    for places, pieces in _streams(events):
        for place, old, new in zip(places, pieces, redactor.pieces(pieces), strict=True):
            if new != old:
                body = events[place].body
                is_text = isinstance(body, TextDelta)  # what is told of its tokens spells the secret, too
                body = TextDelta(new) if is_text else msgspec.structs.replace(body, text=new)
                told[place] = msgspec.structs.replace(events[place], body=body)
    return told


def count_writable(events: Sequence[Event], redactor: Redactor) -> int:
    """How many can be written: all, unless they end with what may be the beginning of a secret."""
    last, count = events[-1], len(events)
    if type(last.body) not in _GOES_ON:
        return count
    said: dict[tuple[type, str], list[int]] = {}  # by kind and call: several may be told side by side
    for place, event in enumerate(events):
        if type(event.body) in _PIECES and event.step == last.step:
            said.setdefault((type(event.body), event.call), []).append(place)
    recent = [places for places in said.values() if places[-1] >= count - _MAX_BETWEEN]
    open_at = min((_first_open(events, places, count, redactor) for places in recent), default=count)
    while open_at < count:
        count = open_at  # where any other may be open, though it is not any more at the end
        cut = [places for places in said.values() if _is_cut(events, places, count, redactor)]
        open_at = min((_first_open(events, places, count, redactor) for places in cut), default=count)
    return count


def _is_cut(events: Sequence[Event], places: Sequence[int], at: int, redactor: Redactor) -> bool:
    """Whether a secret goes across: then its parts tell more than the whole does."""
    words: list[str] = [events[place].body.text for place in places]  # type: ignore[union-attr]
    count = bisect_left(places, at)
    before, after = "".join(words[:count]), "".join(words[count:])
    return redactor.text(before) + redactor.text(after) != redactor.text(before + after)


def _first_open(events: Sequence[Event], places: Sequence[int], before: int, redactor: Redactor) -> int:
    """Of one text in pieces, as far as it goes there."""
    places = [place for place in places if place < before]
    pieces: list[str] = [events[place].body.text for place in places]  # type: ignore[union-attr]
    open_chars = redactor.open_chars("".join(pieces))
    first = before
    while open_chars > 0:
        first = places.pop()
        open_chars -= len(pieces.pop())
    return first


def _streams(events: Sequence[Event]) -> Iterable[tuple[Sequence[int], Sequence[str]]]:
    """What is one text in pieces, an answer, a thought or the arguments of a call: where the pieces are, and they."""
    streams: dict[tuple[type, int, str], tuple[list[int], list[str]]] = {}
    for place, event in enumerate(events):
        if isinstance(body := event.body, _PIECES):
            places, pieces = streams.setdefault((type(body), event.step, event.call), ([], []))
            places.append(place)
            pieces.append(body.text)
    return streams.values()
