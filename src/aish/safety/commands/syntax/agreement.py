"""Compares two readings of a line, the parser's tree and the plain grammar's, word for word.

A line may be proved read-only, or allowed by its words, only if they agree: if a parser reads a line differently from
bash, its proof is about another line.
"""

from __future__ import annotations

import msgspec

from aish.safety.commands.syntax.model import (
    Assignment,
    Block,
    BlockKind,
    Node,
    Opaque,
    Parameter,
    Part,
    Redirect,
    Substitution,
    Text,
    Word,
)
from aish.safety.commands.syntax.parser import ParsedScript, parse
from aish.safety.commands.syntax.plain_grammar import read_plain
from aish.safety.commands.syntax.plain_words import Outside

Outline = tuple[object, ...]


class Agreement(msgspec.Struct, frozen=True):
    """`doubt` says why the readings may differ, or is empty. `plain` is the plain grammar's reading, None if the
    line is outside of it."""

    doubt: str
    plain: Block | None = None


def compare_readings(text: str, parsed: ParsedScript) -> Agreement:
    try:
        plain, operators = read_plain(text)
    except Outside as exc:
        return Agreement(f"holds what cannot be read for certain: {exc}")
    if sorted(parsed.operators) == sorted(operators) and _outline_children(parsed.script) == _outline_children(plain):
        return Agreement("", plain)
    return Agreement("can be read in two ways", plain)


def is_certain(text: str, parsed: ParsedScript) -> bool:
    return parsed.sound and not compare_readings(text, parsed).doubt


def is_whole(alias: str) -> bool:
    """Whether an alias's text is complete: it has no blank at its end, which would make the next word an alias, too,
    and no comment or quote that continues in the following text. Raises TooBig."""
    if not alias or alias[-1].isspace() or "#" in alias or "\\" in alias:
        return False
    return is_certain(alias, parse(alias))


def _outline_children(block: Block) -> list[Outline]:
    """Flattens nested sequences: their limits are given by the operators."""
    found: list[Outline] = []
    for node in block.body:
        if isinstance(node, Block) and node.kind is BlockKind.SEQUENCE and not node.words and not node.redirects:
            found += _outline_children(node)
        else:
            found.append(_outline(node))
    return found


def _outline(node: Node) -> Outline:
    redirects = tuple(_outline_redirect(redirect) for redirect in node.redirects)
    if not isinstance(node, Block):
        assignments = tuple(_outline_assignment(assignment) for assignment in node.assignments)
        words = node.words
        if len(words) > 1 and words[0].raw == "[" and words[-1].raw == "]" and not assignments:
            return BlockKind.TEST, tuple(_outline_word(word) for word in words[1:-1]), redirects
        return "command", assignments, tuple(_outline_word(word) for word in words), redirects
    words_of = tuple(_outline_word(word) for word in node.words)
    if node.kind is BlockKind.TEST and node.name == "[" and not node.body:
        return BlockKind.TEST, words_of, redirects
    return node.kind, node.name, words_of, redirects, _outline_children(node)


def _outline_assignment(assignment: Assignment) -> Outline:
    values = tuple(_outline_word(word) for word in assignment.value)
    return assignment.name, assignment.append, assignment.indexed, assignment.span, values


def _outline_redirect(redirect: Redirect) -> Outline:
    target = _outline_word(redirect.target) if redirect.target is not None else None
    return redirect.operator, redirect.descriptor, redirect.span[0], target


def _outline_word(word: Word) -> Outline:
    return (word.span, word.literal) if word.literal is not None else (word.span, *_outline_parts(word.parts))


def _outline_parts(parts: tuple[Part, ...]) -> list[Outline]:
    found: list[Outline] = []
    for part in parts:
        if not isinstance(part, Text):
            found.append(_outline_expansion(part))
        elif found and found[-1][0] is part.quoted:
            found[-1] = part.quoted, f"{found[-1][1]}{part.text}"
        else:
            found.append((part.quoted, part.text))
    return found


def _outline_expansion(part: Parameter | Substitution | Opaque) -> Outline:
    if isinstance(part, Substitution):
        return "substitution", part.quoted, part.raw, part.direction, _outline_children(part.script)
    if isinstance(part, Parameter):
        return "parameter", part.quoted, part.raw, part.name, part.operator
    return "opaque", part.quoted, part.raw, part.arithmetic
