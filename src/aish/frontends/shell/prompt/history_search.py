"""Searches the history for Ctrl-R: all words of the query must occur, or its letters in order (`gcm`: `git commit`).

The entries are joined to one text, newest first, so that a search is a few passes of `str.find` over it and stops when
the menu is full: 100 000 entries take 1 to 10 ms where a loop over them takes 30. `bench/shell.py` measures it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from aish.frontends.shell.prompt.history import HistoryEntry

MAX_FOUND = 50
_SEPARATOR = "\0"
_MAX_LOOSE_ENTRIES = 20_000  # the newest ones, among which letters in order are looked for: that is the slow part
_MIN_LOOSE_CHARS = 2
_MAX_SORTED = 1000  # more are not sorted but searched for again: those that begin with the query are many then
_SAMPLE_CHARS = 500_000  # in which the rarest word is determined


class HistoryIndex:
    """`cwd` limits it to what was run in that directory. Duplicates count once, as the newest."""

    def __init__(self, entries: Sequence[HistoryEntry], cwd: str | None = None) -> None:
        newest: dict[str, HistoryEntry] = {}
        for entry in reversed(entries):
            if (cwd is None or entry.cwd == cwd) and entry.line not in newest:
                newest[entry.line] = entry
        self._entries = list(newest.values())
        self._text = _SEPARATOR + _SEPARATOR.join(newest).lower() + _SEPARATOR
        self._starts: list[int] = []
        at = 0
        for line in newest:
            self._starts.append(at)
            at += len(line.lower()) + 1

    def __len__(self) -> int:
        return len(self._entries)

    def search(self, query: str, limit: int = MAX_FOUND) -> list[HistoryEntry]:
        """The best first: lines that begin with the query, then lines with a word that does, then others."""
        words = query.lower().replace(_SEPARATOR, "").split()
        if not words:
            return self._entries[:limit]
        found: dict[int, None] = {}
        for numbers in self._passes(query.lower().replace(_SEPARATOR, "").strip(), words):
            for number in numbers:
                found.setdefault(number)
                if len(found) >= limit:
                    return [self._entries[each] for each in found]
        return [self._entries[each] for each in found]

    def _passes(self, query: str, words: list[str]) -> Iterator[Iterable[int]]:
        some = list(islice(self._find(query, []), _MAX_SORTED))
        if len(some) < _MAX_SORTED:  # all of them
            yield sorted(some, key=lambda number: self._rank(number, query))
        else:
            yield self._find(_SEPARATOR + query, [])
            yield self._find(f" {query}", [])
            yield some
        if len(words) > 1:
            rarest = min(words, key=lambda word: (self._text.count(word, 0, _SAMPLE_CHARS), -len(word)))
            yield self._find(rarest, [word for word in words if word != rarest])
        if len(query) >= _MIN_LOOSE_CHARS:
            yield self._find_loosely("".join(words))

    def _rank(self, number: int, query: str) -> int:
        start, end = self._starts[number], self._end_of(number)
        if self._text.startswith(query, start + 1):
            return 0
        return 1 if self._text.find(f" {query}", start, end) >= 0 else 2

    def _find(self, word: str, others: list[str]) -> Iterator[int]:
        at = self._text.find(word)
        while at >= 0:
            number = self._number_at(at + 1 if word[0] == _SEPARATOR else at)
            end = self._end_of(number)
            if not others or all(self._text.find(other, self._starts[number], end) >= 0 for other in others):
                yield number
            at = self._text.find(word, end)

    def _find_loosely(self, letters: str) -> Iterator[int]:
        last = min(len(self._entries), _MAX_LOOSE_ENTRIES)
        end = self._end_of(last - 1) if last else 0
        gaps = "".join(f"[^{re.escape(letter)}\0]*{re.escape(letter)}" for letter in letters)
        pattern = re.compile(rf"\0{gaps}")
        at = 0
        while found := pattern.search(self._text, at, end):
            number = self._number_at(found.start() + 1)
            yield number
            at = self._end_of(number)

    def _number_at(self, at: int) -> int:
        """The entry at a place of the text."""
        return bisect_right(self._starts, at - 1) - 1

    def _end_of(self, number: int) -> int:
        """Where the separator after an entry stands."""
        return self._starts[number + 1] if number + 1 < len(self._starts) else len(self._text) - 1
