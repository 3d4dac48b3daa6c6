"""Numbers of a call beside those of the request: their digits may be right, and their point or sign wrong.

Units are not known here: what is a hundred or a thousand times as much may have been converted, and stays.
"""

from __future__ import annotations

import re

_NUMBER = re.compile(
    r"(?<![\w.,])\d+(?:[.,]\d+)*(?![\w%]|\s*(?:%|percent|prozent|thousand|million|billion|mio|tsd))", re.I
)
_SCALED = re.compile(r"(?<![\w.,])(\d+(?:[.,]\d+)*)\s*(thousand|million|billion|trillion)s?\b", re.I)
_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_DECIMAL_COMMA = re.compile(r"\d+,\d{1,2}")
_CONVERTED = (100, 1000)
# A dash after a digit or a word joins two things: 3-5, A-4.
# And "minus" after a number takes away from it.
_MINUS = re.compile(r"(?:(?:^|[\s(\[,=:])[-\u2212]|(?<!\d )(?<!% )(?<!\bor )\b(?:minus|negative) )$", re.I)
_WEST_OR_SOUTH = re.compile(r"\s*°\s*(?:[WS]\b|west|south)|\s+degrees (?:west|south)", re.I)
_EXACT = 1e5  # up to here a number is written with six digits at most
_MIN_DIGITS = 2  # of a single digit there are too many
_LONG = 10_000  # but not of one with so many zeros, of which one is soon lost


def placed(value: float, request: str) -> float:
    """The number of the request that has these digits, where there is one such and none is the value itself."""
    said = {text: _read(text) for text in _NUMBER.findall(request)}
    if value in said.values() or -value in said.values():
        return value
    if (meant := _scaled(value, request)) != value:
        return meant
    alike = {number: text for text, number in said.items() if _is_alike(number, value)}
    if len(alike) != 1:
        return value
    ((number, text),) = alike.items()
    if _converts(number, value) and not _DECIMAL_COMMA.fullmatch(text):
        return value
    return number if value > 0 else -number


def signed(value: float, request: str) -> float:
    """Less than nothing, where the request says so of this number wherever it stands: -3, minus 3, 3° W."""
    if isinstance(value, bool) or value <= 0:
        return value
    digits = re.escape(f"{value:g}" if value < _EXACT else str(value))
    places = list(re.finditer(rf"(?<![\w.]){digits}(?![\d]|[.,]\d)", request))
    if not places or not all(_is_less(request[: found.start()], request[found.end() :]) for found in places):
        return value
    return -value


def _scaled(value: float, request: str) -> float:
    """213000000 for 21300000 of "213 million", with whatever zeros it came."""
    said = {round(_read(text) * _SCALES[scale.lower()]) for text, scale in _SCALED.findall(request)}
    alike = [number for number in said if _digits(number) == _digits(value)]
    return alike[0] if abs(value) >= _LONG and value not in said and len(alike) == 1 else value


def _is_alike(number: float, value: float) -> bool:
    is_telling = len(_digits(value)) >= _MIN_DIGITS or min(number, abs(value)) >= _LONG
    return is_telling and _digits(number) == _digits(value)


def _is_less(before: str, after: str) -> bool:
    return _MINUS.search(before) is not None or _WEST_OR_SOUTH.match(after) is not None


def _converts(number: float, value: float) -> bool:
    ratio = abs(value) / number
    return any(abs(ratio - times) < 1e-6 or abs(ratio * times - 1) < 1e-6 for times in _CONVERTED)


def _read(text: str) -> float:
    """A comma before one or two last digits is a decimal comma; others part thousands."""
    plain = text.replace(",", ".") if _DECIMAL_COMMA.fullmatch(text) else text.replace(",", "")
    try:
        number = float(plain)
    except ValueError:
        return 0.0
    return int(number) if number.is_integer() else number


def _digits(number: float) -> str:
    """Those that count, wherever the point stands."""
    return f"{number:.6f}".replace(".", "").strip("0-")
