"""Finds tools by words of a question: the words of their names, descriptions and parameters, weighed by BM25.

A common word says little, a rare one much, and a word of the name more than one of the description. Pure.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from heapq import nlargest

from aish.types.tools import ToolSpec

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|[^\W\d_A-Za-z]+")
_IN_NAME, _IN_DESCRIPTION, _IN_PARAMETER = 3.0, 2.0, 1.0
# Saturation and length normalisation of BM25. Descriptions differ in length for reasons that say nothing, so the second
# is below the usual 0.75.
_K1, _B = 1.2, 0.5
_MAX_DESCRIPTION_CHARS = 1000
_MAX_PARAMETERS = 40
_ENDINGS = ("ations", "ation", "ings", "ing", "ments", "ment", "ies", "ed", "es", "s", "e", "ly")
_MIN_STEM_CHARS = 3
_COMMON_WORDS = """
    a about all an and are as at be by can could do does for from get give has have how i in is it me my need of on or
    please show tell that the there this to use using want what when where which who with would you your
"""
_COMMON = frozenset(_COMMON_WORDS.split())


class ToolIndex:
    def __init__(self, specs: Sequence[ToolSpec]) -> None:
        self._specs = specs
        self._counts = [_count_words(spec) for spec in specs]
        lengths = [sum(counts.values()) for counts in self._counts]
        average = sum(lengths) / len(lengths) if lengths else 1.0
        self._damping = [_K1 * (1 - _B + _B * length / (average or 1.0)) for length in lengths]
        found_in = Counter(word for counts in self._counts for word in counts)
        self._weights = {word: math.log(1 + (len(specs) - n + 0.5) / (n + 0.5)) for word, n in found_in.items()}

    def search(self, question: str, limit: int) -> list[ToolSpec]:
        """The tools that fit best, the best one first. Tools without a word of the question are left out."""
        words = {word for word in _words(question) if word in self._weights}
        scored = ((self._score(index, words), -index) for index in range(len(self._specs)))
        return [self._specs[-index] for score, index in nlargest(limit, scored) if score > 0]

    def _score(self, index: int, words: Iterable[str]) -> float:
        counts, damping = self._counts[index], self._damping[index]
        return sum(
            self._weights[word] * counts[word] * (_K1 + 1) / (counts[word] + damping)
            for word in words
            if word in counts
        )


def _count_words(spec: ToolSpec) -> dict[str, float]:
    counts: dict[str, float] = {}
    properties = spec.schema.get("properties")
    parameters = list(properties)[:_MAX_PARAMETERS] if isinstance(properties, dict) else []
    for weight, texts in (
        (_IN_NAME, (spec.name,)),
        (_IN_DESCRIPTION, (spec.description[:_MAX_DESCRIPTION_CHARS],)),
        (_IN_PARAMETER, parameters),
    ):
        for text in texts:
            for word in _words(text):
                counts[word] = counts.get(word, 0.0) + weight
    return counts


def _words(text: str) -> Iterator[str]:
    for found in _WORD.finditer(text):
        word = found[0].lower()
        if word not in _COMMON:
            yield _stem(word)


def _stem(word: str) -> str:
    """The word without a common ending of English, so that `releases` finds `release`."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _MIN_STEM_CHARS:
            return word.removesuffix(ending)
    return word
