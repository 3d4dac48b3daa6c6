"""Titles of sessions, and text search in them.

A session matches a query if every word of the query occurs, in any case, in its title or in one of its turns.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import cache

from aish.types.messages import AssistantMessage, Message, UserMessage

TITLE_CHARS = 80
# Per turn. Only the beginning of long texts is searched, since a search reads this much of every turn.
SEARCHABLE_CHARS = 16_384
# More words narrow down little, and each costs a pass.
MAX_WORDS = 16


def title_of(messages: Iterable[Message]) -> str:
    """The first line of the first user message that is not empty."""
    first = next((message for message in messages if isinstance(message, UserMessage)), None)
    lines = first.text.splitlines() if first else []
    line = next((line for line in lines if line.strip()), "")
    return " ".join(line.split())[:TITLE_CHARS]


def fold(text: str) -> str:
    """The form in which text is compared. SQLite's string functions stop at NUL and cannot take lone surrogates."""
    return text[:SEARCHABLE_CHARS].casefold().replace("\0", " ").encode("utf-8", "replace").decode()


def fold_messages(messages: Iterable[Message]) -> str:
    """Questions and answers, without tool output."""
    return fold("\n".join(message.text for message in messages if isinstance(message, UserMessage | AssistantMessage)))


def words_of(query: str) -> tuple[str, ...]:
    return tuple(fold(query).split()[:MAX_WORDS])


# A run of letters and digits; in scripts without spaces, each letter. `_` is neither, so a part of `snake_case` finds
# it.
_WORD = r"(?=\w)[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\u3040-\u30ff]|[^\W_\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]+"


@cache
def _word() -> re.Pattern[str]:
    """Compiled late: such classes take milliseconds to compile, and few processes search."""
    return re.compile(_WORD)


def whole_words(text: str) -> list[str]:
    """The words with `_`, which earlier versions stored as one word each."""
    return [word for word in re.findall(r"\w+", fold(text)) if "_" in word]


def index_words(text: str) -> list[str]:
    """The words that full-text search compares, without case and accents."""
    if text.isascii():
        return re.findall(r"[a-z0-9]+", fold(text))
    plain = unicodedata.normalize("NFKD", fold(text)).casefold()  # a superscript A becomes an A only here
    return _word().findall("".join(char for char in plain if not unicodedata.combining(char)))
