"""Highlights code line by line as it arrives.

The parser of a language is loaded when a fence first names it: tree-sitter if its grammar is installed, otherwise
Pygments, otherwise none. A parser supplies only colours; the text shown is always the line itself, so a parser that is
wrong cannot change it.
"""

from __future__ import annotations

import functools
import re
from typing import Any, Protocol

from aish.frontends.shell.render.styles import PLAIN, SYNTAX, Run

_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
_LASTING = frozenset({"string", "comment"})

# Attempts at a block that a parser cannot read in time: each costs milliseconds.
_MAX_TIMEOUTS = 3

Span = tuple[int, int, str]
# Names of fences that hold no code: a lexer would colour prose.
_PROSE = frozenset({"text", "plain", "plaintext", "txt", "output", "none", ""})


class ParseTimeout(Exception):
    """The parser ran out of time. It starts again with the next source."""


class Painter(Protocol):
    """Parses one language. It gets at most about `window_chars` at once: parsing more would make each line slower."""

    window_chars: int

    def spans(self, source: str, start: int) -> list[Span]:
        """The spans from `start` on: begin, end and a name of `styles.SYNTAX`, inner spans after outer ones."""


class LineHighlighter:
    """Highlights one block of code.

    Parsers get ASCII only, with a letter in place of any other character: some grammars crash on others
    (tree-sitter-bash calls isdigit() on code points), and offsets stay those of the text.
    """

    def __init__(self, painter: Painter) -> None:
        self._painter: Painter | None = painter
        self._source = ""
        self._timeouts = 0

    def line(self, text: str) -> list[Run]:
        if self._painter is None:
            return [(text, PLAIN)]
        start = len(self._source)
        self._source += _BEYOND_ASCII.sub("x", text) + "\n"
        try:
            spans = self._painter.spans(self._source, start)
            if len(self._source) > self._painter.window_chars:
                self._trim(self._painter)
        except ParseTimeout:
            self._source = ""
            self._timeouts += 1
            self._painter = None if self._timeouts == _MAX_TIMEOUTS else self._painter
            return [(text, PLAIN)]
        except Exception:  # a failing lexer must not end the reply
            self._painter = None
            return [(text, PLAIN)]
        return _runs(text, spans, start)

    def _trim(self, painter: Painter) -> None:
        """Drops all but the last lines. Keeps the first line of a string or comment that is still open there."""
        source = self._source
        cut = _find_outermost_line(source, len(source) - painter.window_chars // 3)
        opening = ""
        for begin, end, name in painter.spans(source, cut):
            if begin < cut < end and name in _LASTING:
                opening = source[begin : source.find("\n", begin) + 1]
                break
        self._source = opening + source[cut:]


def _find_outermost_line(source: str, at: int) -> int:
    """The start of the least indented line after an offset."""
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
    """A highlighter for the language that a fence names. None if no installed parser knows it."""
    from aish.frontends.shell.render.highlight.tree_painter import find_tree_painter

    name = language.lower()
    painter: Painter | None = find_tree_painter(name) or find_lexer_painter(name)
    return LineHighlighter(painter) if painter else None


def find_lexer_painter(name: str) -> LexerPainter | None:
    lexer = None if name in _PROSE else _lexer(name)
    return LexerPainter(lexer) if lexer else None


@functools.lru_cache(maxsize=64)
def _lexer(name: str) -> Any:
    try:
        from pygments.lexers import get_lexer_by_name
        from pygments.util import ClassNotFound
    except ImportError:
        return None
    try:
        return get_lexer_by_name(name, stripnl=False, ensurenl=False)
    except (ClassNotFound, ValueError):
        return None


class LexerPainter:
    """Highlights with Pygments, for languages without a tree-sitter grammar."""

    window_chars = 600  # all of it is lexed again with each line

    def __init__(self, lexer: Any) -> None:
        self._lexer = lexer

    def spans(self, source: str, start: int) -> list[Span]:
        spans: list[Span] = []
        for at, token, text in self._lexer.get_tokens_unprocessed(source):
            end = at + len(text)
            if end > start and (name := _token_name(token)):
                spans.append((at, end, name))
        return spans


@functools.lru_cache(maxsize=512)
def _token_name(token: Any) -> str:
    """The name of this token type, or of its nearest parent that has one."""
    names = _token_names()
    while token is not None:
        if token in names:
            return names[token]
        token = token.parent
    return ""


@functools.cache
def _token_names() -> dict[Any, str]:
    from pygments.token import Comment, Generic, Keyword, Literal, Name, Number, Operator, String

    return {
        Comment: "comment", Comment.Preproc: "keyword", Keyword: "keyword", Keyword.Type: "type",
        Keyword.Constant: "constant", Operator.Word: "keyword", String: "string", Number: "number",
        Literal.Date: "number", Name.Function: "function", Name.Class: "type", Name.Tag: "key",
        Name.Attribute: "key", Name.Variable: "variable", Name.Constant: "constant", Generic.Deleted: "variable",
        Generic.Inserted: "string", Generic.Heading: "function", Generic.Subheading: "key", Generic.Prompt: "comment",
    }  # fmt: skip
