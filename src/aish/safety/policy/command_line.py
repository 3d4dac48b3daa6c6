"""A command line as rules see it: the words of each command, and whether the line contains anything else.

Only a plain line (literal commands joined by `&&`, `||`, `;` or `|`, without redirections to files, substitutions or
assignments) can be allowed by the words of its commands; anything else may hide what it does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from aish.safety.commands import ShellContext
from aish.safety.commands.bounds import TooBig
from aish.safety.commands.syntax.agreement import Agreement, compare_readings
from aish.safety.commands.syntax.model import Block, BlockKind, Node, Parameter, Redirect, Simple, Substitution, Word
from aish.safety.commands.syntax.parser import parse
from aish.safety.commands.syntax.possible_commands import possible_words
from aish.safety.policy.rules import CommandWords

_PLAIN = frozenset({BlockKind.SEQUENCE, BlockKind.PIPELINE})


class CommandLine(msgspec.Struct, frozen=True):
    """`is_readable` means that every program's name is known before the line runs. `possible` are commands in
    another reading: for rules that forbid, never for one that allows."""

    parts: tuple[CommandWords, ...]
    is_plain: bool
    is_readable: bool = False
    possible: tuple[CommandWords, ...] = ()


def read_command_line(line: str, context: ShellContext) -> CommandLine:
    try:
        parsed = parse(line)
        agreement = compare_readings(line, parsed)
    except (TooBig, ValueError, RecursionError):
        return CommandLine((), is_plain=False, possible=possible_words(line))
    found = list(commands_in(parsed.script))
    parts = _words_of(found)
    possible = _possible(line, agreement) if agreement.doubt else ()
    shadowed = any(words[0] in context.aliases or words[0] in context.functions for words in parts)
    sound = parsed.sound and not agreement.doubt
    plain = sound and not shadowed and _is_plain(parsed.script) and all(_is_literal(s) for s in found)
    readable = parsed.sound and all(words[0] for words in (*parts, *possible))
    return CommandLine(parts, plain, readable, possible)


def _words_of(commands: Iterable[Simple]) -> tuple[CommandWords, ...]:
    return tuple(tuple(word.literal for word in simple.words) for simple in commands if simple.words)


def _possible(line: str, agreement: Agreement) -> tuple[CommandWords, ...]:
    if agreement.plain is not None:
        return _words_of(commands_in(agreement.plain))
    return possible_words(line)


def commands_in(node: Node) -> Iterator[Simple]:
    """Yields every command, also inside substitutions, loops and functions."""
    if isinstance(node, Simple):
        yield node
    else:
        for child in node.body:
            yield from commands_in(child)
    for word in _own_words(node):
        yield from _inside(word)


def words_in(node: Node) -> Iterator[Word]:
    """Yields every word, also of loops and redirections."""
    for command in commands_in(node):
        yield from _own_words(command)
    yield from _words_of_blocks(node)


def _words_of_blocks(node: Node) -> Iterator[Word]:
    if isinstance(node, Block):
        yield from _own_words(node)
        for child in node.body:
            yield from _words_of_blocks(child)


def _own_words(node: Node) -> Iterator[Word]:
    yield from node.words
    if isinstance(node, Simple):
        yield from (word for assignment in node.assignments for word in assignment.value)
    yield from (redirect.target for redirect in node.redirects if redirect.target is not None)


def _inside(word: Word) -> Iterator[Simple]:
    for part in word.parts:
        if isinstance(part, Substitution):
            yield from commands_in(part.script)
        elif isinstance(part, Parameter) and part.operand is not None:
            yield from _inside(part.operand)


def _is_plain(node: Node) -> bool:
    if isinstance(node, Block):
        return node.kind in _PLAIN and not node.redirects and all(_is_plain(child) for child in node.body)
    return True


def _is_literal(simple: Simple) -> bool:
    return (
        bool(simple.words)
        and not simple.assignments
        and all(word.literal is not None for word in simple.words)
        and all(_is_harmless(redirect) for redirect in simple.redirects)
    )


def _is_harmless(redirect: Redirect) -> bool:
    target = redirect.target.literal if redirect.target is not None else None
    return target == "/dev/null" or (redirect.operator in (">&", "<&") and target in ("1", "2"))
