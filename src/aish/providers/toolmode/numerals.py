"""Numbers of a call beside those of the request: their digits may be right and their point in the wrong place.

Units are not known here: what is a hundred or a thousand times as much may have been converted, and stays.
"""

from __future__ import annotations

import re

_NUMBER = re.compile(
    r"(?<![\w.,])\d+(?:[.,]\d+)*(?![\w%]|\s*(?:%|percent|prozent|thousand|million|billion|mio|tsd))", re.I
)
_DECIMAL_COMMA = re.compile(r"\d+,\d{1,2}")
_CONVERTED = (100, 1000)
_MIN_DIGITS = 2  # of a single digit there are too many


def placed(value: float, request: str) -> float:
    """The number of the request that has these digits, where there is one such and none is the value itself."""
    said = {text: _read(text) for text in _NUMBER.findall(request)}
    if len(_digits(value)) < _MIN_DIGITS or value in said.values() or -value in said.values():
        return value
    alike = {number: text for text, number in said.items() if _digits(number) == _digits(value)}
    if len(alike) != 1:
        return value
    ((number, text),) = alike.items()
    if _converts(number, value) and not _DECIMAL_COMMA.fullmatch(text):
        return value
    return number if value > 0 else -number


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
