"""Follows a bracketed value to its closing bracket, piece by piece, each character looked at once.

Strings hide brackets. A bracket that closes an outer one closes the inner ones with it; one that closes nothing is
passed over. It does not judge what is inside.
"""

from __future__ import annotations

import re

from aish.tool_calls.repair.lenient_json import QUOTES

_STEP = re.compile(f"[{''.join(QUOTES)}{{}}\\[\\]()]")
_IN_STRING = {opening: re.compile(rf"[{closing}\\]") for opening, closing in QUOTES.items()}
_OPENERS = {"}": "{", "]": "[", ")": "("}
_BEFORE_STRING = frozenset("{[(,:=;")  # elsewhere a quote that is not a double one is a mark within words


class Span:
    def __init__(self) -> None:
        self._open: list[str] = []
        self._quote = ""
        self._escaped = False
        self._last = ""  # the last character that is not space

    @property
    def in_string(self) -> bool:
        return bool(self._quote)

    def feed(self, piece: str) -> int:
        """Where in the piece the value has ended, just after its bracket, or -1."""
        pos = 1 if self._escaped and piece else 0
        self._escaped = self._escaped and not piece
        while True:
            found = (_IN_STRING[self._quote] if self._quote else _STEP).search(piece, pos)
            if found is None:
                self._last = piece[pos:].rstrip()[-1:] or self._last
                return -1
            char, start, pos = found[0], found.start(), found.end()
            if self._quote:
                pos = self._within_string(piece, char, pos)
            elif char in _IN_STRING:
                self._begin_string(char, piece[:start])
            elif self._bracket(char):
                return pos

    def _within_string(self, piece: str, char: str, pos: int) -> int:
        if char != "\\":
            self._quote, self._last = "", char
            return pos
        self._escaped = pos == len(piece)
        return pos + 1

    def _begin_string(self, char: str, before: str) -> None:
        if char == '"' or (before.rstrip()[-1:] or self._last) in _BEFORE_STRING:
            self._quote = char

    def _bracket(self, char: str) -> bool:
        """Whether the value ends with it."""
        self._last = char
        opener = _OPENERS.get(char)
        if opener is None:
            self._open.append(char)
        elif opener in self._open:
            while self._open.pop() != opener:
                pass
        return not self._open
