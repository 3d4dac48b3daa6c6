"""Splits arguments into flags and positionals by a small option grammar.

The grammar is a string: `-a` is a flag, `-k:` takes a value, `--key=` takes a value, `--color?` may have one after `=`,
`-#` is a number such as `-5`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import msgspec

from aish.safety.commands.syntax.expansion import Field


class Grammar(msgspec.Struct, frozen=True):
    plain: frozenset[str]
    valued: frozenset[str]
    maybe: frozenset[str]
    numbers: bool
    single: bool  # one dash begins a long name, as in find and terraform

    def knows(self, name: str) -> bool:
        return name in self.plain or name in self.valued or name in self.maybe


class Flag(msgspec.Struct, frozen=True):
    name: str
    field: Field
    value: str | None = None


class Scan(msgspec.Struct, frozen=True):
    flags: tuple[Flag, ...]
    positionals: tuple[Field, ...]
    strange: tuple[Field, ...]  # options that are not in the grammar
    rest: int  # index of the first positional among the arguments, or their number
    literal: int = 0  # how many of the last positionals came after `--`

    def value(self, *names: str) -> str | None:
        return next((flag.value for flag in self.flags if flag.name in names and flag.value is not None), None)

    def values(self, *names: str) -> list[str]:
        return [flag.value for flag in self.flags if flag.name in names and flag.value is not None]

    def has(self, *names: str) -> bool:
        return any(flag.name in names for flag in self.flags)


@functools.lru_cache(maxsize=1024)
def grammar(text: str, *, single: bool = False) -> Grammar:
    plain: set[str] = set()
    valued: set[str] = set()
    maybe: set[str] = set()
    for item in text.split():
        if item[-1] in ":=":
            valued.add(item[:-1])
        elif item[-1] == "?" and len(item) > 2:
            maybe.add(item[:-1])
        elif item != "-#":
            plain.add(item)
    return Grammar(frozenset(plain), frozenset(valued), frozenset(maybe), "-#" in text, single)


def scan(arguments: Sequence[Field], rules: Grammar, *, stop: bool = False) -> Scan:
    """With `stop`, options end at the first positional, as for programs that run another program."""
    flags: list[Flag] = []
    positionals: list[Field] = []
    strange: list[Field] = []
    rest = len(arguments)
    index = literal = 0
    while index < len(arguments):
        field = arguments[index]
        index += 1
        text = field.text
        if text == "--":
            rest = min(rest, index)
            literal = len(arguments) - index
            positionals.extend(arguments[index:])
            break
        if len(text) < 2 or text[0] != "-":
            rest = min(rest, index - 1)
            positionals.append(field)
            if stop:
                positionals.extend(arguments[index:])
                break
            continue
        following = arguments[index] if index < len(arguments) else None
        found, known, used = _read(field, following, rules)
        flags.extend(found)
        if not known:
            strange.append(field)
        index += used
    return Scan(tuple(flags), tuple(positionals), tuple(strange), rest, literal)


def _read(field: Field, following: Field | None, rules: Grammar) -> tuple[list[Flag], bool, int]:
    """Returns the flags in one argument, whether the grammar has all of them, and how many further arguments they
    take."""
    text = field.text
    if text.startswith("--") or rules.single:
        return _read_long(field, following, rules)
    if rules.numbers and text[1:].isdecimal():
        return [Flag("-#", field, text[1:])], True, 0
    flags: list[Flag] = []
    known = True
    for position, letter in enumerate(text[1:], start=2):
        name = "-" + letter
        if name in rules.valued or name in rules.maybe:
            attached = text[position:]
            if attached or name in rules.maybe:
                return [*flags, Flag(name, field, attached or None)], known, 0
            return [*flags, Flag(name, field, following.text if following else None)], known, int(following is not None)
        known = known and name in rules.plain
        flags.append(Flag(name, field))
    return flags, known, 0


def _read_long(field: Field, following: Field | None, rules: Grammar) -> tuple[list[Flag], bool, int]:
    name, equals, value = field.text.partition("=")
    if equals:
        known = name in rules.valued or name in rules.maybe
        return [Flag(name, field, value)], known, 0
    if name in rules.valued:
        return [Flag(name, field, following.text if following else None)], True, int(following is not None)
    return [Flag(name, field)], name in rules.plain or name in rules.maybe, 0
