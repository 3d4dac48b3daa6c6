"""Checks one command against the table of destructive rules."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import msgspec

from aish.safety.commands import program_tables
from aish.safety.commands.danger.findings import Findings
from aish.safety.commands.options import Flag, Scan, scan
from aish.safety.commands.program_tables import DestructiveRule
from aish.safety.commands.syntax.expansion import DYNAMIC, Field
from aish.safety.commands.verdict import Level, Reason

# Texts in a reason are shown to users, so they are short.
_SHOWN_CHARS = 80


class Call(msgspec.Struct, frozen=True):
    """One program with its arguments. `fed` names the source of further arguments (xargs, find), if any."""

    name: str
    words: tuple[Field, ...]  # including the program itself
    fed: str = ""

    @property
    def arguments(self) -> tuple[Field, ...]:
        return self.words[1:]

    @property
    def span(self) -> tuple[int, int]:
        spans = [word.span for word in self.words]
        return min(span[0] for span in spans), max(span[1] for span in spans)


def apply_rules(call: Call, findings: Findings) -> None:
    table = program_tables.destructive()
    candidates = table.rules.find(call.name)
    if not candidates:
        return
    found = scan(call.arguments, table.grammar(call.name))
    verb = " ".join(field.text for field in found.positionals)
    for rule in candidates:
        if _applies(rule, found, verb, call):
            findings.add(_make_reason(rule, found, call))


def _applies(rule: DestructiveRule, found: Scan, verb: str, call: Call) -> bool:
    if rule.verb and not _verb(rule.verb).match(verb):
        return False
    if rule.word and not any(_whole(rule.word).fullmatch(field.text) for field in found.positionals):
        return False
    if rule.text and not any(_whole(rule.text).fullmatch(field.text) for field in call.arguments):
        return False
    if not all(_has_flag(found, group) for group in rule.flags):
        return False
    if rule.unless and _has_flag(found, rule.unless, exact=True):
        return False
    if rule.method and rule.method not in (found.value("-X", "--request"), *(f.text for f in found.positionals[:1])):
        return False
    if rule.dashes and not any(field.text == "--" for field in call.arguments):
        return False
    return not rule.dynamic or bool(call.fed) or any(DYNAMIC in field.text for field in found.positionals)


def _has_flag(found: Scan, group: str, *, exact: bool = False) -> bool:
    return any(_matches(flag, name, exact=exact) for name in group.split() for flag in found.flags)


def _matches(flag: Flag, name: str, *, exact: bool) -> bool:
    """Long options may be abbreviated, as in GNU programs: `--recurs` is `--recursive`."""
    wanted, equals, value = name.partition("=")
    if equals and (flag.value or "") != value:
        return False
    if flag.name == wanted:
        return True
    return not exact and len(flag.name) > 4 and flag.name.startswith("--") and wanted.startswith(flag.name)


def _make_reason(rule: DestructiveRule, found: Scan, call: Call) -> Reason:
    words = [field.shown for field in found.positionals]
    first = 1 if rule.verb and len(words) > 1 else 0
    arguments = " ".join(words[first:])[:_SHOWN_CHARS] or "what it is given"
    verb = " ".join(words[:2])[:_SHOWN_CHARS]
    subject = f"{call.name} {words[0][:_SHOWN_CHARS]}" if rule.verb and words else call.name
    text = f"{subject} {rule.says.format(program=call.name, verb=verb, args=arguments)}"
    return Reason(text, call.span, rule.id, rule.kind, Level(rule.level), rule.catastrophe)


@functools.lru_cache(maxsize=512)
def _verb(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?:{pattern})(?:\s|$)")


@functools.lru_cache(maxsize=512)
def _whole(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def make_call(words: Sequence[Field], fed: str = "") -> Call:
    name = words[0].text.rpartition("/")[2] or words[0].text
    return Call(name, tuple(words), fed)
