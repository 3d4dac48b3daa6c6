"""Many rows in few statements.

Each statement that SQLite runs is one more fight with the event loop's thread over the interpreter, and costs more than
the row it writes. The numbers of rows are always the same few, so that the statements stay prepared: what is left over
is filled up with rows of nothing, which are not inserted.

For bytes and None, sqlite3 looks each time for a way to adapt them, and finds none: that costs as much as the rest of a
row. So what every row has is given to it as something else.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import chain
from typing import Any

# A busy server ends some 250 turns in the time that a group waits for company.
_SIZES = (1, 4, 16, 64, 256)

blob = bytearray
NULL = ""  # where `nullable`


class Rows:
    """`begin` is the statement up to the rows, `also` what must be so of a row, which is `new`, to be inserted. One
    whose first column is empty is not inserted. The column that is `nullable`, counted from 1, is NULL where empty."""

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
        most = db.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER) // self._columns  # 999 in all before SQLite 3.32
        sizes = [size for size in _SIZES if size <= most]
        done = 0
        while done < len(rows):
            size = _size_for(len(rows) - done, sizes)
            some = rows[done : done + size]
            nothing = ("",) * self._columns * (size - len(some))
            db.execute(self._statements[size], (*chain.from_iterable(some), *nothing))
            done += size


def _size_for(left: int, sizes: Sequence[int]) -> int:
    """One that takes all that is left, if less than half of it is nothing; else the largest that can be filled."""
    enough = next((size for size in sizes if size >= left), None)
    return enough if enough and enough < 2 * left else max(size for size in sizes if size <= left)
