"""Decides where a typed line goes: to the shell, to the model, or to aish itself.

A first character always decides: `:` is for aish, `!` for the shell, `?` for the model. Otherwise a line is a command
if the shell knows its first word and the rest does not read as prose. Pure: the caller passes a function that looks up
words.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum

import msgspec

from aish.types.live_shell import WordKind

Resolve = Callable[[str], WordKind | None]


class Destination(StrEnum):
    NOTHING = "nothing"
    META = "meta"
    SHELL = "shell"
    QUIET_SHELL = "quiet"  # run, but not shown to the model
    MODEL = "model"


class RoutedLine(msgspec.Struct, frozen=True):
    """`text` has no prefix any more. `is_explicit`: the user decided by the first character."""

    destination: Destination
    text: str
    is_explicit: bool = False


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Words of sentences that hardly ever occur in commands. Words that are common arguments are left out.
_PROSE = _words("""
    a an the am is are was were do does did can could would should will what which who why how when where there this
    that these those my your our their his her its i you we they he she it me us them and or but because if then than
    please of for from with about into onto have has had be been being not no yes tell explain show give write make find
    der die das ein eine ist sind was wie warum wer wo wann bitte und oder nicht mir mein dein kannst kann ich du wir
    le la les un une des est sont que qui quoi comment pourquoi où quand vous te je tu nous et ou ne pas
""")
# Commands that are also verbs: after one of these, fewer words make a line prose.
_VERBS = _words("""
    find make test show sort cut join split write look watch kill who which what time host file sum wait touch head tail
    more less expand fold read type help install yes open start stop
