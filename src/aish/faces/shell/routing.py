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
    a an the is are was were do does did can could would should will what which who why how when where there this that
    these those my your our their his her its i you we they he she it me us them and or but because if then than please
    of for from with about into onto have has had be been being not no yes tell explain show give write make find
    der die das ein eine ist sind was wie warum wer wo wann bitte und oder nicht mir mein dein kannst kann ich du wir
    le la les un une des est sont que qui quoi comment pourquoi où quand vous te je tu nous et ou ne pas
""")
# Commands that are also verbs: with one of these, a line of words is prose sooner.
_VERBS = _words("""
    find make test show sort cut join split write look watch kill who which what time host file sum wait touch head tail
    more less expand fold read type help install yes open start stop
""")
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
_QUOTED = re.compile(r"\"[\w./-]+\"|'[\w./-]+'")
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
    is_command = not reads_as_prose(code) if known else looks_mistyped(code)
    return Routed(Goal.SHELL if is_command else Goal.MODEL, text)


def _is_known(word: str, resolve: Resolve) -> bool:
    """A word may be written so that no alias is taken for it, and what is in a variable is the shell's to say."""
    return _VARIABLE.fullmatch(word) is not None or resolve(_unquoted(word)) is not None


def _unquoted(word: str) -> str:
    return word[1:] if word.startswith("\\") else word.strip("\"'") if _QUOTED.fullmatch(word) else word


def looks_mistyped(text: str) -> bool:
    """Whether a line that begins with no known word is a command line all the same."""
    said = any(word.strip(",.;:!?").lower() in _PROSE for word in text.split())
    return _COMMANDLIKE.search(text) is not None and not said and not text.endswith("?")


def reads_as_prose(text: str) -> bool:
    """Whether a line whose first word is a command is a sentence all the same."""
    first, *rest = text.split()
    if not rest:
        return first.lower() == _ANSWER
    if first in _SPEAKERS:
        return False
    if text.rstrip().endswith("?") and not _SHELLISH.search(text):
        return True
    plain = [word for word in rest if _WORD.fullmatch(word)]
    if len(plain) < len(rest) or _SHELLISH.search(" ".join(rest)):
        return False
    said = sum(word.strip(",.;:!?").lower() in _PROSE for word in rest)
    # A verb that is a command needs one such word; any other first word needs two, or a sentence's length.
    return said >= (1 if first.lower() in _VERBS or first[0].isupper() or first[0] == "$" else 2) and len(rest) >= 2


def _first_word(text: str) -> str:
    """The word the shell would look up: after assignments, up to where a command may end without a blank."""
    words = text.split()
    while words and re.fullmatch(r"[A-Za-z_]\w*\+?=.*", words[0]):
        if len(words) == 1 or _GOES_ON.search(words[0]):
            return words[0]
        words = words[1:]
    return re.split(r"[;|&<>]", words[0], maxsplit=1)[0] or words[0] if words else ""
