"""Converts the tree of tree-sitter-bash to our model. Handles the grammar's node names and quirks; does not judge
danger.

A tree with errors is converted, too, so that danger inside it is found; `Parsed.sound` is then False, and nothing may
be proved from it. Bounds are checked before parsing.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

import msgspec

from aish.safety.commands.bounds import MAX_BYTES, MAX_MARKS, MAX_NODES, MAX_PARSED_BYTES, TooBig
from aish.safety.commands.syntax.model import Assignment, Block, BlockKind, Node, Redirect, Simple, Span, Word
from aish.safety.commands.syntax.word_reader import WORD_TYPES, WordReader, text_word

if TYPE_CHECKING:
    import tree_sitter


Operators = tuple[tuple[int, str], ...]


class ParsedScript(msgspec.Struct, frozen=True):
    """`operators` are the tokens between commands, including keywords, with their positions."""

    script: Block
    sound: bool
    operators: Operators = ()


# For the shell every byte beyond ASCII is part of a word, so a letter replaces it. The grammar's scanner treats some as
# blanks and crashes on others: tree-sitter-bash 0.25.1 calls isdigit() on code points (`{1` and U+E1A0F).
_AS_LETTERS = bytes(byte if byte < 0x80 else ord("x") for byte in range(256))
# A backslash at the start of a line: the grammar reads the line as more words of the previous one. `\rm` is a common
# way to bypass an alias, so letters replace the backslash and the escaped character, if neither could be a quote.
_ESCAPED_FIRST = re.compile(rb"(\n[ \t]*)\\[\w./-]")
_QUOTED_HEREDOC = re.compile(
    rb"(?P<first><<-?\s*(?P<quote>['\"])(?P<word>\w+)(?P=quote)[^\n]*\n)(?s:.*?)(?P<last>^\t*(?P=word)$)", re.MULTILINE
)


@functools.cache
def _parser() -> tree_sitter.Parser:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def parse(text: str) -> ParsedScript:
    """Raises TooBig. The text must not contain lone surrogates."""
    source = text.encode()
    if len(source) > MAX_BYTES:
        raise TooBig("the line is too long to check")
    masked = source if len(source) <= MAX_PARSED_BYTES else _mask_heredocs(source)
    sound = masked is source
    masked = masked if text.isascii() else masked.translate(_AS_LETTERS)
    if b"\\" in masked:
        masked = _ESCAPED_FIRST.sub(rb"\1xx", masked)
    if any(masked.count(mark) > limit for mark, limit in MAX_MARKS.items()):
        raise TooBig("the line has too many parts to check")
    root = _parser().parse(masked).root_node
    if root.descendant_count > MAX_NODES:
        raise TooBig("the line has too many parts to check")
    reader = _Reader(source)
    body = reader.statements(root.children, 0)
    if not _BETWEEN.fullmatch(source, root.children[-1].end_byte if root.children else 0):
        reader.is_odd = True
    script = Block(BlockKind.SEQUENCE, body, (0, len(source)))
    return ParsedScript(script, not root.has_error and not reader.is_odd and sound, tuple(reader.operators))


def _mask_heredocs(source: bytes) -> bytes:
    """Bodies of quoted heredocs are plain text for the shell, so they are hidden from the parser."""
    masked = bytearray(source)
    outside = len(source)
    for match in _QUOTED_HEREDOC.finditer(source):
        body = slice(match.end("first"), match.start("last"))
        masked[body] = bytes(10 if byte == 10 else 120 for byte in source[body])
        outside -= body.stop - body.start
    if outside > MAX_PARSED_BYTES:
        raise TooBig("the line is too long to check")
    return bytes(masked)


# What may stand between two tokens without being one itself.
_BETWEEN = re.compile(rb"(?:[ \t\n;&]|\\\n)*")
_WITHIN = re.compile(rb"(?:[ \t]|\\\n)*")
_UNQUOTED = {ord(mark): None for mark in "'\"\\"}
_LISTS = {"list": BlockKind.SEQUENCE, "program": BlockKind.SEQUENCE, "negated_command": BlockKind.SEQUENCE}
_COMPOUND = {
    "subshell": BlockKind.SUBSHELL,
    "compound_statement": BlockKind.GROUP,
    "while_statement": BlockKind.WHILE,
    "if_statement": BlockKind.IF,
    "case_statement": BlockKind.CASE,
    "for_statement": BlockKind.FOR,
    "c_style_for_statement": BlockKind.FOR,
}
_NESTED = frozenset({"do_group", "elif_clause", "else_clause", "case_item"})
_REDIRECTS = frozenset({"file_redirect", "herestring_redirect", "heredoc_redirect"})


class _Reader(WordReader):
    """Converts one tree. `is_odd` is set if the tree leaves out something that it should not."""

    def reparse(self, text: str) -> Block:
        return parse(text).script

    def statements(self, nodes: list[tree_sitter.Node], position: int) -> tuple[Node, ...]:
        found: list[Node] = []
        for node in nodes:
            position = self._after(node, position)
            statement = self.statement(node)
            if statement is not None:
                found.append(statement)
        return tuple(found)

    def _after(self, node: tree_sitter.Node, position: int, blanks: re.Pattern[bytes] = _BETWEEN) -> int:
        """Returns where the node ends. Anything but blanks before it was dropped by the grammar."""
        gap = self.source[position : node.start_byte]
        if gap and gap != b" " and not blanks.fullmatch(gap):
            self.is_odd = True
        return max(position, node.end_byte)

    def statement(self, node: tree_sitter.Node) -> Node | None:
        kind = node.type
        if kind == "command":
            return self._command(node)
        if not node.is_named:
            if kind != "\n":
                self.operators.append((node.start_byte, kind))
            return None
        if kind == "comment":
            return None
        self.enter_nesting()
        try:
            return self._other(node, kind)
        finally:
            self.leave_nesting()

    def _other(self, node: tree_sitter.Node, kind: str) -> Node | None:
        children = node.children
        if kind in _LISTS:
            return Block(BlockKind.SEQUENCE, self.statements(children, node.start_byte), node.byte_range)
        if kind == "pipeline":
            return Block(BlockKind.PIPELINE, self.statements(children, node.start_byte), node.byte_range)
        if kind == "redirected_statement":
            return self._redirected_statement(node)
        if kind in _COMPOUND:
            return self._compound(node, _COMPOUND[kind])
        if kind in _NESTED:
            return Block(BlockKind.SEQUENCE, self._inner(children), node.byte_range, self._own_words(children))
        if kind == "function_definition":
            return self._function(node)
        if kind == "test_command":
            return self._test(node)
        if kind in ("declaration_command", "unset_command", "variable_assignment", "variable_assignments"):
            return self._command(node)
        if kind in WORD_TYPES:
            return Simple((self.word(node),), (), (), node.byte_range)
        return Block(BlockKind.BROKEN, self._inner(children), node.byte_range)

    def _command(self, node: tree_sitter.Node) -> Simple:
        words: list[Word] = []
        assignments: list[Assignment] = []
        redirects: list[Redirect] = []
        position = node.start_byte
        for child in [node] if node.type == "variable_assignment" else node.children:
            position = self._after(child, position, _WITHIN)
            kind = child.type
            if kind == "command_name":
                words.extend(self.word(inner) for inner in child.children if inner.end_byte > inner.start_byte)
            elif kind == "variable_assignment":
                assignments.append(self.assignment(child))
            elif kind in _REDIRECTS:
                more, extra = self._redirect(child)[:2]
                redirects += more
                words += extra
            elif child.end_byte > child.start_byte:
                words.append(self.word(child))
        return Simple(self.merge_words(words), tuple(assignments), tuple(redirects), node.byte_range)

    def _compound(self, node: tree_sitter.Node, kind: BlockKind) -> Block:
        children = node.children
        name = ""
        if kind is BlockKind.GROUP and children and children[0].type == "((":
            return Block(BlockKind.ARITHMETIC, (), node.byte_range, self.tokens(node))
        if kind is BlockKind.FOR:
            variable = node.child_by_field_name("variable")
            name = self.text(variable) if variable is not None else ""
            if node.type == "c_style_for_statement":
                name = "(("
        return Block(kind, self._inner(children), node.byte_range, self._own_words(children), name=name)

    def _inner(self, children: list[tree_sitter.Node]) -> tuple[Node, ...]:
        found: list[Node] = []
        position = children[0].start_byte if children else 0
        for child in children:
            position = self._after(child, position)
            if child.type not in WORD_TYPES and child.type not in _REDIRECTS:
                statement = self.statement(child)
                if statement is not None:
                    found.append(statement)
        return tuple(found)

    def _own_words(self, children: list[tree_sitter.Node]) -> tuple[Word, ...]:
        return self.merge_words([self.word(child) for child in children if child.type in WORD_TYPES])

    def _test(self, node: tree_sitter.Node) -> Block:
        """`[ a > b ]` is a command with a redirect for the shell, but a comparison for the grammar."""
        opening, raw = node.children[0].type, self.source[node.start_byte : node.end_byte]
        body: tuple[Node, ...] = ()
        if opening == "[" and (b">" in raw or b"<" in raw):
            self.is_odd = True
            padding = " " * len(self.source[: node.start_byte].decode("utf-8", "replace"))
            body = self.reparse(f"{padding}t{raw[1:-1].decode('utf-8', 'replace')}").body
        return Block(BlockKind.TEST, body, node.byte_range, self.tokens(node), name=opening)

    def _function(self, node: tree_sitter.Node) -> Block:
        name = node.child_by_field_name("name")
        body = [child for child in node.children if child != name]
        redirects = [item for child in body if child.type in _REDIRECTS for item in self._redirect(child)[0]]
        title = self.text(name) if name is not None else ""
        return Block(BlockKind.FUNCTION, self._inner(body), node.byte_range, redirects=tuple(redirects), name=title)

    def _redirected_statement(self, node: tree_sitter.Node) -> Node:
        """The grammar puts what follows `<<EOF` on the same line (more words, a pipe, `&&`) below the redirect."""
        body: Node | None = None
        redirects: list[Redirect] = []
        words: list[Word] = []
        after: list[Node] = []
        piped = False
        for child in node.children:
            if child.type in _REDIRECTS:
                more, extra, rest, pipe = self._redirect(child)
                redirects += more
                words += extra
                after += rest
                piped = piped or pipe
            else:
                body = self.statement(child) or body
        first = self._attach(body, redirects, words, node.byte_range)
        if not after:
            return first
        return Block(BlockKind.PIPELINE if piped else BlockKind.SEQUENCE, (first, *after), node.byte_range)

    def _attach(self, body: Node | None, redirects: list[Redirect], words: list[Word], span: Span) -> Node:
        if body is None:
            return Simple(tuple(words), (), tuple(redirects), span)
        if isinstance(body, Simple):
            return Simple((*body.words, *words), body.assignments, (*body.redirects, *redirects), span)
        if body.kind in (BlockKind.PIPELINE, BlockKind.SEQUENCE) and body.body:
            last = self._attach(body.body[-1], redirects, words, (body.body[-1].span[0], span[1]))
            return msgspec.structs.replace(body, body=(*body.body[:-1], last), span=span)
        self.is_odd = self.is_odd or bool(words)
        return msgspec.structs.replace(
            body, redirects=(*body.redirects, *redirects), words=(*body.words, *words), span=span
        )

    def _redirect(self, node: tree_sitter.Node) -> tuple[list[Redirect], list[Word], list[Node], bool]:
        """Returns the redirects, then what the grammar wrongly puts inside: words, statements, and whether those are
        piped."""
        if node.type == "heredoc_redirect":
            return self._heredoc(node)
        operator, descriptor = "", ""
        targets: list[Word] = []
        for child in node.children:
            if child.type == "file_descriptor":
                descriptor = self.text(child)
            elif child.is_named:
                targets.append(self.word(child))
            else:
                operator += self.text(child).strip()
        # `> a b` is a redirect and a word, but the grammar reads both as targets.
        target = targets[0] if targets else None
        return [Redirect(operator, target, node.byte_range, descriptor)], targets[1:], [], False

    def _heredoc(self, node: tree_sitter.Node) -> tuple[list[Redirect], list[Word], list[Node], bool]:
        redirects: list[Redirect] = []
        words: list[Word] = []
        after: list[Node] = []
        body = text_word("", node.byte_range)
        delimiter = ""
        quoted = piped = False
        for child in node.children:
            kind = child.type
            if kind == "heredoc_start":
                delimiter = self.text(child)
                quoted = any(mark in delimiter for mark in "'\"\\")
            elif kind == "heredoc_body":
                body = text_word(self.text(child), child.byte_range) if quoted else self.quoted_word(child)
            elif kind == "heredoc_end" and self.text(child).strip() != delimiter.translate(_UNQUOTED):
                # Without its end the grammar stops reading anywhere; the shell reads everything.
                body = self.unread_word(body.span[0], node.end_byte)
            elif kind in _REDIRECTS:
                more, extra = self._redirect(child)[:2]
                redirects += more
                words += extra
            elif kind in WORD_TYPES:
                words.append(self.word(child))
            elif child.is_named and kind not in ("heredoc_end", "file_descriptor"):
                piped = piped or kind == "pipeline"
                statement = self.statement(child)
                if isinstance(statement, Block) and kind == "pipeline":
                    after.extend(statement.body)
                elif statement is not None:
                    after.append(statement)
        redirects.append(Redirect("<<", body, node.byte_range))
        return redirects, words, after, piped
