"""Colours for code, line by line as it arrives.

A fence names a language; its parser is loaded then, and not before: tree-sitter where there is a grammar wheel, else
Pygments, nothing where neither is installed. Only colours come from a parser: what is shown is the line itself, cut
into pieces that are put together again by `line`, so a parser that is wrong cannot change text.
"""

from __future__ import annotations

import re
from typing import Protocol

from aish.frontends.shell.render.styles import PLAIN, SYNTAX, Run

_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
_LASTING = frozenset({"string", "comment"})

# So often a parser may give up on a block: each time costs milliseconds.
_MAX_TOO_HARD = 3

Span = tuple[int, int, str]


class TooHard(Exception):
    """A parser has given up on what it was shown, and begins anew with the next."""


class Painter(Protocol):
    """Knows a language. It is shown `window_chars` at once: more would make each line dearer."""

    window_chars: int

    def spans(self, source: str, start: int) -> list[Span]:
        """What is what from `start` on: begin, end and a name of `styles.SYNTAX`, inner things after outer ones."""


class LineHighlighter:
    """One block of code. Parsers are given ASCII only, a letter standing in for each other character: scanners of some
    grammars crash on others (tree-sitter-bash calls isdigit() on code points), and so every offset is that of the text.
    """

    def __init__(self, painter: Painter) -> None:
        self._painter: Painter | None = painter
        self._source = ""
        self._too_hard = 0

    def line(self, text: str) -> list[Run]:
        if self._painter is None:
            return [(text, PLAIN)]
        start = len(self._source)
        self._source += _BEYOND_ASCII.sub("x", text) + "\n"
        try:
            spans = self._painter.spans(self._source, start)
            if len(self._source) > self._painter.window_chars:
                self._trim(self._painter)
        except TooHard:
            self._source = ""
            self._too_hard += 1
            self._painter = None if self._too_hard == _MAX_TOO_HARD else self._painter
            return [(text, PLAIN)]
        except Exception:  # a lexer that fails must not take the reply with it
            self._painter = None
            return [(text, PLAIN)]
        return _runs(text, spans, start)

    def _trim(self, painter: Painter) -> None:
        """Forget all but the last lines. A string or comment that began before them keeps its first line."""
        source = self._source
        cut = _outermost_line(source, len(source) - painter.window_chars // 3)
        opening = ""
        for begin, end, name in painter.spans(source, cut):
            if begin < cut < end and name in _LASTING:
                opening = source[begin : source.find("\n", begin) + 1]
                break
        self._source = opening + source[cut:]


def _outermost_line(source: str, at: int) -> int:
    """Where the least indented line after this place begins."""
    best, least = len(source), 1000
    at = source.find("\n", max(0, at)) + 1
    while 0 < at < len(source):
        end = source.find("\n", at)
        line = source[at:end]
        indent = len(line) - len(line.lstrip())
        if line.strip() and indent < least:
            best, least = at, indent
        at = end + 1
    return best


def _runs(text: str, spans: list[Span], start: int) -> list[Run]:
    names = [""] * len(text)
    for begin, end, name in spans:
        begin, end = max(0, begin - start), min(len(text), end - start)
        if begin < end:
            names[begin:end] = [name] * (end - begin)
    runs: list[Run] = []
    at = 0
    for after in range(1, len(text) + 1):
        if after == len(text) or names[after] != names[at]:
            runs.append((text[at:after], SYNTAX.get(names[at], PLAIN)))
            at = after
    return runs


def find_highlighter(language: str) -> LineHighlighter | None:
    """For what a fence calls its language. None when nothing installed knows it."""
    name = language.lower()
    painter = _find_grammar(name) or _find_lexer(name)
    return LineHighlighter(painter) if painter else None


def _find_grammar(name: str) -> Painter | None:
    from aish.frontends.shell.render.highlight.tree_painter import find_tree_painter

    return find_tree_painter(name)


def _find_lexer(name: str) -> Painter | None:
    from aish.frontends.shell.render.highlight.pygments_painter import find_lexer_painter

    return find_lexer_painter(name)
