"""Stretches of text and how they end: a bracketed value; and inline code, fenced code or thinking, where nothing is a
call.

A bracketed value is followed to its closing bracket piece by piece, and each character is read once. Strings hide
brackets. A bracket that closes an outer one closes the inner ones with it; one that closes nothing is skipped.

A fence ends as in Markdown: with a line that has only the same mark, at least as long. A mark in the middle of a line,
or with a language behind it, does not end it.
"""

from __future__ import annotations

import re
from functools import lru_cache

from aish.tool_calls.repair.lenient_json import QUOTES

_STEP = re.compile(f"[{''.join(QUOTES)}{{}}\\[\\]()]")
_IN_STRING = {opening: re.compile(rf"[{closing}\\]") for opening, closing in QUOTES.items()}
_OPENERS = {"}": "{", "]": "[", ")": "("}
_BEFORE_STRING = frozenset("{[(,:=;")  # elsewhere only a double quote begins a string; others are apostrophes


class BracketSpan:
    def __init__(self) -> None:
        self._open: list[str] = []
        self._quote = ""
        self._escaped = False
        self._last = ""  # the last character that is not white space

    @property
    def in_string(self) -> bool:
        return bool(self._quote)

    def feed(self, piece: str) -> int:
        """Returns the position in the piece just after the closing bracket, or -1."""
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
        """Whether the value ends with this bracket."""
        self._last = char
        opener = _OPENERS.get(char)
        if opener is None:
            self._open.append(char)
        elif opener in self._open:
            while self._open.pop() != opener:
                pass
        return not self._open


_MAX_INFO_CHARS = 200  # of the line that opens a fence; a longer line opens none
_INFO_LINE = {mark: re.compile(rf"[^\n{mark}]{{0,{_MAX_INFO_CHARS}}}") for mark in "`~"}
_THINKING = ("think", "thinking", "thought", "reasoning")
THINKING = tuple(f"<{name}>" for name in _THINKING)


class VerbatimSpan:
    """`end` matches its end. `begun` matches a possible beginning of the end at the end of the text.
    `may_grow`: an end at the end of the text counts only if no more text comes."""

    def __init__(self, end: str, begun: str, *, may_grow: bool = False) -> None:
        self._end = re.compile(end)
        self._begun = re.compile(begun)
        self._may_grow = may_grow

    def find_end(self, text: str, pos: int, *, final: bool) -> tuple[int, bool]:
        """Returns the position up to which the text from `pos` on is decided, and whether the stretch ends there."""
        found = self._end.search(text, pos)
        if found is not None and (final or not self._may_grow or found.end() < len(text)):
            return found.end(), True
        begun = None if final else self._begun.search(text, pos)
        return (begun.start() if begun else len(text)), False


@lru_cache(maxsize=64)
def inline_code(mark: str) -> VerbatimSpan:
    """Ends with its line at the latest."""
    return VerbatimSpan(rf"{mark}|\n", rf"`{{1,{len(mark)}}}\Z")


@lru_cache(maxsize=256)
def fenced_code(mark: str, indent: int = 0) -> VerbatimSpan:
    """`indent` is that of its first line: in a list, the closing mark may be indented as far as the code."""
    before = rf"\n {{0,{max(3, indent)}}}"
    closing = rf"{before}{mark[0]}{{{len(mark)},}}[ \t\r]{{0,20}}(?=\n|\Z)"
    return VerbatimSpan(closing, rf"{before}(?:{mark[0]}+[ \t\r]{{0,20}})?\Z", may_grow=True)


@lru_cache(maxsize=8)
def thinking(opener: str) -> VerbatimSpan:
    closing = f"</{opener[1:]}"
    begun = "|".join(rf"{re.escape(closing[:length])}\Z" for length in range(len(closing) - 1, 0, -1))
    return VerbatimSpan(re.escape(closing), begun)


def opening_line(mark: str) -> re.Pattern[str]:
    """What may follow the mark of a fence in its line."""
    return _INFO_LINE[mark[0]]
