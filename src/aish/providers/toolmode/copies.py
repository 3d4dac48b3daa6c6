"""Texts that were copied too short or too long: a quotation that was broken off, a town with its country.

Knows nothing of tools. Where it is not sure, a text stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

# An apostrophe has letters on both sides, a quotation mark has none on one.
_QUOTED = re.compile(r"(?<!\w)'(.{1,2000}?)'(?!\w)|\"([^\"]{1,2000})\"|“([^”]{1,2000})”", re.S)
_MIN_WORDS = 4  # of what is quoted: shorter ones are names and paths, whose beginnings may be meant
_LEFT_SIDE = re.compile(r"\s*(?:y|[a-z]\s*\(\s*[a-z]\s*\))\s*=(?!=)\s*", re.I)
_FUNCTION = re.compile(r"func(?:tion)?s?\d*$", re.I)


def whole_quotation(value: str, request: str) -> str:
    """All of the one quotation in the request that begins with the value."""
    begun = value.strip()
    if not begun:
        return value
    quoted = {next(filter(None, found)).strip() for found in _QUOTED.findall(request)}
    longer = [text for text in quoted if text.startswith(begun) and len(text.split()) >= _MIN_WORDS]
    return longer[0] if len(longer) == 1 and begun not in quoted else value


def right_side(value: str, name: str) -> str:
    """x^2 of "y = x^2", where a function is wanted: its name is no part of it."""
    if not _FUNCTION.search(name):
        return value
    return _LEFT_SIDE.sub("", value, count=1) or value


def without_others(value: str, others: Iterable[Any]) -> str:
    """Tokyo of "Tokyo, Japan", where another argument says Japan."""
    first, comma, last = value.rpartition(", ")
    return first if comma and any(isinstance(other, str) and other == last for other in others) else value
