"""Finds the one existing name that a model meant with the name it wrote.

Case, separators and invisible characters are ignored. Beyond that, one slip in one word of the name is corrected if
only one name is that similar: two neighbours swapped, a letter doubled or not doubled, one letter lost inside a longer
word, or a plural. A slip never changes a letter into another one, the first letter of a word, a digit, or the number of
words, since that is how opposites differ: `delete` and `undelete`, `encode` and `decode`, `date` and `data`. A common
word is never a slip for another one: `from` is not `form`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from aish.tool_calls.repair.common_words import COMMON_WORDS
from aish.tool_calls.repair.lenient_json import INVISIBLE

_MIN_CHARS = 4  # shorter names are all similar to each other
_LONG_CHARS = 12
_MIN_WORD_CHARS = 4  # of a word with two swapped letters, or of a plural
_MIN_CHARS_TO_LOSE_ONE = 6  # shorter words become other words without a letter: `world`, `first`, `spend`
_SEPARATORS = re.compile(r"[^\w]+|_+", re.UNICODE)
_INVISIBLE = re.compile(f"[{INVISIBLE}]")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# Namespaces that some chat templates put before a function.
_PREFIXES = ("functions.", "function.", "tools.", "tool.", "default_api.", "api.")


def find_similar(name: str, names: Iterable[str]) -> str | None:
    """Returns the name that is meant, or None if there is none or more than one."""
    names = list(names)
    if name in names:
        return name
    bare = without_prefix(_INVISIBLE.sub("", name).strip())
    return _find_same(bare, names) or _find_by_ending(bare, names) or _find_misspelt(bare, names)


def list_similar(name: str, names: Iterable[str]) -> list[str]:
    """All names that may be meant by a misspelt one: enough to ask back, too little to run."""
    return [known for known in names if _is_similar(name, known)]


def without_prefix(name: str) -> str:
    """`functions.add` is `add`."""
    return next((name[len(prefix) :] for prefix in _PREFIXES if name.startswith(prefix) and name != prefix), name)


def _find_same(name: str, names: list[str]) -> str | None:
    """The same except for case and separators."""
    plain = "".join(_words(name))
    same = [known for known in names if "".join(_words(known)) == plain] if plain else []
    return same[0] if len(same) == 1 else None


def _find_by_ending(name: str, names: list[str]) -> str | None:
    """Without its source: `add` for `runtime__add`."""
    if not name or "__" in name:
        return None
    ends = [known for known in names if _words(known.rpartition("__")[2]) == _words(name) and "__" in known]
    return ends[0] if len(ends) == 1 else None


def _find_misspelt(name: str, names: list[str]) -> str | None:
    similar = list_similar(name, names)
    return similar[0] if len(similar) == 1 and _is_slip(_words(name), _words(similar[0])) else None


@lru_cache(maxsize=2048)
def _words(name: str) -> tuple[str, ...]:
    parts = _SEPARATORS.split(_INVISIBLE.sub("", name))
    return tuple(word.lower() for part in parts for word in _HUMP.split(part) if word)


def _is_similar(written: str, known: str) -> bool:
    one, other = "".join(_words(written)), "".join(_words(known))
    if one == other:
        return True
    if len(other) < _MIN_CHARS or len(one) < _MIN_CHARS - 1 or abs(len(one) - len(other)) > 2:
        return False
    return _edits(one, other) <= (2 if len(other) >= _LONG_CHARS else 1)


def _is_slip(ours: tuple[str, ...], theirs: tuple[str, ...]) -> bool:
    if "".join(ours) == "".join(theirs):
        return True
    differing = [(one, other) for one, other in zip(ours, theirs, strict=False) if one != other]
    return len(ours) == len(theirs) and len(differing) == 1 and _is_slip_of_word(*differing[0])


def _is_slip_of_word(written: str, meant: str) -> bool:
    if _is_plural(written, meant) or _is_plural(meant, written):
        return True
    if written in COMMON_WORDS or written[0] != meant[0] or _digits(written) != _digits(meant):
        return False
    return (
        _has_swapped(written, meant)
        or _has_lost(written, meant, doubled=False)
        or any(_has_lost(one, other, doubled=True) for one, other in ((written, meant), (meant, written)))
    )


def _is_plural(one: str, other: str) -> bool:
    return one == f"{other}s" and len(other) >= _MIN_WORD_CHARS


def _has_swapped(one: str, other: str) -> bool:
    """Two neighbours are swapped, neither of them the first letter."""
    if len(one) != len(other) or len(one) < _MIN_WORD_CHARS:
        return False
    at = [index for index, (left, right) in enumerate(zip(one, other, strict=True)) if left != right]
    return len(at) == 2 and at[1] == at[0] + 1 and one[at[0]] == other[at[1]] and one[at[1]] == other[at[0]]


def _has_lost(short: str, long: str, *, doubled: bool) -> bool:
    """One letter is missing: one of two equal ones, or one inside of a longer word. At the beginning or the end it
    would be another word (`star` and `start`)."""
    if len(short) != len(long) - 1:
        return False
    at = next((index for index, letter in enumerate(short) if letter != long[index]), len(short))
    if short[at:] != long[at + 1 :]:
        return False
    if doubled:
        return at > 1 and long[at] == long[at - 1]
    return len(long) >= _MIN_CHARS_TO_LOSE_ONE and 2 <= at < len(short)


def _digits(text: str) -> str:
    return "".join(char for char in text if char.isdigit())


def _edits(one: str, other: str) -> int:
    """The number of letters added, lost, changed, or swapped with their neighbour."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, left in enumerate(one, 1):
        older, before, row = before, row, [i]
        for j, right in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (left != right))
            if i > 1 and j > 1 and left == other[j - 2] and one[i - 2] == right:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
    return row[-1]
