"""Extracts the declarations of a text from its syntax tree: classes, functions, methods, types and top-level constants.

One set of rules serves all grammars, because they use similar names. Grammars come from one wheel for each language,
loaded at first use; nothing is downloaded. Text is passed as ASCII, with a substitute for each other character (a
letter if it may be part of a name): some scanners fail on other characters, and so one byte is one character. Parsing
has a time limit, because error recovery on text that is not code can take very long.
"""

from __future__ import annotations

import functools
import importlib
import re
import warnings
from typing import TYPE_CHECKING, Any

from aish.errors import ToolError
from aish.tools.code.backends.port import Symbol
from aish.tools.code.files.source import SourceText

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


def parse_tree(language: tree_sitter.Language, text: str) -> tree_sitter.Tree:
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


_KINDS = {
    "class_definition": "class", "class_declaration": "class", "abstract_class_declaration": "class",
    "class_specifier": "class", "struct_specifier": "struct", "union_specifier": "union", "struct_item": "struct",
    "enum_specifier": "enum", "enum_declaration": "enum", "enum_item": "enum", "trait_item": "trait",
    "impl_item": "impl", "mod_item": "module", "namespace_definition": "namespace", "internal_module": "namespace",
    "interface_declaration": "interface", "type_alias_declaration": "type", "type_item": "type",
    "type_definition": "type", "type_spec": "type", "alias_declaration": "type", "function_definition": "function",
    "function_declaration": "function", "generator_function_declaration": "function", "function_item": "function",
    "method_definition": "method", "method_declaration": "method", "method_signature": "method",
    "function_signature": "function", "abstract_method_signature": "method",
}  # fmt: skip
# Only at the top level of a file or a class, not inside functions.
_VALUE_KINDS = {
    "assignment": "variable", "variable_declarator": "variable", "public_field_definition": "field",
    "field_declaration": "field", "const_item": "constant", "static_item": "constant", "const_spec": "constant",
    "var_spec": "variable", "preproc_def": "macro", "preproc_function_def": "macro", "declaration": "declaration",
    "enumerator": "member", "enum_assignment": "member",
}  # fmt: skip
_FUNCTION_KINDS = frozenset({"function", "method"})
_NAME_NODES = frozenset({
    "identifier", "type_identifier", "property_identifier", "field_identifier", "namespace_identifier",
    "private_property_identifier", "word", "qualified_identifier", "destructor_name", "operator_name",
    "dot_index_expression", "method_index_expression", "nested_namespace_specifier",
})  # fmt: skip
_MAX_DEPTH = 200
_MAX_SYMBOLS = 5000
_TEXT_CHARS = 240
_SPACE = re.compile(r"\s+")


def outline(source: SourceText, language: tree_sitter.Language) -> tuple[Symbol, ...]:
    """Returns declarations in the order of the text. Raises ToolError if parsing takes too long."""
    import tree_sitter

    tree = parse_tree(language, source.text)
    found = tree_sitter.QueryCursor(_query(language)).captures(tree.root_node).get("it", [])
    builder = _OutlineBuilder(source)
    for node in sorted(found, key=lambda node: (node.start_byte, -node.end_byte)):
        if len(builder.symbols) >= _MAX_SYMBOLS:
            break
        builder.add_node(node)
    return tuple(builder.symbols)


@functools.lru_cache(maxsize=32)
def _query(language: tree_sitter.Language) -> tree_sitter.Query:
    """Builds a query for every kind of declaration that the grammar has."""
    import tree_sitter

    kinds = [kind for kind in (*_KINDS, *_VALUE_KINDS) if language.id_for_node_kind(kind, True)]
    return tree_sitter.Query(language, f"[{' '.join(f'({kind})' for kind in kinds)}] @it")


class _OutlineBuilder:
    """Collects declarations from outside in, and tracks the enclosing one."""

    def __init__(self, source: SourceText) -> None:
        self.symbols: list[Symbol] = []
        self._source = source
        self._enclosing: list[tuple[int, str, str]] = []  # end, name and kind of enclosing declarations

    def add_node(self, node: tree_sitter.Node) -> None:
        while self._enclosing and self._enclosing[-1][0] <= node.start_byte:
            self._enclosing.pop()
        _, container, inside = self._enclosing[-1] if self._enclosing else (0, "", "")
        kind = self._kind(node, inside)
        name = self._name(node) if kind else ""
        if name:
            self._add(node, name, kind, container, len(self._enclosing))
            self._enclosing.append((node.end_byte, name, kind))

    def _kind(self, node: tree_sitter.Node, inside: str) -> str:
        kind = _KINDS.get(node.type, "")
        if kind == "function" and inside in ("class", "struct", "impl", "trait", "interface"):
            return "method"
        if kind in ("class", "struct", "union", "enum") and node.type.endswith("_specifier"):
            return kind if node.child_by_field_name("body") else ""  # otherwise it only mentions the type
        if kind or inside in _FUNCTION_KINDS:
            return kind
        return _VALUE_KINDS.get(node.type, "")

    def _name(self, node: tree_sitter.Node) -> str:
        if node.type == "impl_item":
            return self._text(node.child_by_field_name("type"))
        named = node.child_by_field_name("name") or node.child_by_field_name("left")
        named = named or node.child_by_field_name("declarator")
        # In C the name is inside nested declarators: *f(void) declares f, which returns a pointer.
        for _ in range(_MAX_DEPTH):
            if named is None or named.type in _NAME_NODES:
                break
            named = named.child_by_field_name("declarator") or next(
                (child for child in named.named_children if child.type in _NAME_NODES or "declarator" in child.type),
                None,
            )
        return self._text(named)

    def _text(self, node: tree_sitter.Node | None) -> str:
        return self._source.text[node.start_byte : node.end_byte] if node is not None else ""

    def _add(self, node: tree_sitter.Node, name: str, kind: str, container: str, depth: int) -> None:
        line, end_line = node.start_point[0] + 1, node.end_point[0] + 1
        text = _SPACE.sub(" ", self._source.line(line)).strip()[:_TEXT_CHARS]
        self.symbols.append(Symbol(name, kind, self._source.path, line, end_line, text, container, depth))
