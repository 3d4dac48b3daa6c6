"""Which files a command line names, and whether it may reach others: for rules that keep paths from a model.

Looks at no disk: a link may lead elsewhere, and what a program reads besides is not told by its words. So a line counts
as reading only what it names where all its programs are known to do no more, and only then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from aish.safety.commands import ShellContext
from aish.safety.commands.bounds import TooBig
from aish.safety.commands.model import Word
from aish.safety.commands.parse import parse
from aish.safety.commands.places import resolve, under
from aish.safety.commands.scope import Scope
from aish.safety.commands.words import expand
from aish.safety.lines import CommandLine, commands_in
from aish.safety.rules import Words

# What stands around a path in options, assignments, code and addresses.
_AROUND = re.compile(r"[\s'\"`(){}\[\]<>|;&=,:@$\\]+")
_MOST_NAMES = 4000  # more than a line that can be parsed has; of a longer one the rest is not looked at
_SHORT_OPTION_CHARS = 2

# Programs that read no more than the files they name, and the letters of the options with which they read more: short
# ones, and those that long ones begin with.
_ALL = ("", "")
_CHECKING = ("c", "c")
_BY_LIST = ("", "f")
_RECURSIVE = ("rRd", "rd")
_READS_NAMED = {
    **dict.fromkeys(("cat", "head", "tail", "tac", "nl", "rev", "cut", "tr", "fold", "fmt", "uniq", "od", "xxd"), _ALL),
    **dict.fromkeys(("stat", "basename", "dirname", "realpath", "readlink", "echo", "printf", "pwd", "date"), _ALL),
    **dict.fromkeys(("true", "false", "whoami", "id", "uname", "hostname", "which", "type", "test", "["), _ALL),
    **dict.fromkeys(("md5sum", "sha1sum", "sha256sum", "sha512sum", "b2sum", "cksum"), _CHECKING),
    **dict.fromkeys(("wc", "sort"), _BY_LIST),
    **dict.fromkeys(("grep", "egrep", "fgrep"), _RECURSIVE),
    "ls": ("R", "r"),
    "file": ("f", "f"),
}
# Verbs of git that show names, and nothing of what is in the files.
_GIT_NAMES = frozenset({"status", "branch", "remote", "rev-parse"})


def named_paths(command: str, context: ShellContext, root: str) -> set[str]:
    """Everything in it that may be one, also in the text of its options and of code: relative below the root, else
    absolute without its first slash, as rules have them."""
    scope = Scope(context)
    names = {name for text in _texts(command, scope) for name in _names_in(text)}
    paths = (resolve(_at_home(name, scope), scope) for name in islice(sorted(names), _MOST_NAMES))
    return {_below(path, root) for path in paths if path is not None}


def reads_only_named(line: CommandLine) -> bool:
    """Whether it is sure to. Where the shell goes elsewhere first, names are not what they seem."""
    if not line.is_plain or any(".." in word for words in line.parts for word in words if word):
        return False
    return all(_reads_named(words) for words in line.parts) or _only_moves(line)


def _reads_named(words: Words) -> bool:
    program, *others = [word or "" for word in words]
    if program == "git":
        return others[:1] != [] and others[0] in _GIT_NAMES
    if program not in _READS_NAMED:
        return False
    short, long = _READS_NAMED[program]
    return not any(_broadens(word, short, long) for word in others)


def _broadens(word: str, short: str, long: str) -> bool:
    if word.startswith("--"):
        return word[2:3] in tuple(long)
    return word.startswith("-") and any(letter in short for letter in word[1:])


def _only_moves(line: CommandLine) -> bool:
    return len(line.parts) == 1 and line.parts[0][0] == "cd"


def _texts(command: str, scope: Scope) -> Iterator[str]:
    """The line as it stands, and every word of it as a program would get it."""
    yield command
    try:
        parsed = parse(command)
    except (TooBig, ValueError):
        return
    for simple in commands_in(parsed.script):
        words: tuple[Word, ...] = (
            *simple.words,
            *(word for assignment in simple.assignments for word in assignment.value),
            *(redirect.target for redirect in simple.redirects if redirect.target is not None),
        )
        for word in words:
            yield from (field.text for field in expand(word, scope))


def _names_in(text: str) -> Iterator[str]:
    yield text
    for piece in _AROUND.split(text):
        yield piece
        if piece.startswith("-"):
            yield piece[_SHORT_OPTION_CHARS:]


def _at_home(name: str, scope: Scope) -> str:
    return scope.home + name[1:] if name.startswith("~/") else name


def _below(path: str, root: str) -> str:
    if path == root:
        return "."
    return path[len(root.rstrip("/")) + 1 :] if under(path, root) else path.lstrip("/")
