"""Where a typed line goes: to the shell, to the model, or to aish itself.

A first character decides always: `:` is for aish, `!` for the shell, `?` for the model. Otherwise a line is a command
if its first word is something the shell knows and the rest does not read as prose. Pure: what a word is, is asked.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum

import msgspec

from aish.types.live_shell import WordKind

Resolve = Callable[[str], WordKind | None]


class Goal(StrEnum):
    NOTHING = "nothing"
    META = "meta"
    SHELL = "shell"
    QUIET_SHELL = "quiet"  # run, but not told to the model
    MODEL = "model"


class Routed(msgspec.Struct, frozen=True):
    """`text` is what is left for whoever gets it. `sure`: the person said so by the first character."""

    goal: Goal
    text: str
    sure: bool = False


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# What stands in a sentence and hardly ever in a command. Words that are arguments somewhere are left out.
_PROSE = _words("""
    a an the am is are was were do does did can could would should will what which who why how when where there this
    that these those my your our their his her its i you we they he she it me us them and or but because if then than
    please of for from with about into onto have has had be been being not no yes tell explain show give write make find
    der die das ein eine ist sind was wie warum wer wo wann bitte und oder nicht mir mein dein kannst kann ich du wir
    le la les un une des est sont que qui quoi comment pourquoi où quand vous te je tu nous et ou ne pas
""")
# Commands that are also verbs: with one of these, a line of words is prose sooner.
_VERBS = _words("""
    find make test show sort cut join split write look watch kill who which what time host file sum wait touch head tail
    more less expand fold read type help install yes open start stop
""")
# Of these, those that are also what a file is called where its name does not matter: `touch a b`.
_LETTERS = _words("a A i")
# Verbs of which `a` and what follows is the object: `make a list`. Of others it may be two files: `join a names`.
_TAKE_OBJECT = _words("file find help install kill make open read show start stop test time wait watch write")
# What runs the rest of the line as a command, and what asks about commands.
_WRAPPERS = _words("time watch command nohup exec builtin env nice sudo")
_ASK_OF_COMMANDS = _words("which type")
# Prose words that are commands: to what asks about them they are names, and so they are where a first word is no verb.
_PROGRAMS = _words("find make show which who write")
# Reads like a question, and is in every manual.
_SET_PHRASE = "who am i"
# Commands that take a sentence for what it is.
_SPEAKERS = _words("echo printf notify-send espeak figlet cowsay")
# Alone it is an answer; as a program it would fill the screen for ever.
_ANSWER = "yes"
_WORD = re.compile(r"(?:[^\W\d_][\w'’-]*|\d+)[,.;:!?]?", re.UNICODE)
_SHELLISH = re.compile(r"[|<>&;$`*\\{}=~]|(?:^|\s)-{1,2}[A-Za-z0-9]|/|\.\w")
_DEFINITION = re.compile(r"[\w.-]+\s*\(\)\s*[{(]")  # of a function
# What only a command line has, whatever its first word: then a typing error is bash's to name, and costs no model.
_COMMANDLIKE = re.compile(r"\s-{1,2}[A-Za-z]|[|<>]|&&|^(?:\.{1,2}|~)/\w")
_COMMENTS = re.compile(r"\A(?:#[^\n]*\n\s*)+")  # before the commands of what is pasted
_VARIABLE = re.compile(r"\$(?:[A-Za-z_]\w*|\{[A-Za-z_]\w*\})(?:/\S*)?")
_JOB = re.compile(r"%(?:\d+|[%+-]|\??[A-Za-z][\w-]*)?")
_FIRST = re.compile(r"(?:\"[\w./ -]+\"|'[\w./ -]+'|(?:\\.|[^\s\\])+|\\)(?=\s|\Z)", re.DOTALL)
_QUOTED = re.compile(r"\"[\w./ -]+\"|'[\w./ -]+'")
_ASSIGNED = re.compile(r"[A-Za-z_]\w*\+?=\S*\s*")
_GOES_ON = re.compile(r"[\"'`(;|&]")  # an assignment whose value has blanks in it, or that ends a command
_PREFIXED = {":": Goal.META, "?": Goal.MODEL}
_COLON = re.compile(r":(?:\s*[(<>;|&$\"']|\s+\S)")  # bash's own, which does nothing: `: > file`, `: ${X:=5}`


def route(line: str, resolve: Resolve) -> Routed:
    text = line.strip()
    if not text:
        return Routed(Goal.NOTHING, "")
    if text.startswith("!!"):
        return Routed(Goal.QUIET_SHELL, text[2:].strip(), sure=True)
    if text.startswith("!"):
        return Routed(Goal.SHELL, text[1:].strip(), sure=True)
    if _COLON.match(text):
        return Routed(Goal.SHELL, text, sure=True)
    if goal := _PREFIXED.get(text[0]):
        return Routed(goal, text[1:].strip(), sure=True)
    code = _COMMENTS.sub("", f"{text}\n").strip()
    if not code:
        return Routed(Goal.NOTHING, "")
    known = _DEFINITION.match(code) is not None or _is_known(_first_word(code), resolve)
    is_command = not reads_as_prose(code, resolve) if known else looks_mistyped(code)
    return Routed(Goal.SHELL if is_command else Goal.MODEL, text)


def _is_known(word: str, resolve: Resolve) -> bool:
    """A word may be written so that no alias is taken for it; a variable or a job is the shell's to say."""
    its_own = _VARIABLE.fullmatch(word) or _JOB.fullmatch(word)
    return its_own is not None or resolve(_unquoted(word)) is not None


