"""Builds rules for the answer "always": for exactly this command, a pattern with a hole, or this tool in its current
form.

The table always.toml says how many words identify a use of a program, which of them may have a hole, and which programs
get no rule because they can do anything ("always allow python" would allow everything).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import cache
from itertools import takewhile

import msgspec

from aish.safety.commands import ShellContext
from aish.safety.policy.rules import (
    ANY_WORD,
    SHELL_TOOL,
    CommandWords,
    Coverage,
    Rule,
    free_words,
    matches_command,
)
from aish.types.decisions import Verdict
from aish.types.globs import globs_of
from aish.types.tools import ToolSpec

# Tools that are part of aish and change only with aish.
_OWN_SOURCES = frozenset({"ide", "runtime", "shell"})
_NAME = "always "
_REMOTE = ("npm:", "jsr:", "--with")
_CODE_LETTERS = frozenset("ceEprRnlM")  # of short options: code, or a file that is loaded first
# Scripts of sed that run no program and name no file: lines to print or delete, a text to replace.
_ADDRESS = r"(?:\d+|\$)"
_TEXT = r"(?:(?!\1)[^\\\n]|\\.)*"
_PLAIN_SED = re.compile(rf"(?:{_ADDRESS}(?:,{_ADDRESS})?)?(?:[dp=]|s([/|,#:]){_TEXT}\1{_TEXT}\1[gpiI\d]*)")
_SED_OPTIONS = re.compile(r"-[nErsuz]*i?|--(?:in-place|quiet|silent|regexp-extended|sandbox|separate)")


class _Table(msgspec.Struct, frozen=True):
    arity: dict[str, int]
    holes: frozenset[str]
    never: tuple[tuple[str, ...], ...]
    exact: tuple[tuple[str, ...], ...]
    interpreters: frozenset[str]
    code_options: frozenset[str]
    runners: tuple[tuple[str, ...], ...]
    outgoing: tuple[tuple[str, ...], ...]
    tools: frozenset[str]
    tool_options: frozenset[str]
    letters: dict[str, str]


def make_tool_rule(tool: ToolSpec) -> Rule:
    return Rule(Verdict.ALLOW, f"{_NAME}{tool.name}", (tool.name,), covers="exact", digest=tool_digest(tool))


def tool_digest(tool: ToolSpec) -> str:
    """Returns a digest of an external tool's description, schema and hints; "" for aish's own tools."""
    if tool.hints is None and tool.source in _OWN_SOURCES:
        return ""
    described = (tool.description, tool.schema, tool.output_schema, tool.effect, tool.beyond, tool.paths, tool.hints)
    return hashlib.sha256(msgspec.json.encode(described, order="deterministic")).hexdigest()


def is_current(rule: Rule, tool: ToolSpec) -> bool:
    """Whether the tool is unchanged since the rule was made. A glob written by the user covers any version."""
    return rule.covers != "exact" or bool(rule.commands) or rule.digest == tool_digest(tool)


def make_command_rule(
    words: CommandWords, *, folder: str = "", is_inside: Callable[[str], bool] = lambda path: True
) -> Rule | None:
    """Returns None if no rule is narrow enough. `folder` is where the command runs; the rule holds there and below.
    `is_inside` says whether a path is in the workspace."""
    known = tuple(word for word in words if word is not None)
    if not known or len(known) < len(words) or not all(word.isprintable() for word in known):
        return None
    if not _is_plain(known[0]):
        return None
    prefix = _prefix(known)
    if prefix is None:
        return _command_line_rule(known, folder) if _can_be_named(known, is_inside) else None
    if " ".join(prefix) in _load_table().holes and len(known) > len(prefix) and all(map(_is_plain, known)):
        free = free_words((*prefix, ANY_WORD), words)
        if free is not None and all(map(is_inside, free)):
            return _command_rule(" ".join((*prefix, ANY_WORD)), example=" ".join(known), folder=folder)
    return _command_line_rule(known, folder)


def _command_line_rule(words: tuple[str, ...], folder: str) -> Rule:
    """A rule for exactly this line, with quotes where words need them."""
    if all(map(_is_plain, words)):
        line = " ".join(words)
        return _command_rule(line, example=line, folder=folder)
    import shlex  # few commands need quotes

    line = shlex.join(words)
    return msgspec.structs.replace(_command_rule(line, example=line, folder=folder), covers="quoted")


def _can_be_named(words: tuple[str, ...], is_inside: Callable[[str], bool]) -> bool:
    """Whether the line may be allowed exactly as it is written, although its program can do anything: what it runs is a
    file or a target of the workspace, not a text, and not what comes from a pipe."""
    table = _load_table()
    begins = "/" in words[0] or any(words[: len(begin)] == begin for begin in table.exact)
    if not begins or ("/" in words[0] and not is_inside(words[0])):
        return False
    run = words[2:] if words[:2] in table.runners else words
    if run and (_holds_code(run, table) or _steers_tool(run, table)):
        return False
    if any("://" in word or "@" in word or word.startswith(_REMOTE) for word in words[1:]):
        return False  # code of another machine, which may be other code the next time
    if any(words[0] == begin[0] and set(begin[1:]) <= set(words) for begin in table.outgoing):
        return False
    places = (word.rpartition("=")[2] for word in words[1:])
    return all(is_inside(place) for place in places if place.startswith(("/", "~")) or ".." in place.split("/"))


def _holds_code(words: tuple[str, ...], table: _Table) -> bool:
    """Whether an interpreter gets its code in the line, or from a person. Short options may stand together: `-Bc`."""
    program = words[0]
    if program == "sed":
        return not _is_plain_sed(words[1:])
    if program not in table.interpreters:
        return False
    if len(words) < 2 or any(word.partition("=")[0] in table.code_options for word in words[1:]):
        return True
    options = takewhile(lambda word: word[0] in "-+", filter(None, words[1:]))
    letters = _CODE_LETTERS.union(table.letters.get(program, ""))
    return any(word[1:2] != "-" and not letters.isdisjoint(word) for word in options)


def _is_plain_sed(words: tuple[str, ...]) -> bool:
    options = tuple(takewhile(lambda word: word.startswith("-"), words))
    script = words[len(options) : len(options) + 1]
    files = words[len(options) + 1 :]  # options may also follow
    is_plain = bool(script) and _PLAIN_SED.fullmatch(script[0]) is not None
    return is_plain and all(map(_SED_OPTIONS.fullmatch, options)) and not any(word.startswith("-") for word in files)


def _steers_tool(words: tuple[str, ...], table: _Table) -> bool:
    """Whether a tool for building gets programs or code in the line: `make CC=x`, `make --eval=x`, `make -Ex`."""
    if words[0] not in table.tools:
        return False
    options = tuple(option for option in table.tool_options if option.startswith("--"))
    return any(
        word.partition("=")[0] in table.tool_options
        or (words[0] in ("make", "just") and ("=" in word or word.startswith("-E")))
        or (len(word) > 2 and word[:2] == "--" and any(option.startswith(word.partition("=")[0]) for option in options))
        for word in words[1:]
    )


def _command_rule(text: str, *, example: str = "", folder: str = "") -> Rule:
    return Rule(
        Verdict.ALLOW,
        name=f"{_NAME}{text}",
        tools=(SHELL_TOOL,),
        commands=(text,),
        match=(example,) if example else (),
        covers=_coverage(text),
        folder=folder,
    )


def _coverage(text: str) -> Coverage:
    if ANY_WORD in text.split():
        return "pattern"
    return "quoted" if "'" in text or '"' in text else "exact"


def narrow_rule(rule: Rule) -> Rule:
    """Narrows a rule from the approvals file. Older ones were wider: each now covers the line or the tool it names."""
    if rule.verdict is not Verdict.ALLOW or rule.covers != "prefix":
        return rule
    if rule.commands:
        return msgspec.structs.replace(rule, covers="exact", match=rule.commands, not_match=())
    is_exact = not any(map(_is_glob, rule.tools))
    return msgspec.structs.replace(rule, covers="exact" if is_exact else "pattern")


def edit_rule(rule: Rule, text: str) -> Rule | None:
    """Returns the rule with the user's change of what it covers; None if it would cover almost everything, or
    another tool, which was not shown."""
    if not text or rule.name == f"{_NAME}{text}":
        return rule
    if rule.reads:
        folders = tuple(text.removeprefix("read ").split())
        named = all(folder.startswith("/") and folder.strip("/") for folder in folders)
        return msgspec.structs.replace(rule, name=f"{_NAME}read {' '.join(folders)}", reads=folders) if named else None
    if is_too_wide(text, command=bool(rule.commands)):
        return None
    if rule.commands:
        return _command_rule(text, folder=rule.folder)
    return Rule(Verdict.ALLOW, f"{_NAME}{text}", (text,), covers="pattern") if _is_glob(text) else None


def covers_example(proposed: str, text: str, example: str, *, command: bool) -> bool:
    """Whether the rule that the user wrote instead of the proposed one covers the command or the tool in question."""
    if not command:
        return example in globs_of((text,))
    if proposed.startswith("read "):
        wanted = [folder.rstrip("/") for folder in text.removeprefix("read ").split()]
        return all(
            any(f"{folder}/".startswith(f"{above}/") for above in wanted)
            for folder in proposed.removeprefix("read ").split()
        )
    from aish.safety.policy.command_line import read_command_line  # with the parser

    line = read_command_line(example, ShellContext(cwd="/", home="/"))
    rule = _command_rule(text)
    return len(line.parts) == 1 and matches_command(rule, line.parts[0])


def is_too_wide(text: str, *, command: bool) -> bool:
    """Whether a rule would cover almost everything; such a rule is not stored."""
    words = tuple(text.split())
    return any(_covers(words, begin) for begin in _load_table().never) if command else not text.strip("*?")


def _covers(words: tuple[str, ...], begin: tuple[str, ...]) -> bool:
    """Whether a rule of these words would allow a command that begins so."""
    return all(word in (other, "*") for word, other in zip(words, begin, strict=False))


def _prefix(words: tuple[str, ...]) -> tuple[str, ...] | None:
    """Returns the words that identify this use of a program; all of them for an unknown program; None if it can do
    anything."""
    table = _load_table()
    if "/" in words[0] or any(words[: len(begin)] == begin for begin in table.never):
        return None
    arity = table.arity.get(" ".join(words[:2])) or table.arity.get(words[0])
    if arity is None:
        return words
    prefix = words[:arity]
    # An option before the subcommand (`git -C x status`) hides what is done.
    hides = any(word.startswith("-") for word in prefix[1:])
    return prefix if len(prefix) == arity and not hides else None


def _is_plain(word: str) -> bool:
    """Blanks and `*` would widen the rule, which is stored as text; quotes would be read as a shell does."""
    return bool(word) and word.isprintable() and not any(char.isspace() or char in "*?['\"\\" for char in word)


def _is_glob(text: str) -> bool:
    return any(char in "*?[" for char in text)


@cache
def _load_table() -> _Table:
    import tomllib  # with the first question, not with the first prompt
    from importlib import resources

    raw = tomllib.loads(resources.files("aish.safety.policy").joinpath("always.toml").read_text("utf-8"))
    exact = raw["exact"]
    return _Table(
        raw["arity"],
        frozenset(raw["holes"]["after"]),
        _split_lines(raw["never"]["begins"]),
        _split_lines(exact["begins"]),
        frozenset(exact["interpreters"].split()),
        frozenset(exact["code_options"].split()),
        _split_lines(exact["runners"]),
        _split_lines(raw["outgoing"]["begins"]),
        frozenset(exact["tools"].split()),
        frozenset(exact["tool_options"].split()),
        raw["letters"],
    )


def _split_lines(text: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(line.split()) for line in text.split("\n") if line.strip())
