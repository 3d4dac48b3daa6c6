"""The model of a shell line: commands, words, structure. Spans are in bytes of the parsed text."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

import msgspec

Span: TypeAlias = tuple[int, int]


class Text(msgspec.Struct, frozen=True, gc=False):
    """Characters as the program gets them; unquoted ones may still be a tilde, a brace list or a glob."""

    text: str
    quoted: bool


class Parameter(msgspec.Struct, frozen=True):
    """`$name` or `${name…}`; `operator` follows the name, `operand` the operator."""

    name: str
    quoted: bool
    raw: str
    operator: str = ""
    operand: Word | None = None


class Substitution(msgspec.Struct, frozen=True):
    """`$(…)` and backticks; with `direction` `<` or `>` a process substitution."""

    script: Block
    quoted: bool
    raw: str
    direction: str = ""


class Opaque(msgspec.Struct, frozen=True):
    """A part whose value is not computed, such as arithmetic, with the scripts inside it."""

    raw: str
    quoted: bool
    words: tuple[Word, ...] = ()
    arithmetic: bool = False


Part: TypeAlias = Text | Parameter | Substitution | Opaque


class Word(msgspec.Struct, frozen=True):
    parts: tuple[Part, ...]
    raw: str
    span: Span
    # The whole value, if it is plain text without expansions.
    literal: str | None = None


class Assignment(msgspec.Struct, frozen=True):
    name: str
    value: tuple[Word, ...]  # several for an array
    span: Span
    append: bool = False
    indexed: bool = False


class Redirect(msgspec.Struct, frozen=True):
    """`operator` is `<`, `>`, `>>`, `>|`, `&>`, `>&`, `<<`, `<<<` … For `<<` the target is the body."""

    operator: str
    target: Word | None
    span: Span
    descriptor: str = ""


class Simple(msgspec.Struct, frozen=True):
    words: tuple[Word, ...]
    assignments: tuple[Assignment, ...]
    redirects: tuple[Redirect, ...]
    span: Span


class BlockKind(StrEnum):
    SEQUENCE = "sequence"
    PIPELINE = "pipeline"
    SUBSHELL = "subshell"
    GROUP = "group"
    FOR = "for"
    WHILE = "while"
    IF = "if"
    CASE = "case"
    FUNCTION = "function"
    TEST = "test"
    ARITHMETIC = "arithmetic"
    BROKEN = "broken"  # a part that could not be parsed


class Block(msgspec.Struct, frozen=True):
    """A node with other statements. `words` are a loop's list, a case's subject or a test's operands."""

    kind: BlockKind
    body: tuple[Node, ...]
    span: Span
    words: tuple[Word, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    name: str = ""  # of the function or the loop variable


Node: TypeAlias = Simple | Block
