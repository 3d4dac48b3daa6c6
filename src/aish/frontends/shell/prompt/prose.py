"""Weighs how much the words of a line read like a sentence, by tables of eight languages (`words.toml`).

A weight is a number: 2 for a word that hardly ever is an argument of a command, 1 for one that may be.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

_FILE = Path(__file__).with_name("words.toml")
STRONG, _WEAK = 2, 1
_PUNCTUATION = ",.;:!?()[]\"'“”„«»…¿¡"
_WORD = re.compile(r"[^\W\d_][\w'’-]*", re.UNICODE)
_NAME = re.compile(r"[\w'’.-]+[,.;:!?]?\Z", re.UNICODE)
_FOREIGN = re.compile(r"[\u0400-\u052f\u0590-\u06ff\u0900-\u0dff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_ELISION = re.compile(r"\w['’]\w")  # bash would take the apostrophe for an open quotation


class WordTables(msgspec.Struct, frozen=True):
    weights: dict[str, int]
    verbs: frozenset[str]  # begin a request
    alone: frozenset[str]  # are an answer by themselves
    shapes: dict[str, str]  # of commands
    easy: frozenset[str]  # commands that are common words of English
    usual: dict[str, frozenset[str]]
    programs: frozenset[str]
    subcommands: dict[str, frozenset[str]]


@functools.cache
def word_tables() -> WordTables:
    """Reads the tables. Takes a millisecond, so it happens with the first key and not at the start."""
    import tomllib

    data = tomllib.loads(_FILE.read_text("utf-8"))
    languages = data["languages"].values()
    weights = {word: _WEAK for each in languages for word in each["weak"].split()}
    weights |= {word: STRONG if len(word) > 1 else _WEAK for each in languages for word in each["strong"].split()}
    weights |= dict.fromkeys(data["languages"]["english"]["weak"].split(), _WEAK)
    return WordTables(
        weights=weights,
        verbs=frozenset(word for each in languages for word in each["verbs"].split()),
        alone=frozenset(word for each in languages for word in each["alone"].split()),
        shapes={command: shape for shape, commands in data["shapes"].items() for command in commands.split()},
        easy=frozenset(data["threshold"]["low"].split()),
        usual={command: frozenset(words.split()) for command, words in data["usual"].items()},
        programs=frozenset(data["programs"]["known"].split()),
        subcommands={command: frozenset(words.split()) for command, words in data["subcommands"].items()},
    )


def bare_word(word: str) -> str:
    """The word without punctuation, in lower case."""
    return word.strip(_PUNCTUATION).lower().replace("’", "'")


def is_plain_word(word: str) -> bool:
    """Whether it consists of letters, as words of sentences do."""
    return _WORD.fullmatch(word.strip(_PUNCTUATION)) is not None


def is_foreign_script(word: str) -> bool:
    """Whether letters of it are not Latin, as in Japanese or Russian."""
    return not word.isascii() and _FOREIGN.search(word) is not None


def weigh_words(
    words: Sequence[str], ignored: Callable[[str], bool] = lambda word: False, *, follow_verb: bool = False
) -> int:
    """The weight of all words. A single letter counts only after a word that counts: `a` and `i` are names, too. A
    word in capitals is a name such as TODO.

    `follow_verb`: a word stands before them that may be a verb, so that a preposition may come first: `look at it`.
    """
    weights = word_tables().weights
    total = before = 0
    has_middle = False
    for index, word in enumerate(words):
        bare = bare_word(word)
        weight = 0 if ignored(bare) or (word.isupper() and len(word) > 1) else weights.get(bare, 0)
        if len(bare) == 1 and weight:
            weight = min(before, _WEAK)
        has_middle = has_middle or (weight == _WEAK and _stands_between(words, index, 0 if follow_verb else 1))
        before = weight
        total += weight + _weigh_spelling(word, bare)
    return total + has_middle


def _stands_between(words: Sequence[str], index: int, start: int) -> bool:
    """A preposition stands between two words: `files by size`."""
    inside = start <= index < len(words) - 1
    return inside and len(words[index]) > 1 and all(_NAME.match(word) for word in words[max(index - 1, 0) : index + 2])


def _weigh_spelling(word: str, bare: str) -> int:
    """Letters and apostrophes that arguments seldom have."""
    if word.isascii():
        return STRONG if "'" in word and _ELISION.search(word) and "=" not in word else 0
    if is_foreign_script(word):
        return STRONG + _WEAK
    return _WEAK if _WORD.fullmatch(bare) else 0


def weigh_punctuation(words: Sequence[str]) -> int:
    """A question mark at the end, and commas after words."""
    question = STRONG if len(words[-1]) > 1 and words[-1].endswith("?") and words[-1][-2].isalnum() else 0
    return question + any(word.endswith((",", ":")) and is_plain_word(word) for word in words)
