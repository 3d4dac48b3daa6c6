"""Numbers of a call beside those of the request: their digits may be right, and their point or sign wrong.

Units are not known here: what is a hundred or a thousand times as much may have been converted, and stays.
"""

from __future__ import annotations

import math
import re

_WORDS = "(?:thousand|million|billion|trillion|lakh|crore|mio|mrd|tsd)"
_NUMBER = re.compile(
    rf"(?<![\w.,])\d+(?:[.,]\d+)*(?![\w%]|\s*(?:%|percent|prozent|per mil|basis|bps?\b|{_WORDS}))", re.I
)
_SCALED = re.compile(rf"(?<![\w.,])(\d+(?:[.,]\d+)*)\s*({_WORDS})s?\b", re.I)
_LETTERED = re.compile(r"(?<![\w.,])(\d+(?:[.,]\d+)*)\s?(k|m|bn?)\b", re.I)  # m may be meters, too
_SCALES = {
    "thousand": 10**3, "k": 10**3, "tsd": 10**3, "lakh": 10**5, "million": 10**6, "m": 10**6, "mio": 10**6,
    "crore": 10**7, "billion": 10**9, "b": 10**9, "bn": 10**9, "mrd": 10**9, "trillion": 10**12,
}  # fmt: skip
_TIMES = re.compile(
    r"\btimes (?:that|this|it|as|more|\d)|\d\s?x\b|fold\b|\bmultipl", re.I
)  # what was said may be worked with
_ANY = re.compile(r"(?<![\w.,])\d+(?:[.,]\d+)*")
_DECIMAL_COMMA = re.compile(r"\d+,\d{1,2}")
_CONVERTED = (100, 1000)
# A dash after a digit or a word joins two things: 3-5, A-4. And "minus" after a number takes away from it.
# After other words than these it is an option ("head -20"), a line of a list, or takes away from what they mean.
_LEADS = (
    r"(?:^|[(\[,=:;] ?"
    r"|\b(?:about|above|add|and|around|at|below|between|from|is|of|over|than|then|to|under|und|was|with) )"
)
_MINUS = re.compile(rf"(?:(?:{_LEADS}|\b(?:by|or|plus) )[-\u2212]|{_LEADS}minus |\bnegative )$", re.I)
_WEST_OR_SOUTH = re.compile(r"\s*°\s*(?:[WS]\b|west|south)|\s+degrees (?:west|south)", re.I)
_NEAR = 20  # characters before or after a number
_EXACT = 1e5  # up to here a number is written with six digits at most
_MIN_DIGITS = 2  # of a single digit there are too many
_LONG = 10_000  # but not of one with so many zeros, of which one is soon lost


def placed(value: float, request: str) -> float:
    """The number of the request that has these digits, where there is one such and none is the value itself."""
    scaled = _scaled(_SCALED, request)
    if _TIMES.search(request) or abs(value) in {
        *map(read_number, _ANY.findall(request)),
        *scaled,
        *_scaled(_LETTERED, request),
    }:
        return value
    said = {text: read_number(text) for text in _NUMBER.findall(request)}
    if (meant := _with_zeros(value, scaled)) != value:
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
    near = ((request[max(0, at.start() - _NEAR) : at.start()], request[at.end() : at.end() + _NEAR]) for at in places)
    return -value if places and all(_is_less(before, after) for before, after in near) else value


def _with_zeros(value: float, said: set[float]) -> float:
    """213000000 for 21300000 of "213 million", with whatever zeros it came."""
    alike = [number for number in said if digits_of(number) == digits_of(value)]
    return int(alike[0]) if abs(value) >= _LONG and value not in said and len(alike) == 1 else value


def _scaled(pattern: re.Pattern[str], request: str) -> set[float]:
    return {round(read_number(text) * float(_SCALES[scale.lower()]), 6) for text, scale in pattern.findall(request)}


def _is_alike(number: float, value: float) -> bool:
    is_telling = len(digits_of(value)) >= _MIN_DIGITS or min(number, abs(value)) >= _LONG
    return is_telling and digits_of(number) == digits_of(value)


def _is_less(before: str, after: str) -> bool:
    return _MINUS.search(before) is not None or _WEST_OR_SOUTH.match(after) is not None


def _converts(number: float, value: float) -> bool:
    ratio = abs(value) / number
    return any(abs(ratio - times) < 1e-6 or abs(ratio * times - 1) < 1e-6 for times in _CONVERTED)


def read_number(text: str) -> float:
    """A comma before one or two last digits is a decimal comma; others part thousands. What is no number is none."""
    plain = text.replace(",", ".") if _DECIMAL_COMMA.fullmatch(text) else text.replace(",", "")
    try:
        number = float(plain)
    except ValueError:
        return math.nan
    return int(number) if number.is_integer() else number


def digits_of(number: float) -> str:
    """Those that count, wherever the point stands."""
    return f"{number:.6f}".replace(".", "").strip("0-")
