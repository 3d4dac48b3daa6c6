"""Identifiers: a prefix that says what it names, then 20 characters that sort by time of making.

Nine characters of milliseconds (good until the year 5188) and eleven of randomness, in Crockford's base 32.
"""

from __future__ import annotations

import secrets
import time
from typing import Literal

Kind = Literal["sess", "turn", "call", "req", "run", "resp"]

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_TIME_CHARS = 9
_RANDOM_CHARS = 11


def new_id(kind: Kind) -> str:
    return f"{kind}_{_base32(time.time_ns() // 1_000_000, _TIME_CHARS)}{_random_part()}"


def _random_part() -> str:
    return _base32(secrets.randbits(_RANDOM_CHARS * 5), _RANDOM_CHARS)


def _base32(number: int, width: int) -> str:
    digits = []
    for _ in range(width):
        number, rest = divmod(number, 32)
        digits.append(_ALPHABET[rest])
    return "".join(reversed(digits))
