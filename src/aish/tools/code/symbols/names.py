"""Whether a symbol may be given a name: servers do not all check, and one that does says only that nothing changes.

What is certain is refused: a word of the language, a name that is declared beside it already. What may be a clash is
said. Pure.
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

_NAME = re.compile(r"[#$~]?[^\W\d$][\w$]*")  # what a name is in most languages
_SHOWN_CHARS = 80


class Taken(msgspec.Struct, frozen=True):
    """Where the name stands already."""

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
    """In one of the files that a rename changes, by its text alone."""
    word = word_regex(name)
    line = next((number for number, text in enumerate(source.lines, 1) if word.search(text)), None)
    return Taken(source.path, line) if line is not None else None


def find_beside(source: Source, symbols: Sequence[Symbol], symbol: str, new_name: str) -> Taken | None:
    """Among the declarations of that file, in the same place as the symbol."""
    places = {(one.container, one.depth) for one in symbols if last_name(one.name) == symbol}
    for one in symbols:
        if last_name(one.name) == new_name and (one.container, one.depth) in places:
            return Taken(source.path, one.line)
    return None


def _wrong(text: str) -> ToolError:
    return ToolError(text, status=ResultStatus.BAD_ARGUMENTS)
