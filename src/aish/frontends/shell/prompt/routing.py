"""Decides where a typed line goes: to the shell, to the model, or to aish itself.

A first character always decides: `:` is for aish, `!` for the shell, `?` for the model. Otherwise a line is a command
if the shell knows its first word and the rest does not read as prose: the weight of its words (`prose`) and how badly
they fit the command (`command_shapes`), less what speaks for a command. Pure: the caller passes functions that look up
words and files.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from aish.frontends.shell.prompt.command_shapes import weigh_misfit
from aish.frontends.shell.prompt.prose import (
    STRONG,
    bare_word,
    is_foreign_script,
    is_plain_word,
    weigh_punctuation,
    weigh_words,
    word_tables,
)
from aish.frontends.shell.prompt.spelling import find_near_names
from aish.types.live_shell import WordKind

if TYPE_CHECKING:
    from aish.frontends.runtime import LiveShell

Resolve = Callable[[str], WordKind | None]
Exists = Callable[[str], bool]


class Destination(StrEnum):
    NOTHING = "nothing"
    META = "meta"
    SHELL = "shell"
    QUIET_SHELL = "quiet"  # run, but not shown to the model
    MODEL = "model"


class RoutedLine(msgspec.Struct, frozen=True):
    """`text` has no prefix any more. `is_explicit`: the user decided by the first character. `unknown`: the line is a
    command, but the shell does not know this first word of it."""

    destination: Destination
    text: str
    is_explicit: bool = False
    unknown: str = ""


class KnownNames(msgspec.Struct, frozen=True):
    """What routing asks of a shell: the kind of a first word, whether a file is there, all names of commands, and the
    names of skills."""

    resolve: Resolve
    exists: Exists
    names: Callable[[], frozenset[str]]
    skills: Callable[[], frozenset[str]] = frozenset

    @classmethod
    def of(cls, live: LiveShell | None, skills: Callable[[], frozenset[str]] = frozenset) -> KnownNames:
        """Without a live shell nothing is known, so every line is a question."""
        if live is None:
            return cls(lambda word: None, lambda word: False, frozenset, skills)
        return cls(live.resolve, live.exists, live.names, skills)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# A command whose words weigh this much is a sentence; after a command that is also an English word less is enough.
_PROSE_WEIGHT, _EASY_WEIGHT = 3, 1
_SYNTAX_WEIGHT = 4  # of the first pipe, redirection, option or variable; further ones add 1
_NOT_FIT = 3  # the arguments cannot be meant for the command
_MAX_SENTENCE_WORDS = 5  # a mistyped command is not followed by more plain words
# Prose words that are common names of files: `touch a b`. After these verbs they are articles: `make a list`.
_TAKE_OBJECT = _words("""
    file find help install kill make open read show start stop test time wait watch write export set script touch mkdir
