"""Many rows in few statements.

Each statement that SQLite runs is one more fight with the event loop's thread over the interpreter, and costs more than
the row it writes. The numbers of rows are always the same few, so that the statements stay prepared.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import chain
from typing import Any

_SIZES = (64, 8, 1)

# For bytes, sqlite3 looks each time for a way to adapt them, and finds none.
blob = bytearray


class Rows:
    """`begin` and `end` are what stands before and after the rows."""

    def __init__(self, begin: str, *, columns: int, end: str = "") -> None:
        row = f"({', '.join('?' * columns)})"
        self._statements = [(size, begin + ", ".join([row] * size) + end) for size in _SIZES]

    def insert(self, db: sqlite3.Connection, rows: Sequence[Sequence[Any]]) -> None:
        done = 0
        for size, statement in self._statements:
            while len(rows) - done >= size:
                db.execute(statement, tuple(chain.from_iterable(rows[done : done + size])))
                done += size
