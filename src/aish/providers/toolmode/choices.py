"""A text beside the choices that its argument's description names: "'miles' or 'kilometers'", "'c' for Celsius".

Where a schema has an enum no other text can be written at all; many have their choices in the description only.
"""

from __future__ import annotations

import re

_QUOTED = re.compile(r"(?<!\w)(['\"`])([^'\"`]{1,40})\1(?!\w)")
_MEANING = re.compile(r"(?<!\w)(['\"`])([^'\"`]{1,40})\1 (?:for|means) (\w+)", re.I)
# Choices stand beside each other; what is quoted here and there may be anything.
_BESIDE = re.compile(r"(['\"`])(?: ?[,/|] ?| ?,? (?:or|and) )(?:or |and )?['\"`]")
# Of these there may be more than are named, or all but these.
_EXAMPLES = re.compile(
    r"\b(?:e\.?g|such as|for example|for instance|like|etc|not|without|except)\b|\bdefault '\w+',", re.I
)
_MIN_CHARS = 3  # shorter ones begin too many words
# jsonl is no form of json, and a pineapple no pine.
_ENDINGS = frozenset(("s", "es", "d", "ed", "ing", "ly", "al"))
_SHORT = frozenset(
    ("ascending asc", "descending desc", "minimum min", "maximum max", "integer int", "string str", "boolean bool")
)
_MAX_DESCRIPTION_CHARS = 1000


def chosen(value: str, said: str) -> str:
    """The one choice that the value is another form of, or what stands for it; the value where that is not sure."""
    said = said[:_MAX_DESCRIPTION_CHARS]
    choices = list(dict.fromkeys(text for _, text in _QUOTED.findall(said)))
    folded = value.strip().casefold()
    if len(choices) < 2 or any(folded == choice.casefold() for choice in choices):
        return value
    meant = {choice for _, choice, meaning in _MEANING.findall(said) if meaning.casefold() == folded}
    if not meant and _BESIDE.search(said) and not _EXAMPLES.search(said):
        meant = {choice for choice in choices if _is_form(choice.casefold(), folded)}
        if sum(choice.casefold().startswith(folded) for choice in choices) > 1:
            return value
    return meant.pop() if len(meant) == 1 else value


def _is_form(one: str, other: str) -> bool:
    """mile and miles, ascending and asc."""
    short, long = sorted((one, other), key=len)
    if len(short) < _MIN_CHARS or not long.startswith(short):
        return False
    return long[len(short) :] in _ENDINGS or f"{long} {short}" in _SHORT
