"""Numbers in the unit that an argument asks for: "5 minutes" where it wants seconds, "50 mH" where it wants henries.

Only a number that the request has beside one unit, as it stands, is converted: another may have been already. Units
that differ by more than a factor are not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from aish.providers.toolmode.numerals import read_number


class Unit(NamedTuple):
    dimension: str
    factor: Fraction


_MILLI, _CENTI, _DECI = Fraction(1, 1000), Fraction(1, 100), Fraction(1, 10)
# Symbol, names, and what one is of the first in its row of a dimension.
_ROWS: dict[str, tuple[tuple[str, str, Fraction | int], ...]] = {
    "time": (
        ("ms", "millisecond milliseconds", _MILLI), ("s", "second seconds sec secs", 1),
        ("min", "minute minutes mins", 60), ("h", "hour hours hr hrs", 3600), ("", "day days", 86400),
        ("", "week weeks", 604800),
    ),
    "length": (
        ("mm", "millimeter millimeters millimetre millimetres", _MILLI),
        ("cm", "centimeter centimeters centimetre centimetres", _CENTI), ("m", "meter meters metre metres", 1),
        ("km", "kilometer kilometers kilometre kilometres", 1000),
    ),
    "mass": (("mg", "milligram milligrams", _MILLI), ("g", "gram grams", 1), ("kg", "kilogram kilograms kilos", 1000)),
    "volume": (
        ("ml", "milliliter milliliters millilitre millilitres", _MILLI), ("cl", "", _CENTI), ("dl", "", _DECI),
        ("l", "liter liters litre litres", 1),
    ),
}  # fmt: skip
_ELECTRIC = (
    ("F", "farad", "farads"), ("H", "henry", "henries"), ("V", "volt", "volts"), ("A", "ampere", "amperes"),
    ("W", "watt", "watts"), ("Hz", "hertz", "hertz"), ("Ω", "ohm", "ohms"),
)  # fmt: skip
_PREFIXES = (
    ("p", "pico", -12), ("n", "nano", -9), ("µ", "micro", -6), ("μ", "micro", -6), ("u", "micro", -6),
    ("m", "milli", -3), ("", "", 0), ("k", "kilo", 3), ("M", "mega", 6), ("G", "giga", 9),
)  # fmt: skip


def _known() -> Iterator[tuple[str, Unit]]:
    for dimension, rows in _ROWS.items():
        for symbol, names, factor in rows:
            for text in filter(None, (symbol, *names.split())):
                yield text, Unit(dimension, Fraction(factor))
    for symbol, one, many in _ELECTRIC:
        for prefix, long, power in _PREFIXES:
            for text in (prefix + symbol, long + one, long + many):
                yield text, Unit(one, Fraction(10) ** power)


_UNITS = dict(_known())
_AMOUNT = re.compile(r"(?<![\w.,])(\d+(?:[.,]\d+)*)(?:\s*-?\s*([^\W\d_]+))?")
_WORD = re.compile(r"[^\W\d_]+")
_SYMBOL = re.compile(r"(?:\bin |\(|, )([^\W\d_]{1,2})\b")
_ROUNDING = 1e-9
_BY = re.compile(r"\bper\b|/|\bnot\b|\bconver", re.I)  # a speed, a price; what is to be converted by the tool
# Amounts that are not converted here, and may have been by the model.
_OTHERS = re.compile(
    r"\d\s*-?(?:(?:miles?|feet|foot|ft|inch(?:es)?|yards?|pounds?|lbs?|ounces?|oz|gallons?|acres?|minuten?|stunden?|heures?"
    r"|minutos?|horas?|tage?|wochen?|jours?|d[ií]as?|lakh|crore|mio|mrd|tsd|ether|micros|[kmgt]i?bs?|[km]|bn?)\b|')",
    re.I,
)
_MAX_UNIT_CHARS = 20
_MIN_NAME_CHARS = 3  # a description's "a" and "m" are units in few places only


def in_unit(value: float, name: str, said: str, request: str) -> float:
    """The value as the argument of this name and description wants it."""
    wanted = _wanted(name, said)
    beside = {unit for number, unit in _AMOUNT.findall(request) if read_number(number) == value}
    if wanted is None or len(beside) != 1:
        return value
    given = _unit(beside.pop())
    if given is None or given.dimension != wanted.dimension or given == wanted:
        return value
    exact = Fraction(str(value)) * given.factor / wanted.factor
    return int(exact) if exact.denominator == 1 else float(exact)


def may_be_converted(request: str) -> bool:
    """Whether the request has an amount that another number may stand for: in a unit, or with a word for its zeros."""
    known = (_unit(text) for _, text in _AMOUNT.findall(request) if text)
    return _OTHERS.search(request) is not None or any(unit is not None for unit in known)


def names_unit(value: object) -> bool:
    """Whether a value is the name of a unit: then it tells of what another argument has the number."""
    return isinstance(value, str) and len(value) <= _MAX_UNIT_CHARS and _unit(value) is not None


def is_in_unit(value: float, name: str, said: str, request: str) -> bool:
    """Whether it is an amount of the request, converted to the unit that is wanted."""
    wanted = _wanted(name, said)
    return wanted is not None and any(
        (given := _unit(text)) is not None
        and given.dimension == wanted.dimension
        and abs(read_number(number) * float(given.factor / wanted.factor) - value) <= abs(value) * _ROUNDING
        for number, text in _AMOUNT.findall(request)
    )


def wants_unit(name: str, said: str) -> bool:
    return _wanted(name, said) is not None


def _wanted(name: str, said: str) -> Unit | None:
    """The unit that they speak of, where it is one."""
    if _BY.search(said) or "per" in name.lower().split("_"):
        return None
    words = [word for word in _WORD.findall(said.replace("o-o", "oo")) if len(word) >= _MIN_NAME_CHARS]
    found = {_unit(word) for word in (*words, *_SYMBOL.findall(said), name.rpartition("_")[2])} - {None}
    return found.pop() if len(found) == 1 else None


def _unit(text: str) -> Unit | None:
    return _UNITS.get(text) or _UNITS.get(text.lower() if len(text) >= _MIN_NAME_CHARS else text)
