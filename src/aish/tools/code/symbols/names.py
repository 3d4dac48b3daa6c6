"""Checks whether a symbol can get a new name, because not all servers check that.

A keyword, or a name that is declared beside the symbol, is refused. A possible clash is only reported. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from aish.errors import ToolError
from aish.tools.code.answer import Symbol
from aish.tools.code.backends.tree import word_regex
from aish.tools.code.files.source import Source
from aish.tools.code.languages import table
from aish.tools.code.symbols.addresses import last_name
from aish.types.tools import ResultStatus

_NAME = re.compile(r"[#$~]?[^\W\d$][\w$]*")  # a name in most languages
_SHOWN_CHARS = 80


class Taken(msgspec.Struct, frozen=True):
    """Where the new name already occurs."""

    path: str
    line: int


def check_name(path: str, symbol: str, new_name: str) -> None:
    """Raises ToolError."""
    if not _NAME.fullmatch(new_name):
        raise _wrong(f"'{new_name[:_SHOWN_CHARS]}' cannot be a name")
    language = table().language_of(path)
    if language and new_name in table().language[language].keywords:
        raise _wrong(f"'{new_name}' cannot be a name: it is a word of the language {language} itself")
    if new_name == symbol:
        raise _wrong(f"it is named {symbol} already")


def find_word(source: Source, name: str) -> Taken | None:
    """Searches the text of a file for the name."""
    word = word_regex(name)
    line = next((number for number, text in enumerate(source.lines, 1) if word.search(text)), None)
    return Taken(source.path, line) if line is not None else None


def find_beside(source: Source, symbols: Sequence[Symbol], symbol: str, new_name: str) -> Taken | None:
    """Searches for a declaration of the new name in the same scope as the symbol."""
    places = {(one.container, one.depth) for one in symbols if last_name(one.name) == symbol}
    for one in symbols:
        if last_name(one.name) == new_name and (one.container, one.depth) in places:
            return Taken(source.path, one.line)
    return None


def _wrong(text: str) -> ToolError:
    return ToolError(text, status=ResultStatus.BAD_ARGUMENTS)
