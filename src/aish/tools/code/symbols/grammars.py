"""Tree-sitter grammars, one wheel for each language, loaded at first use. Nothing is downloaded.

Text is passed as ASCII, with a substitute for each other character (a letter if it may be part of a name): some
scanners fail on other characters, and so one byte is one character. Parsing has a time limit, because error recovery on
text that is not code can take very long.
"""

from __future__ import annotations

import functools
import importlib
import re
import warnings
from typing import TYPE_CHECKING, Any

from aish.errors import ToolError

if TYPE_CHECKING:
    import tree_sitter

_MAX_PARSE_US = 500_000
_BEYOND = re.compile(r"[^\x00-\x7f]")


@functools.cache
def find_grammar(name: str) -> tree_sitter.Language | None:
    """Returns None if the wheel is not installed or was built for another tree-sitter."""
    try:
        import tree_sitter

        wheel: Any = importlib.import_module(f"tree_sitter_{'typescript' if name == 'tsx' else name}")
        own = f"language_{name}"
        return tree_sitter.Language(getattr(wheel, own)() if hasattr(wheel, own) else wheel.language())
    except (ImportError, AttributeError, ValueError):
        return None


def parse(language: tree_sitter.Language, text: str) -> tree_sitter.Tree:
    """Raises ToolError if parsing takes too long."""
    try:
        return _parser(language).parse(_plain(text))
    except ValueError as exc:
        _parser.cache_clear()
        raise ToolError("the file cannot be parsed in time; it may be no code") from exc


def _plain(text: str) -> bytes:
    if not text.isascii():
        text = _BEYOND.sub(lambda found: "x" if f"x{found[0]}".isidentifier() else "?", text)
    return text.encode("ascii")


@functools.lru_cache(maxsize=16)
def _parser(language: tree_sitter.Language) -> tree_sitter.Parser:
    import tree_sitter

    parser = tree_sitter.Parser(language)
    with warnings.catch_warnings():
        # Deprecated for `progress_callback`, which crashes the interpreter in 0.25.2.
        warnings.simplefilter("ignore", DeprecationWarning)
        parser.timeout_micros = _MAX_PARSE_US  # type: ignore[misc]  # the stubs are outdated
    return parser
