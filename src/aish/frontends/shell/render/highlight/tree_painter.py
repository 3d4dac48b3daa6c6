"""Highlights with tree-sitter. One set of rules serves all grammars, since they name nodes alike."""

from __future__ import annotations

import functools
import importlib
import re
import warnings
from typing import TYPE_CHECKING, Any

from aish.frontends.shell.render.highlight.highlighter import ParseTimeout, Span

if TYPE_CHECKING:
    import tree_sitter

# Languages whose grammar is the wheel tree_sitter_<name>. The one for YAML (0.7.2) is left out: hostile text makes it
# write out of bounds. Pygments has that language.
_WHEELS = frozenset({
    "bash", "c", "cpp", "css", "go", "html", "javascript", "json", "lua", "python", "rust", "sql", "toml", "typescript",
    "tsx",
})  # fmt: skip
_ALIASES = {
    "sh": "bash", "shell": "bash", "zsh": "bash", "ksh": "bash", "h": "c", "c++": "cpp", "cc": "cpp", "cxx": "cpp",
    "hpp": "cpp", "golang": "go", "htm": "html", "js": "javascript", "jsx": "javascript", "mjs": "javascript",
    "cjs": "javascript", "node": "javascript", "json5": "json", "jsonc": "json", "jsonl": "json", "py": "python",
    "python3": "python", "pyi": "python", "rs": "rust", "postgresql": "sql", "postgres": "sql", "sqlite": "sql",
    "mysql": "sql", "ts": "typescript",
}  # fmt: skip
_BLOCK_COMMENTS = {"html": ("<!--", "-->"), "lua": ("--[[", "]]")}
_SLASHED = ("c", "cpp", "css", "go", "javascript", "rust", "sql", "typescript", "tsx")
_BLOCK_COMMENTS |= dict.fromkeys(_SLASHED, ("/*", "*/"))
_MULTILINE_QUOTES = {"python": ('"""', "'''")} | dict.fromkeys(("javascript", "typescript", "tsx", "go"), ("`",))

_STRING = re.compile(
    r".*(?:string|string_literal|string_value|string_content|string_fragment|string_start|string_end|_content)$|"
    r"char_literal|character_literal|rune_literal|heredoc_body|regex|attribute_value|quoted_attribute_value|"
    r"double_quote_scalar|single_quote_scalar|block_scalar|system_lib_string|ansi_c_string|raw_string"
)
_NUMBER = re.compile(
    r"(?:integer|float|number|int|imaginary)(?:_literal|_value|_scalar)?$|(?:local|offset)_(?:date|time|date_time)$"
)
_CONSTANT = frozenset({
    "true", "false", "none", "null", "nil", "boolean", "undefined", "boolean_scalar", "null_scalar", "boolean_literal",
    "this", "self",
})  # fmt: skip
_TYPE = frozenset(["type_identifier", "primitive_type", "predefined_type", "type"])
_KEY = frozenset(["tag_name", "attribute_name", "property_name", "bare_key", "dotted_key"])
_KEYWORD = re.compile(r"[#@]?[A-Za-z_]+$")
_INTERPOLATION = frozenset(
    ["interpolation", "template_substitution", "simple_expansion", "expansion", "command_substitution"]
)
# Names of plain identifiers by their parent node and their field in it.
_NAMES = {
    ("function_definition", "name"): "function", ("function_declaration", "name"): "function",
    ("function_item", "name"): "function", ("method_definition", "name"): "function",
    ("method_declaration", "name"): "function", ("function_declarator", "declarator"): "function",
    ("call", "function"): "function", ("call_expression", "function"): "function",
    ("macro_invocation", "macro"): "function", ("class_definition", "name"): "type",
}  # fmt: skip
_KEYS = frozenset({("pair", "key"), ("block_mapping_pair", "key"), ("flow_pair", "key")})
# Real code takes a tenth of a millisecond. Error recovery in text that is no code can take forever, and all memory.
_MAX_PARSE_US = 20_000
# Deeper than real code is nested, and far from Python's own recursion limit.
_MAX_DEPTH = 120


def find_tree_painter(name: str) -> TreePainter | None:
    name = _ALIASES.get(name, name)
    language = _load(name) if name in _WHEELS else None
    return TreePainter(language, name) if language else None


@functools.cache
def _load(name: str) -> tree_sitter.Language | None:
    try:
        import tree_sitter

        wheel: Any = importlib.import_module(f"tree_sitter_{'typescript' if name == 'tsx' else name}")
        own = f"language_{name}"
        return tree_sitter.Language(getattr(wheel, own)() if hasattr(wheel, own) else wheel.language())
    except (ImportError, AttributeError, ValueError):  # not installed, or built for another tree-sitter
        return None


