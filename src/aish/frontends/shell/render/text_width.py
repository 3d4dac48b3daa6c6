"""Measures the columns that text takes on a terminal, and decides where a line may be broken.

Terminals disagree on sequences joined by ZWJ, on flags and on variation selectors. The widest answer is taken: a line
that is broken early is better than one that the terminal breaks itself.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Callable

_JOINER, _EMOJI_STYLE = "\u200d", "\ufe0f"
_OUR_MARKS = frozenset("☐☑●✗∴")
# Closing marks never begin a line, and opening marks never end one.
_NOT_FIRST = frozenset("!,.:;?)]}%'\"…、。，．：；？！）］｝〕〉》」』】’”ー々ぁぃぅぇぉっゃゅょァィゥェォッャュョ")
_NOT_LAST = frozenset("([{（［｛〔〈《「『【‘“")


def width_of(text: str) -> int:
    if text.isascii():
        return len(text)
    total, before = 0, ""
    for char in text:
        total += added_width(char, before)
        before = char
    return total


def added_width(char: str, before: str) -> int:
    """The columns that a character adds after the one before it."""
    if char < "\x7f":
        return 1
    if char == _EMOJI_STYLE:  # drawn wide by some terminals when it follows a narrow sign
        return 1 if before and char_width(before) == 1 else 0
    return char_width(char)


@functools.lru_cache(maxsize=4096)
def char_width(char: str) -> int:
    if char < "\u0300" or "\u2010" <= char <= "\u2027" or "\u2500" <= char <= "\u259f" or char in _OUR_MARKS:
        return 1  # Latin letters, quotes, dashes and boxes do not need the width table
    return max(0, _measure()(char))


@functools.cache
def _measure() -> Callable[[str], int]:
    try:
        from wcwidth import wcwidth
    except ImportError:
        return _estimate_width
    measure: Callable[[str], int] = wcwidth
    return measure


def _estimate_width(char: str) -> int:
    """The width by Python's own Unicode tables, if wcwidth is not installed."""
    if unicodedata.category(char) in ("Mn", "Me", "Cf", "Zl", "Zp") and char != "\u00ad":
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" or _is_flag(char) else 1


def may_break(before: str, char: str) -> bool:
    """Whether a line may end between two characters that are no blanks: only beside a wide character."""
    if char_width(char) == 0 or char in _NOT_FIRST or before in _NOT_LAST or before == _JOINER:
        return False
    if _is_flag(char) or 0x1F3FB <= ord(char) <= 0x1F3FF:  # flags are pairs; skin tones belong to the character before
        return False
    return char_width(char) == 2 or char_width(before) == 2


def _is_flag(char: str) -> bool:
    return 0x1F1E6 <= ord(char) <= 0x1F1FF


def count_fitting(text: str, room: int) -> int:
    """Counts the characters that fit into `room` columns. A combining mark stays with its character."""
    if text.isascii():
        return min(room, len(text))
    used, before = 0, ""
    for at, char in enumerate(text):
        used += added_width(char, before)
        if used > room:
            return _cluster_start(text, at)
        before = char
    return len(text)


def _cluster_start(text: str, at: int) -> int:
    while at > 0 and (char_width(text[at]) == 0 or text[at - 1] == _JOINER):
        at -= 1
    return at
