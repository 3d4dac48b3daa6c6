"""Rules as data: what they match, and checks of their examples.

A rule matches by tool name (globs), by effect, by the first words of a command, and by path; every given criterion must
hold. Its examples are checked when it is loaded, so a rule that does not do what its author meant is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Literal

import msgspec

from aish.types.decisions import Verdict
from aish.types.globs import globs_of
from aish.types.tools import Effect

SHELL_TOOL = "shell__run"
OUTSIDE_SANDBOX = "outside_sandbox"  # the argument of that tool with which a command asks to run outside
# A word of a prefix that stands for any one word.
ANY_WORD = "*"

# How `commands` are matched: as the first words of a command, as the whole command, as the whole command with holes, or
# as the whole command with words in quotes, as a shell reads them.
# A rule for a tool is exact if it is for the tool as it was approved.
Coverage = Literal["prefix", "exact", "pattern", "quoted"]

# A word for a hole: a plain name or path. Not an option, URL, assignment, `@file` or `+command`.
_FREE_WORD = re.compile(r"[\w./,%][\w./,%@+-]*")


class Rule(msgspec.Struct, frozen=True):
    """`covers`, `owner`, `digest` and `folder` are set by the answer "always": how `commands` are matched, the only key
    for which the rule counts ("" for all), the digest of the approved tool, and the directory in which a command was
    approved ("" in rules of older versions)."""

    verdict: Verdict
    name: str = ""
    tools: tuple[str, ...] = ()
    effects: tuple[Effect, ...] = ()
    commands: tuple[str, ...] = ()  # prefixes, by word: "git status", "npm run *"
    paths: tuple[str, ...] = ()  # globs, by component: "src/**"
    reads: tuple[str, ...] = ()  # folders besides the workspace that commands may read
    match: tuple[str, ...] = ()  # commands or tool names that it must match
    not_match: tuple[str, ...] = ()
    why: str = ""
    covers: Coverage = "prefix"
    owner: str = ""
    digest: str = ""
    folder: str = ""

    @property
    def title(self) -> str:
        criteria = (*self.tools, *self.effects, *self.commands, *self.paths, *self.reads)
        return self.name or f"{self.verdict} {' '.join(criteria)}"


CommandWords = tuple[str | None, ...]  # of one command; None is a word that is unknown before it runs


def matches_tool(rule: Rule, name: str) -> bool:
    return not rule.tools or name in globs_of(rule.tools)


def matches_effect(rule: Rule, effect: Effect) -> bool:
    return not rule.effects or effect in rule.effects


def matches_command(rule: Rule, words: CommandWords) -> bool:
    match rule.covers:
        case "exact" | "quoted":
            return names_command(rule, words)
        case "pattern":
            return any(free_words(tuple(text.split()), words) is not None for text in rule.commands)
        case _:
            return any(_begins_with(words, tuple(prefix.split())) for prefix in rule.commands)


def names_command(rule: Rule, words: CommandWords) -> bool:
    """Whether the rule is exactly this command, word for word."""
    return any(_words_of(rule, text) == words for text in rule.commands)


def _words_of(rule: Rule, text: str) -> tuple[str, ...]:
    if rule.covers != "quoted":
        return tuple(text.split())
    import shlex  # few rules have quotes

    try:
        return tuple(shlex.split(text))
    except ValueError:  # an open quote: it names no command
        return ()


def free_words(pattern: Sequence[str], words: CommandWords) -> list[str] | None:
    """Returns the words in the holes of a pattern; None if it does not fit. A hole takes one word, at the end more.
    A possible option fits no hole."""
    if len(words) < len(pattern) or (len(words) > len(pattern) and pattern[-1:] != (ANY_WORD,)):
        return None
    wanted = (*pattern, *[ANY_WORD] * (len(words) - len(pattern)))
    free: list[str] = []
    for want, word in zip(wanted, words, strict=True):
        if word is None or (want != ANY_WORD and word != want):
            return None
        if want == ANY_WORD:
            if not _FREE_WORD.fullmatch(word):
                return None
            free.append(word)
    return free


def matches_path(rule: Rule, path: str) -> bool:
    return any(_path_matches(tuple(path.split("/")), tuple(glob.split("/"))) for glob in rule.paths)


def example_errors(rules: Iterable[Rule]) -> list[str]:
    """Checks the rules' own examples; returns the errors."""
    return [error for rule in rules for error in _errors_of(rule)]


def _errors_of(rule: Rule) -> Iterator[str]:
    if rule.reads and (rule.verdict is not Verdict.ALLOW or rule.commands or rule.paths):
        yield f"the rule '{rule.title}' names folders to read: it can only allow, and names nothing else"
    if not (rule.tools or rule.effects or rule.commands or rule.paths or rule.reads):
        yield f"the rule '{rule.title}' matches everything; say what it is for"
    if rule.commands and rule.paths:
        yield f"the rule '{rule.title}' names commands and paths; which paths a command touches is not known"
    for example in rule.match:
        if not _example_matches(rule, example):
            yield f"the rule '{rule.title}' should match '{example}' and does not"
    for example in rule.not_match:
        if _example_matches(rule, example):
            yield f"the rule '{rule.title}' should not match '{example}' and does"


def _example_matches(rule: Rule, example: str) -> bool:
    if rule.commands:
        return matches_command(rule, _words_of(rule, example))
    if rule.paths:
        return matches_path(rule, example)
    return bool(rule.tools) and matches_tool(rule, example)


def _begins_with(words: CommandWords, prefix: Sequence[str]) -> bool:
    if not prefix or len(words) < len(prefix):
        return False
    return all(word is not None and wanted in (ANY_WORD, word) for word, wanted in zip(words, prefix, strict=False))


def _path_matches(parts: Sequence[str], globs: Sequence[str]) -> bool:
    """`**` matches any number of folders; `*` stays within one. Only the last `**` is retried, so the time is the
    product of both lengths."""
    part = glob = 0
    deep, taken = -1, 0
    while part < len(parts):
        if glob < len(globs) and globs[glob] == "**":
            deep, taken, glob = glob, part, glob + 1
        elif glob < len(globs) and fnmatchcase(parts[part], globs[glob]):
            part, glob = part + 1, glob + 1
        elif deep >= 0:
            taken += 1
            part, glob = taken, deep + 1
        else:
            return False
    return all(left == "**" for left in globs[glob:])