class TreePainter:
    """Parses incrementally as long as lines are only added."""

    window_chars = 3000

    def __init__(self, language: tree_sitter.Language, name: str) -> None:
        import tree_sitter

        self._parser = tree_sitter.Parser(language)
        with warnings.catch_warnings():
            # Deprecated in favour of `progress_callback`, which crashes the interpreter in 0.25.2.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._parser.timeout_micros = _MAX_PARSE_US  # type: ignore[misc]  # the stubs lag behind
        self._block_comment = _BLOCK_COMMENTS.get(name)
        self._quotes = _MULTILINE_QUOTES.get(name, ())
        self._parsed = b""
        self._tree: tree_sitter.Tree | None = None

    def spans(self, source: str, start: int) -> list[Span]:
        walk = _Walk(source, start, len(source))
        try:
            tree = self._parse(source)
        except ValueError as exc:  # the time limit
            self._parser.reset()
            self._tree, self._parsed = None, b""
            raise ParseTimeout(f"no parse of {len(source)} characters in time") from exc
        walk.visit(tree.walk(), "", "", depth=0)
        return walk.spans

    def _parse(self, source: str) -> tree_sitter.Tree:
        text = source.encode("ascii", "replace")
        if ending := self._find_missing_end(source):
            return self._parser.parse(text + ending.encode())
        tree = self._tree
        if tree and text.startswith(self._parsed):
            old, new = len(self._parsed), len(text)
            tree.edit(old, old, new, _point(self._parsed), _point(self._parsed), _point(text))
            self._tree = self._parser.parse(text, tree)
        else:
            self._tree = self._parser.parse(text)
        self._parsed = text
        return self._tree

    def _find_missing_end(self, source: str) -> str:
        """The end of a comment or string that is still open. With it appended, the parser already recognises the
        node."""
        if self._block_comment:
            opening, closing = self._block_comment
            if source.rfind(opening) > source.rfind(closing):
                return closing
        return next((quote for quote in self._quotes if source.count(quote) % 2), "")


def _point(text: bytes) -> tuple[int, int]:
    return text.count(b"\n"), len(text) - text.rfind(b"\n") - 1


class _Walk:
    """Collects spans from the part of a tree that lies between two offsets."""

    def __init__(self, source: str, start: int, end: int) -> None:
        self.spans: list[Span] = []
        self._source = source
        self._start = start
        self._end = end

    def visit(self, cursor: tree_sitter.TreeCursor, parent: str, outer: str, *, depth: int) -> None:
        """`parent` is the type of the parent node, `outer` the name of the span around this node."""
        node = cursor.node
        if node is None:
            return
        kind = node.type
        leaf = node.child_count == 0
        name = self._name(node, parent, cursor.field_name or "", outer, leaf=leaf)
        if name != outer:
            self.spans.append((node.start_byte, node.end_byte, name))
        if leaf or name in ("comment", "key") or depth == _MAX_DEPTH:
            return
        if cursor.goto_first_child_for_byte(self._start) is None:
            return
        while True:
            self.visit(cursor, kind, name, depth=depth + 1)
            if not cursor.goto_next_sibling():
                break
            child = cursor.node
            if child is None or child.start_byte >= self._end:
                break
        cursor.goto_parent()

    def _name(self, node: tree_sitter.Node, parent: str, field: str, outer: str, *, leaf: bool) -> str:
        kind = node.type
        if not node.is_named:
            return "keyword" if not outer and _KEYWORD.match(kind) else outer
        if kind in _INTERPOLATION:
            return "variable" if kind in ("simple_expansion", "expansion") else ""
        if (parent, field) in _KEYS:
            return "key"
        if leaf and (parent, field) in _NAMES:
            return _NAMES[parent, field]
        if kind == "literal":  # of SQL
            return "string" if self._source[node.start_byte] in "'\"" else "number"
        return _by_kind(kind) or outer


@functools.lru_cache(maxsize=2048)
def _by_kind(kind: str) -> str:
    if "comment" in kind:
        return "comment"
    if kind == "string" or _STRING.match(kind):
        return "string"
    if _NUMBER.match(kind):
        return "number"
    if kind in _CONSTANT:
        return "constant"
    if kind in _TYPE:
        return "type"
    if kind in _KEY:
        return "key"
    if kind == "variable_name":
        return "variable"
    if kind == "command_name":
        return "function"
    return "keyword" if kind.startswith("keyword_") or kind == "auto" else ""
