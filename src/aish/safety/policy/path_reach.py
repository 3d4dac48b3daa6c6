"""Which files a command line names, and whether it may reach others: for rules that keep paths from a model.

Looks at no disk: a link may lead elsewhere, and what a program reads besides is not told by its words. So a line counts
as reading only what it names where all its programs are known to do no more, and only then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from aish.safety.commands import ShellContext
from aish.safety.commands.bounds import MAX_BYTES, TooBig
from aish.safety.commands.places import resolve, under
from aish.safety.commands.scope import Scope
from aish.safety.commands.syntax.expansion import expand
from aish.safety.commands.syntax.parser import parse
from aish.safety.policy.command_line import CommandLine, words_in
from aish.safety.policy.rules import Words

# What stands around a path in options, assignments, code and addresses.
_AROUND = re.compile(r"[\s'\"`(){}\[\]<>|;&=,:@$\\]+")
_PATH_LIKE = re.compile(r"[/.]")
_SHORT_OPTION_CHARS = 2
_LONGEST_OPTION_CHARS = 64  # of letters with a value at their end; what is longer is not taken apart
_UP = re.compile(r"(?<![^/=])\.\.(?![^/])")  # after a link it leads elsewhere than it seems
_LINKS = "/proc"  # which leads everywhere

# Programs that read no more than the files they name, and the letters of the options with which they read more: short
# ones, and those that long ones begin with.
_ALL = ("", "")
_CHECKING = ("c", "c")
_BY_LIST = ("", "f")
_EVALUATING = ("vR", "")  # a name there may hold a command
_RECURSIVE = ("rRd", "rd")
_READS_NAMED = {
    **dict.fromkeys(("cat", "head", "tail", "tac", "nl", "rev", "cut", "tr", "fold", "fmt", "uniq", "od", "xxd"), _ALL),
    **dict.fromkeys(("stat", "basename", "dirname", "realpath", "readlink", "echo", "pwd", "date"), _ALL),
    **dict.fromkeys(("true", "false", "whoami", "id", "uname", "hostname", "which", "type"), _ALL),
    **dict.fromkeys(("seq", "sleep", "nproc", "df", "uptime"), _ALL),
    **dict.fromkeys(("printf", "test", "["), _EVALUATING),
    **dict.fromkeys(("md5sum", "sha1sum", "sha256sum", "sha512sum", "b2sum", "cksum"), _CHECKING),
    **dict.fromkeys(("grep", "egrep", "fgrep"), _RECURSIVE),
    "wc": _BY_LIST,
    "sort": ("", "fc"),
    "ls": ("R", "r"),
    "file": ("f", "f"),
}
# Verbs of git that show names, and nothing of what is in the files.
_GIT_NAMES = {"status": ("v", "v"), "branch": ("", "e"), "remote": _ALL, "rev-parse": _ALL}


def named_paths(command: str, context: ShellContext, root: str) -> set[str]:
    """Everything in it that may be one, also in the text of its options and of code: relative below the root, else
    absolute without its first slash, as rules have them."""
    if len(command) > MAX_BYTES:  # nobody reads that, and it is never sure to read only what it names
        return set()
    scope = Scope(context)
    names = {name for text in _pieces_of(command) for name in _names_in(text)}
    names |= {name for field in _fields(command, scope) for name in (*_names_in(field), *_names_within(field))}
    paths = (resolve(_at_home(name, scope), scope) for name in names)
    return {_below(path, root) for path in paths if path is not None}


def reads_only_named(line: CommandLine, context: ShellContext) -> bool:
    """Whether it is sure to. Where the shell goes elsewhere first, names are not what they seem."""
    if not line.is_plain or any(_is_unclear(word, Scope(context)) for words in line.parts for word in words if word):
        return False
    return all(_reads_named(words) for words in line.parts) or _only_moves(line)


def _reads_named(words: Words) -> bool:
    program, *others = [word or "" for word in words]
    known = _READS_NAMED
    if program == "git" and others:
        known, program, others = _GIT_NAMES, others[0], others[1:]
    if program not in known:
        return False
    short, long = known[program]
    return not any(_broadens(word, short, long) for word in others)


def _is_unclear(word: str, scope: Scope) -> bool:
    path = resolve(word, scope)
    is_long = word.startswith("-") and not word.startswith("--") and len(word) > _LONGEST_OPTION_CHARS
    return is_long or _UP.search(word) is not None or (path is not None and under(path, _LINKS))


def _broadens(word: str, short: str, long: str) -> bool:
    if word.startswith("--"):
        return word[2:3] in tuple(long)
    return word.startswith("-") and any(letter in short for letter in word[1:])


def _only_moves(line: CommandLine) -> bool:
    return len(line.parts) == 1 and line.parts[0][0] == "cd"


def _fields(command: str, scope: Scope) -> Iterator[str]:
    """Every word of it as a program would get it."""
    try:
        parsed = parse(command)
    except (TooBig, ValueError):
        return
    for word in words_in(parsed.script):
        yield from (field.text for field in expand(word, scope))


def _names_in(word: str) -> Iterator[str]:
    """It, and the value of an option that it may be."""
    yield word
    if word.startswith("--"):
        yield word.partition("=")[2]
    elif word.startswith("-"):  # any of its letters may be the one that takes the rest
        yield from (word[at:] for at in range(_SHORT_OPTION_CHARS, min(len(word), _LONGEST_OPTION_CHARS)))


def _names_within(text: str) -> Iterator[str]:
    for piece in _pieces_of(text):
        yield from _names_in(piece)


def _pieces_of(text: str) -> Iterator[str]:
    """Of code, or of words about something: there a bare word is hardly a file."""
    return filter(_PATH_LIKE.search, _AROUND.split(text))


def _at_home(name: str, scope: Scope) -> str:
    return scope.home + name[1:] if name.startswith("~/") else name


def _below(path: str, root: str) -> str:
    if path == root:
        return "."
    return path[len(root.rstrip("/")) + 1 :] if under(path, root) else path.lstrip("/")