""")
# Prose words that also serve as names of files: `touch a b`.
_LETTERS = _words("a A i")
# Verbs with an object: `make a list`. After others the words may be two files: `join a names`.
_TAKE_OBJECT = _words("file find help install kill make open read show start stop test time wait watch write")
# Commands that run the rest of the line as a command, and commands that look up commands.
_WRAPPERS = _words("time watch command nohup exec builtin env nice sudo")
_LOOKUPS = _words("which type")
# Prose words that are commands. They count as names after a lookup command, and where the first word is no verb.
_PROGRAMS = _words("find make show which who write")
# A command that reads like a question.
_SET_PHRASE = "who am i"
# Commands whose arguments may be a sentence.
_SPEAKERS = _words("echo printf notify-send espeak figlet cowsay")
# Alone it is an answer to the model; the program of that name prints forever.
_ANSWER = "yes"
_WORD = re.compile(r"(?:[^\W\d_][\w'’-]*|\d+)[,.;:!?]?", re.UNICODE)
_SHELLISH = re.compile(r"[|<>&;$`*\\{}=~]|(?:^|\s)-{1,2}[A-Za-z0-9]|/|\.\w")
_DEFINITION = re.compile(r"[\w.-]+\s*\(\)\s*[{(]")  # of a function
# Only command lines have these. With a mistyped first word the line goes to bash, which names the error.
_COMMANDLIKE = re.compile(r"\s-{1,2}[A-Za-z]|[|<>]|&&|^(?:\.{1,2}|~)/\w")
_COMMENTS = re.compile(r"\A(?:#[^\n]*\n\s*)+")  # before pasted commands
_VARIABLE = re.compile(r"\$(?:[A-Za-z_]\w*|\{[A-Za-z_]\w*\})(?:/\S*)?")
_JOB = re.compile(r"%(?:\d+|[%+-]|\??[A-Za-z][\w-]*)?")
_FIRST = re.compile(r"(?:\"[\w./ -]+\"|'[\w./ -]+'|(?:\\.|[^\s\\])+|\\)(?=\s|\Z)", re.DOTALL)
_QUOTED = re.compile(r"\"[\w./ -]+\"|'[\w./ -]+'")
_ASSIGNED = re.compile(r"[A-Za-z_]\w*\+?=\S*\s*")
_CONTINUES = re.compile(r"[\"'`(;|&]")  # an assignment whose value has blanks in it, or that ends a command
_PREFIXED = {":": Destination.META, "?": Destination.MODEL}
_COLON = re.compile(r":(?:\s*[(<>;|&$\"']|\s+\S)")  # the null command of bash: `: > file`, `: ${X:=5}`


def route_line(line: str, resolve: Resolve) -> RoutedLine:
    text = line.strip()
    if not text:
        return RoutedLine(Destination.NOTHING, "")
    if text.startswith("!!"):
        return RoutedLine(Destination.QUIET_SHELL, text[2:].strip(), is_explicit=True)
    if text.startswith("!"):
        return RoutedLine(Destination.SHELL, text[1:].strip(), is_explicit=True)
    if _COLON.match(text):
        return RoutedLine(Destination.SHELL, text, is_explicit=True)
    if destination := _PREFIXED.get(text[0]):
        return RoutedLine(destination, text[1:].strip(), is_explicit=True)
    code = _COMMENTS.sub("", f"{text}\n").strip()
    if not code:
        return RoutedLine(Destination.NOTHING, "")
    known = _DEFINITION.match(code) is not None or _is_known(_first_word(code), resolve)
    is_command = not reads_as_prose(code, resolve) if known else looks_mistyped(code)
    return RoutedLine(Destination.SHELL if is_command else Destination.MODEL, text)


def _is_known(word: str, resolve: Resolve) -> bool:
    """Whether the shell knows the word, also in the quoted form that bypasses an alias. A variable or a job counts."""
    is_reference = _VARIABLE.fullmatch(word) or _JOB.fullmatch(word)
    return is_reference is not None or resolve(_unquote(word)) is not None


def _unquote(word: str) -> str:
    return word[1:-1] if _QUOTED.fullmatch(word) else re.sub(r"\\(.)", r"\1", word)


def looks_mistyped(text: str) -> bool:
    """Whether a line is a command whose first word is mistyped."""
    has_prose = any(_is_prose(word) and word not in _LETTERS for word in text.split())
    return _COMMANDLIKE.search(text) is not None and not has_prose and not text.endswith("?")


def reads_as_prose(text: str, resolve: Resolve) -> bool:
    """Whether a line is a sentence although its first word is a command."""
    first, rest = _split(text)
    if not rest:
        return first.lower() == _ANSWER
    if first in _SPEAKERS or text == _SET_PHRASE:
        return False
    if text.rstrip().endswith("?") and not _SHELLISH.search(text):
        return True
    plain = [word for word in rest if _WORD.fullmatch(word)]
    if len(plain) < len(rest) or _SHELLISH.search(" ".join(rest)):
        return False
    first, rest = _skip_wrappers(first, rest, resolve)
    if first in _SPEAKERS:
        return False
    # After a verb one prose word is enough; after any other first word it takes two.
    is_verb = first.lower() in _VERBS or first[0].isupper() or first[0] in "$%"
    return len(rest) >= 2 and _count_prose(first, rest, is_verb=is_verb) >= (1 if is_verb else 2)


def _skip_wrappers(first: str, rest: list[str], resolve: Resolve) -> tuple[str, list[str]]:
    """The command that a wrapper runs, such as `make all` in `time make all`."""
    words, at = [first, *rest], 0
    while words[at] in _WRAPPERS and at + 1 < len(words) and _begins_command(words[at + 1], resolve):
        at += 1
    return words[at], words[at + 1 :]


def _begins_command(word: str, resolve: Resolve) -> bool:
    """Whether a word after a wrapper begins a command. `for` and `if` are bash, too, but here they are mostly
    English."""
    return (word in _PROGRAMS or not _is_prose(word)) and resolve(word) is not None


def _count_prose(first: str, rest: list[str], *, is_verb: bool) -> int:
    """Counts prose words. A letter counts after another prose word, or as the article of an object."""
    names = _PROGRAMS if first in _LOOKUPS or not is_verb else frozenset()
    count, before = 0, first.lower() in _TAKE_OBJECT and len(rest[1].strip(",.;:!?")) > 2
    for word in rest:
        is_letter = word in _LETTERS
        counts = before if is_letter else _is_prose(word) and word not in names
        count += counts
        before = counts and not is_letter
    return count


def _is_prose(word: str) -> bool:
    return word.strip(",.;:!?").lower() in _PROSE


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
