"""Identifiers: a prefix that says what it names, then 20 characters that sort by time of making.

Nine characters of milliseconds (good until the year 5188) and eleven of randomness, in Crockford's base 32.
"""

from __future__ import annotations

import os
import time
from typing import Literal

Kind = Literal["sess", "turn", "call", "req", "run", "resp", "appr", "key", "use", "fact"]

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_TIME_BITS = 45
_RANDOM_BITS = 55
_CHANCE_BYTES = 7  # one bit of them is not used


def new_id(kind: Kind) -> str:
    now_ms = time.time_ns() // 1_000_000 & ((1 << _TIME_BITS) - 1)
    return f"{kind}_{_base32(now_ms << _RANDOM_BITS | _chance())}"


class _Pool:
    """Randomness drawn from the system in larger pieces: asking it each time would be most of what an id costs."""

    def __init__(self) -> None:
        self.bytes = b""


_pool = _Pool()
os.register_at_fork(after_in_child=lambda: setattr(_pool, "bytes", b""))  # or both processes would make the same ids


def _chance() -> int:
    drawn = _pool.bytes
    if len(drawn) < _CHANCE_BYTES:
        drawn = os.urandom(512 * _CHANCE_BYTES)
    _pool.bytes = drawn[_CHANCE_BYTES:]
    return int.from_bytes(drawn[:_CHANCE_BYTES]) >> 1


def _base32(number: int) -> str:
    """Twenty characters, two at a time."""
    pairs = _PAIRS
    return "".join([pairs[number >> shift & 1023] for shift in range(90, -1, -10)])
