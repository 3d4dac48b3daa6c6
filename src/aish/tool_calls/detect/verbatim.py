"""Stretches of text in which nothing is a call, and how they end: inline code, fenced code, thinking.

A fence ends as Markdown has it: with a line of its own that holds nothing but the same mark, at least as long. A mark
in the middle of a line, or one with a language behind it, ends nothing. It does not know what a call looks like.
"""

from __future__ import annotations

import re
from functools import lru_cache

_MAX_INFO_CHARS = 200  # of the line that opens a fence; a longer one is no such line
_INFO_LINE = {mark: re.compile(rf"[^\n{mark}]{{0,{_MAX_INFO_CHARS}}}") for mark in "`~"}
_THINKING = ("think", "thinking", "thought", "reasoning")
THINKING = tuple(f"<{name}>" for name in _THINKING)


class Verbatim:
    """`end` is what ends it. `begun`: the very end of the text may be the beginning of that. `settled_by_more`: an end
    at the end of the text is one only if no more text comes."""

    def __init__(self, end: str, begun: str, *, settled_by_more: bool = False) -> None:
        self._end = re.compile(end)
        self._begun = re.compile(begun)
        self._settled_by_more = settled_by_more

    def find_end(self, text: str, pos: int, *, final: bool) -> tuple[int, bool]:
        """Up to where the text from `pos` on is settled, and whether the stretch ends there."""
        found = self._end.search(text, pos)
        if found is not None and (final or not self._settled_by_more or found.end() < len(text)):
            return found.end(), True
        begun = None if final else self._begun.search(text, pos)
        return (begun.start() if begun else len(text)), False


@lru_cache(maxsize=64)
def inline_code(mark: str) -> Verbatim:
    """It ends with its line at the latest."""
    return Verbatim(rf"{mark}|\n", rf"`{{1,{len(mark)}}}\Z")


@lru_cache(maxsize=256)
def fenced_code(mark: str, indent: int = 0) -> Verbatim:
    """`indent` is that of its first line: within a list, the closing mark may stand as far in as the code does."""
    before = rf"\n {{0,{max(3, indent)}}}"
    closing = rf"{before}{mark[0]}{{{len(mark)},}}[ \t\r]{{0,20}}(?=\n|\Z)"
    return Verbatim(closing, rf"{before}(?:{mark[0]}+[ \t\r]{{0,20}})?\Z", settled_by_more=True)


@lru_cache(maxsize=8)
def thinking(opener: str) -> Verbatim:
    closing = f"</{opener[1:]}"
    begun = "|".join(rf"{re.escape(closing[:length])}\Z" for length in range(len(closing) - 1, 0, -1))
    return Verbatim(re.escape(closing), begun)


def opening_line(mark: str) -> re.Pattern[str]:
    """What may follow the mark of a fence in its line."""
    return _INFO_LINE[mark[0]]
