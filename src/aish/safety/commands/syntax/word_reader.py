"""Converts words, strings, expansions and assignments of the tree to words of the model."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from aish.safety.commands.bounds import MAX_MERGES, MAX_NESTING, TooBig
from aish.safety.commands.syntax.model import (
    Assignment,
    Block,
    BlockKind,
    Node,
    Opaque,
    Parameter,
    Part,
    Span,
    Substitution,
    Text,
    Word,
)
from aish.safety.commands.syntax.quoting import decode_ansi, split_bare, unescape_backticks, unescape_quoted

if TYPE_CHECKING:
    import tree_sitter

_EXPANDED = frozenset(
    {"simple_expansion", "expansion", "command_substitution", "process_substitution", "arithmetic_expansion"}
)
WORD_TYPES = _EXPANDED | frozenset(
    {
        "word", "string", "raw_string", "ansi_c_string", "translated_string", "concatenation", "number",
        "brace_expression", "extglob_pattern", "regex", "array", "subscript", "variable_name", "test_operator",
        "special_variable_name",
    }
)  # fmt: skip
# What would still be run or expanded: the grammar misses some, such as backticks in a heredoc.
_LIVE = re.compile(r"(?<!\\)(?:\\\\)*(`|\$[({\[]|\$[A-Za-z_])")
_NAME = re.compile(r"[A-Za-z_]\w*")
_BACKTICKS = re.compile(r"`((?:[^`\\]|\\.)*)`", re.DOTALL)
# Unquoted, these are changed by the shell before a program gets them.
_ALIVE = frozenset("*?[]{}~")


def text_word(text: str, span: Span) -> Word:
    return Word((Text(text, quoted=True),), text, span, text)


class WordReader:
    """The part of the reader that builds words. Counts the depth, so that hostile nesting raises TooBig instead of
    crashing."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self.is_odd = False
        self.operators: list[tuple[int, str]] = []
        self._depth = 0
        self._merges = 0

    def statements(self, nodes: list[tree_sitter.Node], position: int) -> tuple[Node, ...]:
        raise NotImplementedError

    def reparse(self, text: str) -> Block:
        raise NotImplementedError

    def enter_nesting(self) -> None:
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise TooBig("the line is nested too deeply to check")

    def leave_nesting(self) -> None:
        self._depth -= 1

    def text(self, node: tree_sitter.Node) -> str:
        return self.source[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def word(self, node: tree_sitter.Node) -> Word:
        raw = self.text(node)
        span = node.byte_range
        kind = node.type
        if kind == "word" and "\n" in raw:
            self.is_odd = True
        if kind in ("word", "number", "test_operator", "variable_name") and _ALIVE.isdisjoint(raw):
            if "\\" not in raw and "$" not in raw and "`" not in raw:
                return Word((Text(raw, quoted=False),), raw, span, raw)
        elif kind == "raw_string":
            return Word((Text(raw[1:-1], quoted=True),), raw, span, raw[1:-1])
        self.enter_nesting()
        parts = tuple(self._parts(node, raw, quoted=False))
        self.leave_nesting()
        return Word(parts, raw, span, _literal(parts))

    def merge_words(self, words: list[Word]) -> tuple[Word, ...]:
        """Joins adjacent words, which are one word for the shell; the grammar splits `a$b/` at the end of a line."""
        whole: list[Word] = []
        for word in words:
            if not whole or word.span[0] != whole[-1].span[1]:
                whole.append(word)
                continue
            self.is_odd = True
            self._merges += 1
            if self._merges > MAX_MERGES:
                raise TooBig("the line has too many parts to check")
            before = whole.pop()
            parts, after = list(before.parts), list(word.parts)
            name = _NAME.match(word.raw)
            if name and before.raw.endswith("$"):
                parts[-1:] = [Parameter(name[0], quoted=False, raw=f"${name[0]}")]
                after = [Text(word.raw[name.end() :], quoted=False)]
            joined = tuple(parts + after)
            whole.append(Word(joined, before.raw + word.raw, (before.span[0], word.span[1]), _literal(joined)))
        return tuple(whole)

    def quoted_word(self, node: tree_sitter.Node) -> Word:
        """Reads the body of a heredoc with an unquoted delimiter: expansions are active, quotes are not."""
        parts = tuple(self._quoted_parts(node, node.start_byte, node.end_byte))
        return Word(parts, self.text(node), node.byte_range, _literal(parts))

    def unread_word(self, start: int, end: int) -> Word:
        """Reads text that the grammar did not parse, with the substitutions in it."""
        self.is_odd = True
        raw = self.source[start:end].decode("utf-8", "replace")
        return Word((Text(raw, quoted=True), *self._find_missed(raw, (start, end))), raw, (start, end))

    def _parts(self, node: tree_sitter.Node, raw: str, *, quoted: bool) -> list[Part]:
        kind = node.type
        if kind == "concatenation":
            return self._read_concatenation(node)
        if kind in ("string", "translated_string"):
            return self._read_string(node, raw)
        if kind == "raw_string":
            return [Text(raw[1:-1], quoted=True)]
        if kind == "ansi_c_string":
            return [Text(decode_ansi(raw[2:-1]), quoted=True)]
        if kind in _EXPANDED:
            return self._expansion(node, quoted=quoted)
        if node.child_count and kind != "brace_expression":
            return [Opaque(raw, quoted, self._words_within(node))]
        parts: list[Part] = [Text(text, protected or quoted) for text, protected in split_bare(raw)]
        return parts + self._find_missed(raw, node.byte_range)

    def _read_concatenation(self, node: tree_sitter.Node) -> list[Part]:
        parts: list[Part] = []
        position = node.start_byte
        for child in node.children:
            if child.start_byte > position and self.source[position : child.start_byte].strip(b"\\\n"):
                self.is_odd = True
            position = child.end_byte
            self.enter_nesting()
            parts += self._parts(child, self.text(child), quoted=False)
            self.leave_nesting()
        return parts

    def _read_string(self, node: tree_sitter.Node, raw: str) -> list[Part]:
        if node.type == "translated_string":
            inner = node.children[-1]
            return self._read_string(inner, self.text(inner))
        closed = len(raw) > 1 and raw.endswith('"')
        return self._quoted_parts(node, node.start_byte + 1, node.end_byte - closed) or [Text("", quoted=True)]

    def _quoted_parts(self, node: tree_sitter.Node, start: int, end: int) -> list[Part]:
        """Everything between the expansions is text: the grammar drops some of it from its own text nodes."""
        parts: list[Part] = []
        position = start
        for child in node.children:
            if child.type not in _EXPANDED:
                continue
            # The grammar includes blanks before an expansion.
            raw = self.source[child.start_byte : child.end_byte]
            begin = child.start_byte + len(raw) - len(raw.lstrip(b" \t\n"))
            self._add_text(parts, position, begin)
            parts += self._expansion(child, quoted=True)
            position = child.end_byte
        self._add_text(parts, position, end)
        return parts

    def _add_text(self, parts: list[Part], start: int, end: int) -> None:
        if end > start:
            text = self.source[start:end].decode("utf-8", "replace")
            parts.append(Text(unescape_quoted(text), quoted=True))
            parts += self._find_missed(text, (start, end))

    def _find_missed(self, raw: str, span: Span) -> list[Part]:
        """Finds substitutions that the grammar read as text. Nothing is proved then, but they are scanned."""
        if not _LIVE.search(raw):
            return []
        self.is_odd = True
        scripts = [self._reparse_nested(unescape_backticks(text), span) for text in _BACKTICKS.findall(raw)[:8]]
        return [Substitution(script, quoted=True, raw="`") for script in scripts]

    def _expansion(self, node: tree_sitter.Node, *, quoted: bool) -> list[Part]:
        raw = self.text(node).lstrip(" \t\n")
        kind = node.type
        if kind == "simple_expansion":
            return [Parameter(raw[1:], quoted, raw)]
        if kind == "expansion":
            return [self._read_braced(node, raw, quoted=quoted)]
        if kind == "arithmetic_expansion":
            return [Opaque(raw, quoted, self.tokens(node), arithmetic=True)]
        self.enter_nesting()
        script = self._script(node, raw)
        self.leave_nesting()
        direction = raw[0] if kind == "process_substitution" else ""
        return [Substitution(script, quoted, raw, direction)]

    def _script(self, node: tree_sitter.Node, raw: str) -> Block:
        if raw.startswith("`") and "\\" in raw:
            return self._reparse_nested(unescape_backticks(raw[1:-1]), node.byte_range)
        children = node.children
        if len(children) > 1 and children[1].type == "file_redirect":  # $(< file)
            self.is_odd = True
        return Block(BlockKind.SEQUENCE, self.statements(children, node.start_byte), node.byte_range)

    def _reparse_nested(self, text: str, span: Span) -> Block:
        """For the grammar, nested backticks are escaped text; their statements get the span of the whole."""
        self.is_odd = True
        if len(text) > len(self.source) or self._depth > 8:
            return Block(BlockKind.BROKEN, (), span)
        return self.reparse(text)

    def _read_braced(self, node: tree_sitter.Node, raw: str, *, quoted: bool) -> Part:
        """Reads `${name}`, `${name:-word}` and similar; anything else is opaque."""
        children = [child for child in node.children if child.type not in ("${", "}")]
        if len(children) == 1 and raw.endswith(("[@]}", "[*]}")):
            return Parameter(raw[2:-4], quoted=False, raw=raw, operator="[@]")
        if not children or children[0].type not in ("variable_name", "special_variable_name"):
            return Opaque(raw, quoted, self._words_within(node))
        name = self.text(children[0])
        rest = children[1:]
        if not rest:
            return Parameter(name, quoted, raw)
        operator = self.text(rest[0]).strip()
        words = [self.word(child) for child in rest[1:] if child.type in WORD_TYPES]
        return Parameter(name, quoted, raw, operator, _join_words(words, raw, node.byte_range))

    def _words_within(self, node: tree_sitter.Node) -> tuple[Word, ...]:
        return tuple(self.word(child) for child in node.children if child.is_named and child.type != "subscript")

    def tokens(self, node: tree_sitter.Node) -> tuple[Word, ...]:
        """Returns the operands and operators of a test or of arithmetic, in order, without the brackets."""
        found: list[Word] = []
        for child in node.children:
            if child.type in WORD_TYPES:
                found.append(self.word(child))
            elif child.child_count:
                self.enter_nesting()
                found.extend(self.tokens(child))
                self.leave_nesting()
            elif child.type not in ("[", "]", "[[", "]]", "((", "))", "$((", "$["):
                found.append(text_word(self.text(child), child.byte_range))
        return tuple(found)

    def assignment(self, node: tree_sitter.Node) -> Assignment:
        name = node.child_by_field_name("name")
        value = node.child_by_field_name("value")
        operator = any(child.type == "+=" for child in node.children)
        values: tuple[Word, ...] = ()
        if value is not None:
            array = value.type == "array"
            values = (
                tuple(self.word(child) for child in value.children if child.is_named) if array else (self.word(value),)
            )
        indexed = name is None or name.type == "subscript"
        if indexed and name is not None:
            values += self._words_within(name)
        return Assignment(self.text(name) if name is not None else "", values, node.byte_range, operator, indexed)


def _join_words(words: list[Word], raw: str, span: Span) -> Word:
    parts: list[Part] = []
    for index, word in enumerate(words):
        if index and word.span[0] > words[index - 1].span[1]:
            parts.append(Text(" ", quoted=False))
        parts += word.parts
    return Word(tuple(parts), raw, span)


def _literal(parts: tuple[Part, ...]) -> str | None:
    """Returns the value of plain text; None if the shell would still change it."""
    texts: list[str] = []
    for part in parts:
        if not isinstance(part, Text) or not (part.quoted or _ALIVE.isdisjoint(part.text)):
            return None
        texts.append(part.text)
    return "".join(texts)