""")
# Commands that run the rest of the line as a command.
_WRAPPERS = _words("time watch command nohup exec builtin env nice ionice sudo doas setsid stdbuf")
_ENGLISH_WRAPPERS = _words("time watch command nice")
_PRONOUNS = _words("it this that these those them me him us what")
_SET_PHRASE = "who am i"  # a command that reads like a question
_ANSWER = "yes"  # alone it is an answer to the model; the program of that name prints forever
_QUOTED_TEXT = re.compile(r"\"(?:\\.|[^\"\\])*\"|(?<![^\s=])'[^']*'", re.DOTALL)
_SYNTAX = re.compile(
    r"[|<>&;$`*\\{}~]|(?:^|\s)-{1,2}[A-Za-z0-9]|(?:^|\s)[\w-]+=\S|(?:^|\s)[+@%:][\w%]|(?:^|\s)[!=](?=\s)"
)
_PATH = re.compile(r"\.{0,2}/\S*|\.{1,2}|-|[\w.~-]+(?:/\S*)+|\w+\[|\S*\?\S")
_URL = re.compile(r"\w+://\S+")
_DEFINITION = re.compile(r"[\w.-]+\s*\(\)\s*[{(]")  # of a function
# Only command lines have these. With a mistyped first word the line is still a command.
_COMMANDLIKE = re.compile(r"\s-{1,2}[A-Za-z]|[|<>]|&&|\A(?:\.{1,2}|~)?/\w")
_COMMENTS = re.compile(r"\A(?:#[^\n]*\n\s*)+")  # before pasted commands
_VARIABLE = re.compile(r"\$(?:[A-Za-z_]\w*|\{[A-Za-z_]\w*\})(?:/\S*)?")
_JOB = re.compile(r"%(?:\d+|[%+-]|\??[A-Za-z][\w-]*)?")
_FIRST = re.compile(r"(?:\"[\w./ -]+\"|'[\w./ -]+'|(?:\\.|[^\s\\])+|\\)(?=\s|\Z)", re.DOTALL)
_QUOTED = re.compile(r"\"[\w./ -]+\"|'[\w./ -]+'")
_ASSIGNED = re.compile(r"[A-Za-z_]\w*\+?=\S*\s*")
_CONTINUES = re.compile(r"[\"'`(;|&]")  # an assignment whose value has blanks in it, or that ends a command
_PREFIXED = {":": Destination.META, "?": Destination.MODEL}
_COLON = re.compile(r":(?:\s*[(<>;|&$\"']|\s+\S)")  # the null command of bash: `: > file`, `: ${X:=5}`
# History expansion of bash. After `!!` a blank and an operator or a modifier may follow; other text is a quiet command.
_REFERENCE = re.compile(r"!!(?:\Z|:\S|\s*(?:[|>;]|&&))|!-?\d+(?=[\s:]|\Z)|![$^*:#](?=[\s\d:\w-]|\Z)|!\?\S|\^[^\s^]+\^")
_EVENT = re.compile(r"!([A-Za-z][\w.-]*)(?:\Z|:\S)")
_NAME = re.compile(r"[A-Za-z][\w.+-]*")
# How compound commands begin, also while they are being typed.
_COMPOUND = {
    "for": re.compile(r"for\s+(?:\(\(|[A-Za-z_]\w*\s*(?:;|\n|\Z|(?P<words>\bin\b.*)))", re.DOTALL),
    "select": re.compile(r"select\s+[A-Za-z_]\w*\s*(?:;|\n|\Z|(?P<words>\bin\b.*))", re.DOTALL),
    "case": re.compile(r"case\s+\S+\s*(?:\Z|in\b(?P<words>.*))", re.DOTALL),
    "function": re.compile(r"function\s+[\w.:-]+\s*(?:\(|\{|\n|\Z)"),
}
_CONDITIONS = frozenset({"if", "while", "until"})
_CONDITION = re.compile(r"(?:\[|!|\(\(|\$|\"|\.{0,2}/)")
_BLOCK = re.compile(r"[;\n]\s*(?:then|do)\b")
_BARE_BLOCK = re.compile(r"\s(?:then|do)\s")  # bash needs a `;` before it
_CONTINUATIONS = _words("then else elif do done fi esac in")


def route_line(line: str, known: KnownNames) -> RoutedLine:
    text = line.strip()
    if not text:
        return RoutedLine(Destination.NOTHING, "")
    indent = line[: len(line) - len(line.lstrip())]  # keeps a line out of the history
    if _is_history_reference(text, known.resolve) or _COLON.match(text):
        return RoutedLine(Destination.SHELL, indent + text, is_explicit=True)
    if text.startswith("!!"):
        return RoutedLine(Destination.QUIET_SHELL, indent + text[2:].strip(), is_explicit=True)
    if text.startswith("!"):
        return RoutedLine(Destination.SHELL, indent + text[1:].strip(), is_explicit=True)
    if destination := _PREFIXED.get(text[0]):
        return RoutedLine(destination, text[1:].strip(), is_explicit=True)
    code = _COMMENTS.sub("", f"{text}\n").strip()
    if not code:
        return RoutedLine(Destination.NOTHING, "")
    first, question = _first_word(code), RoutedLine(Destination.MODEL, text)
    if _DEFINITION.match(code) is None and not _is_known(first, known.resolve):
        is_skill = first.startswith("/") and first[1:] in known.skills()
        is_command = not is_skill and _is_mistyped(code, first, known)
        return RoutedLine(Destination.SHELL, indent + text, unknown=first) if is_command else question
    return question if reads_as_prose(code, known) else RoutedLine(Destination.SHELL, indent + text)


def _is_history_reference(text: str, resolve: Resolve) -> bool:
    """Whether bash's history expansion is meant, and not our mark `!` before a command: `!!`, `!3`, `!$`, `^a^b`, and
    `!word` where there is no such command."""
    if _REFERENCE.match(text):
        return True
    found = _EVENT.match(text)
    return found is not None and resolve(found[1]) is None


def _is_known(word: str, resolve: Resolve) -> bool:
    """Whether the shell knows the word, also in the quoted form that bypasses an alias. A variable or a job counts."""
    is_reference = _VARIABLE.fullmatch(word) or _JOB.fullmatch(word)
    return is_reference is not None or resolve(_unquote(word)) is not None


def _unquote(word: str) -> str:
    return word[1:-1] if _QUOTED.fullmatch(word) else re.sub(r"\\(.)", r"\1", word)


def _is_mistyped(code: str, first: str, known: KnownNames) -> bool:
    """Whether a line is a command whose first word the shell does not know: it is near to a name, or names a program
    that is not installed, or the line has options, pipes or redirections."""
    tables, plain = word_tables(), _QUOTED_TEXT.sub('""', code)
    words = plain.split()
    if plain.endswith("?") or weigh_words(words, lambda word: len(word) == 1) > 1:
        return False
    bare = bare_word(first)
    if _COMMANDLIKE.search(plain):
        return bare not in tables.verbs
    if not _NAME.fullmatch(first) or bare in tables.verbs or bare in tables.alone or bare in tables.weights:
        return False
    if sum(map(is_plain_word, words)) > _MAX_SENTENCE_WORDS:
        return False
    return first in tables.programs or bool(find_near_names(first, known.names()))


def reads_as_prose(code: str, known: KnownNames) -> bool:
    """Whether a line is a sentence although the shell knows its first word."""
    first, rest = _split(code)
    if not rest:
        return first.lower() == _ANSWER
    compound = _reads_compound_as_prose(first, code, known)
    if compound is not None:
        return compound
    plain = _QUOTED_TEXT.sub('""', code[len(first) :])
    first, words = _skip_wrappers(first, plain.split(), known.resolve)
    tables = word_tables()
    if tables.shapes.get(first) == "text" or not words or code == _SET_PHRASE:
        return False
    return _weigh_command(first, words, known) >= (_EASY_WEIGHT if _is_easy(first) else _PROSE_WEIGHT)


def _is_easy(first: str) -> bool:
    return first.lower() in word_tables().easy or first[0].isupper() or first[0] in "$%\"'"


def _weigh_command(first: str, words: list[str], known: KnownNames) -> int:
    """How much more speaks for a sentence than for a command."""
    tables = word_tables()
    rest = " ".join(words)
    syntax = len(_SYNTAX.findall(_URL.sub("", rest)))
    usual = tables.usual.get(first, frozenset())
    is_lookup = tables.shapes.get(first) == "lookup"
    skips_letter = first not in _TAKE_OBJECT or len(words) < 2 or len(bare_word(words[1])) < 3

    def is_ignored(word: str) -> bool:
        return word in usual or (is_lookup and known.resolve(word) not in (None, WordKind.KEYWORD))

    prose = weigh_words(words, is_ignored, follow_verb=_is_easy(first)) + weigh_punctuation(words)
    prose += not skips_letter and words[0] in ("a", "an")
    # Options after two plain words do not make a command of them: `alias ll to ls -l`.
    is_plain = not syntax or (tables.shapes.get(first) == "one" and not _SYNTAX.search(" ".join(words[:2])))
    misfit = _weigh_arguments(first, words, prose, known) if is_plain else 0
    if misfit >= _NOT_FIT:
        return misfit
    if not prose or (len(words) == 1 and not _is_object(first, words[0], is_lookup=is_lookup)):
        return 0
    files = sum(1 for word in words if known.exists(word) or _PATH.fullmatch(word))
    return prose + misfit - min(files, 2) - (_SYNTAX_WEIGHT + syntax - 1 if syntax else 0)


def _is_object(first: str, word: str, *, is_lookup: bool) -> bool:
    """Whether the only word after a verb makes a sentence of it: `test it`, `find what?`."""
    if is_foreign_script(word) or (word.endswith("?") and is_plain_word(word)):
        return True
    return _is_easy(first) and not is_lookup and word in _PRONOUNS


def _weigh_arguments(first: str, words: list[str], prose: int, known: KnownNames) -> int:
    if first in _WRAPPERS:  # what follows is no command that the shell knows
        is_near = bool(find_near_names(words[0], known.names()))
        return 0 if is_near or _PATH.fullmatch(words[0]) else _NOT_FIT if first in _ENGLISH_WRAPPERS else 1
    return weigh_misfit(first, words, prose, known.exists)


def _reads_compound_as_prose(first: str, code: str, known: KnownNames) -> bool | None:
    """Judges lines that begin with a word of bash's grammar; None for all others."""
    if first in _CONTINUATIONS:
        return _SYNTAX.search(code) is None
    if pattern := _COMPOUND.get(first):
        found = pattern.match(code)
        words = (found.groupdict().get("words") or "").split()[1:] if found else []
        return found is None or not _is_list(words, known.exists)
    if first in _CONDITIONS:
        condition = code[len(first) :].strip()
        if _CONDITION.match(condition) or _BLOCK.search(condition):
            return False
        if _BARE_BLOCK.search(condition):
            return True
        return not _is_known(_first_word(condition), known.resolve) or reads_as_prose(condition, known)
    return None


