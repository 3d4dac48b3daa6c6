"""How many columns text takes on a terminal, and where a line of it may be broken.

Where terminals disagree (sequences joined by ZWJ, flags, variation selectors) the widest answer is taken: a line
that is broken early is better than one that the terminal breaks itself.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Callable

_JOINER, _EMOJI_STYLE = "\u200d", "\ufe0f"
_OUR_MARKS = frozenset("☐☑●✗∴")
# Never first on a line, and never last: closing and opening marks, so that they stay with what they belong to.
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
    """Columns that this character adds after that one."""
    if char < "\x7f":
        return 1
    if char == _EMOJI_STYLE:  # drawn wide by some terminals when it follows a narrow sign
        return 1 if before and char_width(before) == 1 else 0
    return char_width(char)


@functools.lru_cache(maxsize=4096)
def char_width(char: str) -> int:
    if char < "\u0300" or "\u2010" <= char <= "\u2027" or "\u2500" <= char <= "\u259f" or char in _OUR_MARKS:
        return 1  # Latin letters, quotes and dashes, boxes: nothing that a table has to be loaded for
    return max(0, _measure()(char))


@functools.cache
def _measure() -> Callable[[str], int]:
    try:
        from wcwidth import wcwidth
    except ImportError:
        return _interpreters_width
    measure: Callable[[str], int] = wcwidth
    return measure


def _interpreters_width(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf", "Zl", "Zp") and char != "\u00ad":
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" or _is_flag(char) else 1


def may_break(before: str, char: str) -> bool:
    """Whether a line may end between these two, neither of them a blank: beside wide characters it may."""
    if char_width(char) == 0 or char in _NOT_FIRST or before in _NOT_LAST or before == _JOINER:
        return False
    if _is_flag(char) or 0x1F3FB <= ord(char) <= 0x1F3FF:  # flags are pairs; tones colour what is before them
        return False
    return char_width(char) == 2 or char_width(before) == 2


def _is_flag(char: str) -> bool:
    return 0x1F1E6 <= ord(char) <= 0x1F1FF


def cut(text: str, room: int) -> int:
    """How many characters of the text fit into that many columns; a mark is not parted from what it belongs to."""
    if text.isascii():
        return min(room, len(text))
    used, before = 0, ""
    for at, char in enumerate(text):
        used += added_width(char, before)
        if used > room:
            return _whole(text, at)
        before = char
    return len(text)


def _whole(text: str, at: int) -> int:
    while at > 0 and (char_width(text[at]) == 0 or text[at - 1] == _JOINER):
        at -= 1
    return at
