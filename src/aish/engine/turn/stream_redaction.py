"""Redacts secrets that a model writes in several pieces.

No piece alone holds the secret, so the pieces are joined. Text that may be the beginning of a secret is not written
before it is known how it goes on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

import msgspec

from aish.safety.redaction.redactor import Redactor
from aish.types.events import ArgumentsDelta, Event, ReasoningDelta, Status, TextDelta, ToolCallStarted

_PIECES = (TextDelta, ReasoningDelta, ArgumentsDelta)
_GOES_ON = (*_PIECES, Status, ToolCallStarted)  # after these, a text of the same step may go on
# A text that was interrupted by more events than this is taken to have ended. Reasoning may end like the beginning of a
# key, and must not hold back the whole answer.
_MAX_BETWEEN = 16


def redact_events(events: Sequence[Event], redactor: Redactor) -> Sequence[Event]:
    """The events with secrets replaced, as many. Of a secret in several pieces, the first piece has the mark and the
    others are empty."""
    redacted = list(events)
    for places, pieces in _streams(events):
        for place, old, new in zip(places, pieces, redactor.pieces(pieces), strict=True):
            if new != old:
                body = events[place].body
                is_text = isinstance(body, TextDelta)  # its logprobs would spell the secret
                body = TextDelta(new) if is_text else msgspec.structs.replace(body, text=new)
                redacted[place] = msgspec.structs.replace(events[place], body=body)
    return redacted


def count_writable(events: Sequence[Event], redactor: Redactor) -> int:
    """How many events can be written: all, unless they end with what may be the beginning of a secret."""
    last, count = events[-1], len(events)
    if type(last.body) not in _GOES_ON:
        return count
    streams: dict[tuple[type, str], list[int]] = {}  # by kind and call, since several may alternate
    for place, event in enumerate(events):
        if type(event.body) in _PIECES and event.step == last.step:
            streams.setdefault((type(event.body), event.call), []).append(place)
    recent = [places for places in streams.values() if places[-1] >= count - _MAX_BETWEEN]
    open_at = min((_first_open(events, places, count, redactor) for places in recent), default=count)
    while open_at < count:
        count = open_at  # another text may be open at this index
        cut = [places for places in streams.values() if _is_cut(events, places, count, redactor)]
        open_at = min((_first_open(events, places, count, redactor) for places in cut), default=count)
    return count


def _is_cut(events: Sequence[Event], places: Sequence[int], at: int, redactor: Redactor) -> bool:
    """Whether a secret crosses this index. Then its parts would show more than the whole."""
    words: list[str] = [events[place].body.text for place in places]  # type: ignore[union-attr]
    count = bisect_left(places, at)
    before, after = "".join(words[:count]), "".join(words[count:])
    return redactor.text(before) + redactor.text(after) != redactor.text(before + after)


def _first_open(events: Sequence[Event], places: Sequence[int], before: int, redactor: Redactor) -> int:
    """The index of the first piece that belongs to an open secret in this text."""
    places = [place for place in places if place < before]
    pieces: list[str] = [events[place].body.text for place in places]  # type: ignore[union-attr]
    open_chars = redactor.open_chars("".join(pieces))
    first = before
    while open_chars > 0:
        first = places.pop()
        open_chars -= len(pieces.pop())
    return first


def _streams(events: Sequence[Event]) -> Iterable[tuple[Sequence[int], Sequence[str]]]:
    """Groups the pieces of each text: an answer, reasoning, or the arguments of a call. Yields indices and pieces."""
    streams: dict[tuple[type, int, str], tuple[list[int], list[str]]] = {}
    for place, event in enumerate(events):
        if isinstance(body := event.body, _PIECES):
            places, pieces = streams.setdefault((type(body), event.step, event.call), ([], []))
            places.append(place)
            pieces.append(body.text)
    return streams.values()
