"""Percentages in the form that an argument asks for: 5 of "5 %", or 0.05."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from typing import Any

from aish.providers.toolmode.numerals import digits_of, read_number

_PERCENTAGE = re.compile(r"(?<![\d.,])(\d+(?:[.,]\d+)*)\s?(?:%|percent|per cent|prozent|por ciento|pour cent)")
_FRACTION = re.compile(r"decimal|fraction|between 0 and 1|(?<![\d.])0?\.\d+", re.I)
_PERCENT = re.compile(r"per ?cent|%", re.I)
# What is called so and is no whole number is a fraction, unless its description speaks of percent.
_RATE = re.compile(
    r"(?:^|_)(?:rate|interest|yield|probability|ratio|fraction|share)(?:_|$)|[a-z](?:Rate|Yield|Ratio)\b"
)


def percentages(text: str) -> set[float]:
    return {read_number(found) for found in _PERCENTAGE.findall(text)} - {math.nan}


def without_percentages(text: str) -> str:
    return _PERCENTAGE.sub(" ", text)


def in_percent_form(value: float, name: str, schema: Mapping[str, Any], said: Collection[float]) -> float:
    """5 of "5 %" is 0.05 where the tool wants a fraction, and 5 where it wants a percentage. The digits have to be
    those of one percentage that was said; where they are, only their place can be wrong."""
    meant = [number for number in said if digits_of(number) == digits_of(value)]
    if len(meant) != 1 or 1 < value < meant[0]:  # that is another number with the same digits
        return value
    described = str(schema.get("description", ""))
    is_percent = _PERCENT.search(f"{name}: {described}")
    if _FRACTION.search(described) or (value == meant[0] and _RATE.search(name) and not is_percent):
        return _plain(meant[0] / 100) if schema.get("type") == "number" else value
    return _plain(meant[0]) if is_percent else value


def has_digits_of(value: float, said: Collection[float]) -> bool:
    return any(digits_of(number) == digits_of(value) for number in said)


def _plain(value: float) -> float:
    rounded = round(value, 6)
    return int(rounded) if rounded == int(rounded) else rounded
