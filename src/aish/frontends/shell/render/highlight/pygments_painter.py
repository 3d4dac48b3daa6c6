"""Highlights with Pygments, for languages without a tree-sitter grammar."""

from __future__ import annotations

import functools
from typing import Any

from aish.frontends.shell.render.highlight.highlighter import Span

# Names of fences that hold no code: a lexer would colour prose.
_PROSE = frozenset({"text", "plain", "plaintext", "txt", "output", "none", ""})


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
    window_chars = 600  # all of it is lexed again with each line

    def __init__(self, lexer: Any) -> None:
        self._lexer = lexer

    def spans(self, source: str, start: int) -> list[Span]:
        spans: list[Span] = []
        for at, token, text in self._lexer.get_tokens_unprocessed(source):
            end = at + len(text)
            if end > start and (name := _name(token)):
                spans.append((at, end, name))
        return spans


@functools.lru_cache(maxsize=512)
def _name(token: Any) -> str:
    """The name of this token type, or of its nearest parent that has one."""
    names = _names()
    while token is not None:
        if token in names:
            return names[token]
        token = token.parent
    return ""


@functools.cache
def _names() -> dict[Any, str]:
    from pygments.token import Comment, Generic, Keyword, Literal, Name, Number, Operator, String

    return {
        Comment: "comment", Comment.Preproc: "keyword", Keyword: "keyword", Keyword.Type: "type",
        Keyword.Constant: "constant", Operator.Word: "keyword", String: "string", Number: "number",
        Literal.Date: "number", Name.Function: "function", Name.Class: "type", Name.Tag: "key",
        Name.Attribute: "key", Name.Variable: "variable", Name.Constant: "constant", Generic.Deleted: "variable",
        Generic.Inserted: "string", Generic.Heading: "function", Generic.Subheading: "key", Generic.Prompt: "comment",
    }  # fmt: skip