def _is_list(words: list[str], exists: Exists) -> bool:
    """Whether a loop may go over the words. One word that is no file is no list: `for loops in bash`."""
    if _SYNTAX.search(" ".join(words)):
        return True
    is_one_name = len(words) == 1 and len(words[0]) > 2 and is_plain_word(words[0]) and not exists(words[0])
    return not is_one_name and weigh_words(words) < _PROSE_WEIGHT


def _skip_wrappers(first: str, rest: list[str], resolve: Resolve) -> tuple[str, list[str]]:
    """The command that a wrapper runs, such as `make all` in `time make all`."""
    words, at = [first, *rest], 0
    while words[at] in _WRAPPERS and at + 1 < len(words) and _begins_command(words[at + 1], resolve):
        at += 1
    return words[at], words[at + 1 :]


def _begins_command(word: str, resolve: Resolve) -> bool:
    """Whether a word after a wrapper begins a command. `for` and `if` are bash, too, but here they are mostly
    English."""
    is_grammar = word in _COMPOUND or word in _CONDITIONS or word in _CONTINUATIONS
    return not is_grammar and word_tables().weights.get(word, 0) < STRONG and resolve(word) is not None


def _split(text: str) -> tuple[str, list[str]]:
    """The first word, which may be quoted, and the other words."""
    found = _FIRST.match(text)
    first = found[0] if found else text.split(maxsplit=1)[0]
    return first, text[len(first) :].split()


def _first_word(text: str) -> str:
    """The word that the shell looks up: after assignments, and up to an operator such as `;` or `|`."""
    at = 0
    while assigned := _ASSIGNED.match(text, at):
        at = assigned.end()
        if at == len(text) or _CONTINUES.search(assigned[0]):
            return assigned[0].rstrip()
    first, _ = _split(text[at:])
    return first if _QUOTED.fullmatch(first) else re.split(r"[;|&<>]", first, maxsplit=1)[0] or first