def _unquoted(word: str) -> str:
    return word[1:-1] if _QUOTED.fullmatch(word) else re.sub(r"\\(.)", r"\1", word)


def looks_mistyped(text: str) -> bool:
    """Whether a line that begins with no known word is a command line all the same."""
    said = any(_is_said(word) and word not in _LETTERS for word in text.split())
    return _COMMANDLIKE.search(text) is not None and not said and not text.endswith("?")


def reads_as_prose(text: str, resolve: Resolve) -> bool:
    """Whether a line whose first word is a command is a sentence all the same."""
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
    first, rest = _wrapped(first, rest, resolve)
    if first in _SPEAKERS:
        return False
    # A verb that is a command needs one such word; any other first word needs two, or a sentence's length.
    is_verb = first.lower() in _VERBS or first[0].isupper() or first[0] in "$%"
    return len(rest) >= 2 and _said(first, rest, is_verb=is_verb) >= (1 if is_verb else 2)


def _wrapped(first: str, rest: list[str], resolve: Resolve) -> tuple[str, list[str]]:
    """What is run by what stands before it, such as `make all` in `time make all`."""
    words, at = [first, *rest], 0
    while words[at] in _WRAPPERS and at + 1 < len(words) and _begins_command(words[at + 1], resolve):
        at += 1
    return words[at], words[at + 1 :]


def _begins_command(word: str, resolve: Resolve) -> bool:
    """`for` and `if` are words of bash, too, but after `time` they are more often what they are in English."""
    return (word in _PROGRAMS or not _is_said(word)) and resolve(word) is not None


def _said(first: str, rest: list[str], *, is_verb: bool) -> int:
    """How many words are of a sentence. A letter is one after another such word, or as the article of an object."""
    names = _PROGRAMS if first in _ASK_OF_COMMANDS or not is_verb else frozenset()
    count, before = 0, first.lower() in _TAKE_OBJECT and len(rest[1].strip(",.;:!?")) > 2
    for word in rest:
        is_letter = word in _LETTERS
        counts = before if is_letter else _is_said(word) and word not in names
        count += counts
        before = counts and not is_letter
    return count


def _is_said(word: str) -> bool:
    return word.strip(",.;:!?").lower() in _PROSE


def _split(text: str) -> tuple[str, list[str]]:
    """The first word, which may be quoted, and the others."""
    found = _FIRST.match(text)
    first = found[0] if found else text.split(maxsplit=1)[0]
    return first, text[len(first) :].split()


def _first_word(text: str) -> str:
    """The word the shell would look up: after assignments, up to where a command may end without a blank."""
    at = 0
    while assigned := _ASSIGNED.match(text, at):
        at = assigned.end()
        if at == len(text) or _GOES_ON.search(assigned[0]):
            return assigned[0].rstrip()
    first, _ = _split(text[at:])
    return first if _QUOTED.fullmatch(first) else re.split(r"[;|&<>]", first, maxsplit=1)[0] or first
