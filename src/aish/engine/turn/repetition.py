"""Notices a model that says the same thing over and over, as small ones do until their window is full. Pure."""

from __future__ import annotations

# Looked at now and then: an answer that goes round is cut soon enough, and looking costs nothing beside streaming.
LOOK_CHARS = 300
# So much of nothing but the same words is no answer any more, of a small model, which often falls into it: a screen is
# 2000 characters. Long rules stay well below.
LOOP_CHARS = 900
# From a model that can be trusted: pages of the same row may be what was asked for.
LONG_LOOP_CHARS = 60_000
_LONGEST_PERIOD = 300
_MARK = 60


def goes_round(text: str, chars: int = LOOP_CHARS) -> bool:
    """Whether the end of it, so much of it, is one short piece, repeated to the letter."""
    tail = text[-chars:]
    if len(tail) < chars:
        return False
    before = tail.rfind(tail[-_MARK:], 0, len(tail) - 1)
    period = len(tail) - _MARK - before
    return before >= 0 and period <= _LONGEST_PERIOD and tail[period:] == tail[:-period]
