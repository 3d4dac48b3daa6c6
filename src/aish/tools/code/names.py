"""Finds symbols by their names, and checks new names for a rename. Pure.

Models count lines almost correctly and columns not at all. So the symbol is searched in the line, then in nearby lines,
and the answer says if it was found in another one.

Not all servers check a new name. A keyword, or a name that is declared beside the symbol, is refused here; a possible
clash is only reported.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from aish.errors import ToolError
from aish.tools.code.backends.port import Symbol, SymbolPosition
from aish.tools.code.files.source import SourceText, word_regex
from aish.tools.code.languages import language_table
from aish.types.tools import ResultStatus

NEAR_LINES = 5
_SHOWN_CHARS = 120
_LINES_NAMED = 10
_NAME = re.compile(r"[#$~]?[^\W\d$][\w$]*")  # a name in most languages
_NAME_CHARS = 80


def resolve_symbol(source: SourceText, line: int | None, symbol: str) -> SymbolPosition:
    """Raises ToolError that quotes the given line."""
    symbol = symbol.strip()
    if not symbol:
        raise _bad_arguments("the symbol is empty; give its text as it stands in the line")
    count = len(source.lines)
    if line is not None and not 1 <= line <= count:
        raise _bad_arguments(
            f"{source.path} has lines 1 to {count}, not {line}" if count else f"{source.path} is empty"
        )
    numbers = range(1, count + 1) if line is None else _nearby_lines(line, count)
    for number in numbers:
        column = find_column(source.line(number), symbol)
        if column is not None:
            return SymbolPosition(source.path, number, column, last_name(symbol))
    where = f"{source.path} has no '{symbol}'"
    if line is None:
        raise _bad_arguments(where)
    elsewhere = [number for number in range(1, count + 1) if find_column(source.line(number), symbol) is not None]
    lines = f"; it is in lines {', '.join(map(str, elsewhere[:_LINES_NAMED]))}" if elsewhere else ""
    raise _bad_arguments(f"{where} in or near line {line}, which is: {source.line(line).strip()[:_SHOWN_CHARS]}{lines}")


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


def _nearby_lines(line: int, count: int) -> list[int]:
    """Returns the line and its neighbours, nearest first."""
    distances = [0, *(sign * away for away in range(1, NEAR_LINES + 1) for sign in (-1, 1))]
    return [line + distance for distance in distances if 1 <= line + distance <= count]


class NameUse(msgspec.Struct, frozen=True):
    """Where the new name already occurs."""

    path: str
    line: int


def check_new_name(path: str, symbol: str, new_name: str) -> None:
    """Raises ToolError."""
    if not _NAME.fullmatch(new_name):
        raise _bad_arguments(f"'{new_name[:_NAME_CHARS]}' cannot be a name")
    language = language_table().language_of(path)
    if language and new_name in language_table().language[language].keywords:
        raise _bad_arguments(f"'{new_name}' cannot be a name: it is a word of the language {language} itself")
    if new_name == symbol:
        raise _bad_arguments(f"it is named {symbol} already")


def find_word(source: SourceText, name: str) -> NameUse | None:
    """Searches the text of a file for the name."""
    word = word_regex(name)
    line = next((number for number, text in enumerate(source.lines, 1) if word.search(text)), None)
    return NameUse(source.path, line) if line is not None else None


def find_name_clash(source: SourceText, symbols: Sequence[Symbol], symbol: str, new_name: str) -> NameUse | None:
    """Where the new name is already declared in the scope of the symbol, if anywhere."""
    scopes = {(declared.container, declared.depth) for declared in symbols if last_name(declared.name) == symbol}
    for declared in symbols:
        if last_name(declared.name) == new_name and (declared.container, declared.depth) in scopes:
            return NameUse(source.path, declared.line)
    return None


def _bad_arguments(text: str) -> ToolError:
    return ToolError(text, status=ResultStatus.BAD_ARGUMENTS)
