"""Texts that were copied too short or too long: a quotation that was broken off, a town with its country.

Knows nothing of tools. Where it is not sure, a text stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# An apostrophe has letters on both sides, a quotation mark has none on one.
_QUOTED = re.compile(r"(?<!\w)'((?:[^']|(?<=\w)'(?=\w))+)'(?!\w)|\"([^\"]+)\"|“([^“”]+)”")
# Of a quotation these are the whole; a title, a name or a program may be its beginning.
_PROSE = re.compile(
    r"(?:^|[/_])(?:text|message|body|content|sentence|review|passage|paragraph|quote|comment|input)s?$", re.I
)
_MIN_WORDS = 4  # of what is quoted: shorter ones are names and paths, whose beginnings may be meant
_TOWN = re.compile(r"(?:^|_)(?:city|town|location|place)$", re.I)
_LAND = re.compile(r"(?:^|_)(?:country|state|province|region|county)$", re.I)
_WITH_LAND = re.compile(r",|\b(?:country|state|full|address)\b", re.I)
_LEFT_SIDE = re.compile(r"\s*(?:y|[a-z]\s*\(\s*[a-z]\s*\))\s*=(?!=)\s*", re.I)
_BOTH_SIDES = re.compile(r"=|\bequation|\bdefin|\bsides\b", re.I)
_FUNCTION = re.compile(r"func(?:tion)?s?\d*$", re.I)


def whole_quotation(value: str, name: str, request: str) -> str:
    """All of the one quotation in the request that begins with the value, where the argument wants prose."""
    begun = value.strip()
    if not begun or not _PROSE.search(name):
        return value
    quoted = {next(filter(None, found)).strip() for found in _QUOTED.findall(request)}
    longer = [text for text in quoted if text.startswith(begun) and len(text.split()) >= _MIN_WORDS]
    return longer[0] if len(longer) == 1 and begun not in quoted else value


def right_side(value: str, name: str, said: str) -> str:
    """x^2 of "y = x^2", where a function is wanted: its name is no part of it, unless the description says so."""
    if not _FUNCTION.search(name) or _BOTH_SIDES.search(said):
        return value
    found = _LEFT_SIDE.match(value)
    return (value[found.end() :] if found else value) or value


def without_others(value: str, name: str, said: str, others: Mapping[str, Any]) -> str:
    """Tokyo of "Tokyo, Japan", where another argument says Japan. Other texts may have both: an address, a greeting."""
    first, comma, last = value.rpartition(", ")
    if not comma or not _TOWN.search(name) or _WITH_LAND.search(said):
        return value
    return first if any(_LAND.search(key) and other == last for key, other in others.items()) else value
