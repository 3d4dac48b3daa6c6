"""Inserts many rows with few statements.

For each statement SQLite's thread competes with the event loop's thread for the interpreter lock, which costs more than
a row. Only a few sizes of statements exist, so they stay prepared. The rest of a statement is filled with empty rows,
which are not inserted.

sqlite3 looks for an adapter for each value of type bytes or None, and finds none. That costs as much as the rest of a
row, so these values are passed as `bytearray` and "".
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import chain
from typing import Any

# A busy server ends some 250 turns in the time in which a group is collected.
_SIZES = (1, 4, 16, 64, 256)

blob = bytearray
NULL = ""  # in the column that is `nullable`


class BulkInsert:
    """`begin` is the statement up to the rows, `also` a condition on a row, called `new`, for its insertion. A row
    whose first column is empty is not inserted. The column number `nullable`, from 1, becomes NULL where it is
    empty."""

    def __init__(self, begin: str, *, columns: int, nullable: int = 0, also: str = "") -> None:
        self._columns = columns
        row = f"({', '.join('?' * columns)})"
        given = [f"nullif(column{n}, '')" if n == nullable else f"column{n}" for n in range(1, columns + 1)]
        begin += f" SELECT {', '.join(given)} FROM (VALUES "
        end = f") AS new WHERE column1 <> ''{' AND ' if also else ''}{also}"
        self._statements = {size: f"{begin}{', '.join([row] * size)}{end}" for size in _SIZES}

    def insert(self, db: sqlite3.Connection, rows: Sequence[Sequence[Any]]) -> None:
        if len(rows) == 1:
            db.execute(self._statements[1], rows[0])
            return
        max_rows = db.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER) // self._columns  # 999 in all before SQLite 3.32
        sizes = [size for size in _SIZES if size <= max_rows]
        done = 0
        while done < len(rows):
            size = _size_for(len(rows) - done, sizes)
            some = rows[done : done + size]
            nothing = ("",) * self._columns * (size - len(some))
            db.execute(self._statements[size], (*chain.from_iterable(some), *nothing))
            done += size


def _size_for(left: int, sizes: Sequence[int]) -> int:
    """The size that takes all remaining rows, if less than half of it stays empty; else the largest that can be
    filled."""
    enough = next((size for size in sizes if size >= left), None)
    return enough if enough and enough < 2 * left else max(size for size in sizes if size <= left)
