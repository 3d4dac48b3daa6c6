"""Titles and search: what a session is called, and what a query is compared with.

A session is found when every word of the query occurs, in any case, in its title or in one of its turns.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import cache

from aish.types.messages import AssistantMessage, Message, UserMessage

TITLE_CHARS = 80
# Per turn. Long pastes and answers are found by their beginning; a search reads this much of every turn.
SEARCHABLE_CHARS = 16_384
# More words than this narrow nothing down and each costs a pass.
MAX_WORDS = 16


def title_of(messages: Iterable[Message]) -> str:
    """The first line with something on it of the first user message."""
    first = next((message for message in messages if isinstance(message, UserMessage)), None)
    lines = first.text.splitlines() if first else []
    line = next((line for line in lines if line.strip()), "")
    return " ".join(line.split())[:TITLE_CHARS]


def fold(text: str) -> str:
    """Text as it is compared. SQLite's string functions stop at NUL and cannot take lone surrogates."""
    return text[:SEARCHABLE_CHARS].casefold().replace("\0", " ").encode("utf-8", "replace").decode()


def fold_messages(messages: Iterable[Message]) -> str:
    """What was said: questions and answers, not tool output."""
    return fold("\n".join(message.text for message in messages if isinstance(message, UserMessage | AssistantMessage)))


def words_of(query: str) -> tuple[str, ...]:
    return tuple(fold(query).split()[:MAX_WORDS])


# A run of letters and digits, but one letter each where a script is written without spaces. `_` is neither, so that a
# part of `snake_case` finds it.
_WORD = r"(?=\w)[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\u3040-\u30ff]|[^\W_\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]+"


@cache
def _word() -> re.Pattern[str]:
    """Such classes take milliseconds to compile, and few runs search."""
    return re.compile(_WORD)


def whole_words(text: str) -> list[str]:
    """Those with `_` in them, which were one word each in what earlier versions wrote."""
    return [word for word in re.findall(r"\w+", fold(text)) if "_" in word]


def index_words(text: str) -> list[str]:
    """The words full-text search compares: without case and accents."""
    if text.isascii():
        return re.findall(r"[a-z0-9]+", fold(text))
    plain = unicodedata.normalize("NFKD", fold(text)).casefold()  # a raised A becomes an A only here
    return _word().findall("".join(char for char in plain if not unicodedata.combining(char)))
