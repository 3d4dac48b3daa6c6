"""Finds the commands that a mistyped word is one slip away from: two letters swapped, one lost, added or changed.

Unlike the repair of a model's tool names, it only offers: a person decides. The first letter counts as typed, except in
a swap, since other words differ there. Plurals are words, not slips.
"""

from __future__ import annotations

import functools
import re
import string
from collections.abc import Iterator

_LETTERS = string.ascii_lowercase + string.digits + "-_"
# Shorter words are similar to too many.
_MIN_CHARS_TO_GAIN_ONE = 3
_MIN_CHARS = 4
_MAX_CHARS = 16
_MAX_FOUND = 3
_JOINED = re.compile(r"([a-z]\w+)(\.\.|-[A-Za-z]+)")  # `cd..`, `ls-la`


@functools.lru_cache(maxsize=256)
def find_near_names(word: str, names: frozenset[str]) -> tuple[str, ...]:
    """At most three names, swaps first. Tries the words that one slip makes, which takes 100 µs once a word."""
    if len(word) > _MAX_CHARS:
        return ()
    if (joined := _JOINED.fullmatch(word)) and joined[1] in names:
        return (f"{joined[1]} {joined[2]}",)
    found = dict.fromkeys(each for each in _slips_of(word) if each in names)
    return tuple(each for each in found if each != word)[:_MAX_FOUND]


def correct_line(line: str, word: str, names: frozenset[str]) -> tuple[str, str] | None:
    """The name that was probably meant by the first word of a line, and the line with it."""
    near = find_near_names(word, names)
    return (near[0], line.replace(word, near[0], 1)) if near else None


def _slips_of(word: str) -> Iterator[str]:
    cuts = range(1, len(word))
    for at in cuts:
        yield f"{word[: at - 1]}{word[at]}{word[at - 1]}{word[at + 1 :]}"
    if len(word) < _MIN_CHARS_TO_GAIN_ONE:
        return
    for at in (*cuts, len(word)):
        for letter in _LETTERS:
            yield f"{word[:at]}{letter}{word[at:]}"
    if len(word) < _MIN_CHARS:
        return
    for at in cuts:
        if at < len(word) - 1 or word[at] != "s":
            yield word[:at] + word[at + 1 :]
        for letter in _LETTERS:
            yield f"{word[:at]}{letter}{word[at + 1 :]}"
