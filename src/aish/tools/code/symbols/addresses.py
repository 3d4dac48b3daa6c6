"""Finds the position of a symbol from a path, a line and the symbol's text. Pure.

Models count lines almost correctly and columns not at all. So the symbol is searched in the line, then in nearby lines,
and the answer says if it was found in another one.
"""

from __future__ import annotations

import re

from aish.errors import ToolError
from aish.tools.code.answer import Spot
from aish.tools.code.files.source import Source
from aish.types.tools import ResultStatus

NEAR_LINES = 5
_SHOWN_CHARS = 120
_LINES_NAMED = 10


def resolve(source: Source, line: int | None, symbol: str) -> Spot:
    """Raises ToolError that quotes the given line."""
    symbol = symbol.strip()
    if not symbol:
        raise _wrong("the symbol is empty; give its text as it stands in the line")
    count = len(source.lines)
    if line is not None and not 1 <= line <= count:
        raise _wrong(f"{source.path} has lines 1 to {count}, not {line}" if count else f"{source.path} is empty")
    numbers = range(1, count + 1) if line is None else _around(line, count)
    for number in numbers:
        column = find_column(source.line(number), symbol)
        if column is not None:
            return Spot(source.path, number, column, last_name(symbol))
    where = f"{source.path} has no '{symbol}'"
    if line is None:
        raise _wrong(where)
    elsewhere = [number for number in range(1, count + 1) if find_column(source.line(number), symbol) is not None]
    lines = f"; it is in lines {', '.join(map(str, elsewhere[:_LINES_NAMED]))}" if elsewhere else ""
    raise _wrong(f"{where} in or near line {line}, which is: {source.line(line).strip()[:_SHOWN_CHARS]}{lines}")


def find_column(line: str, symbol: str) -> int | None:
    """Returns the column of the symbol's last name at its first whole-word match."""
    name = last_name(symbol)
    for text in dict.fromkeys((symbol, name)):
        found = re.search(rf"(?<![\w$]){re.escape(text)}(?![\w$])", line)
        if found:
            return found.end() - len(name)
    return None


def last_name(symbol: str) -> str:
    """Returns `number` for `account.number`, `Account::number` and `account->number`."""
    return re.split(r"\.|::|->|#", symbol.removesuffix("()"))[-1] or symbol


def _around(line: int, count: int) -> list[int]:
    """Returns the line and its neighbours, nearest first."""
    distances = [0, *(sign * away for away in range(1, NEAR_LINES + 1) for sign in (-1, 1))]
    return [line + distance for distance in distances if 1 <= line + distance <= count]


def _wrong(text: str) -> ToolError:
    return ToolError(text, status=ResultStatus.BAD_ARGUMENTS)
