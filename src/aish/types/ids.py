"""Identifiers: a prefix for the kind, then 20 characters that sort by time.

Nine characters are milliseconds (until the year 5188), eleven are random, in Crockford's base 32.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Literal

Kind = Literal["sess", "turn", "call", "req", "run", "resp", "appr", "key", "use", "fact"]

OWN_SESSIONS = "sess_"  # of sessions that we name; clients of a server may name theirs

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_TO_ALPHABET = bytes(ord(_ALPHABET[byte & 31]) for byte in range(256))
_CHANCE_CHARS = 11
_DRAWN = 256  # ids for which randomness is drawn at once, since a system call for each would be most of its cost


def new_id(kind: Kind) -> str:
    chance = next(_pool.chances, "") or _draw()  # atomic, so that no two threads get the same
    now_ms = time.time_ns() // 1_000_000
    known_ms, stamp = _pool.newest  # several are made in one millisecond
    if known_ms != now_ms:
        stamp = "".join([_PAIRS[now_ms >> shift & 1023] for shift in (40, 30, 20, 10, 0)])[1:]
        _pool.newest = now_ms, stamp
    return f"{kind}_{stamp}{chance}"


class _Pool:
    def __init__(self) -> None:
        self.chances: Iterator[str] = iter(())
        self.newest = (0, "")


_pool = _Pool()
os.register_at_fork(
    after_in_child=lambda: setattr(_pool, "chances", iter(()))
)  # else parent and child would make the same ids


def _draw() -> str:
    drawn = os.urandom(_DRAWN * _CHANCE_CHARS).translate(_TO_ALPHABET).decode()
    first, *others = [drawn[place : place + _CHANCE_CHARS] for place in range(0, len(drawn), _CHANCE_CHARS)]
    _pool.chances = iter(others)
    return first
