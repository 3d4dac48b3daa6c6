"""Finds the files that a command line names, and whether it may reach others: for rules that protect paths from a
model.

Does not access the disk: links may lead elsewhere, and a program's words do not tell what else it reads. So a line
reads only what it names only if all its programs are known to do no more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from aish.safety.commands import ShellContext
from aish.safety.commands.bounds import MAX_BYTES, TooBig
from aish.safety.commands.path_kinds import absolute_path, is_under
from aish.safety.commands.shell_state import Scope
from aish.safety.commands.syntax.expansion import expand
from aish.safety.commands.syntax.parser import parse
from aish.safety.policy.command_line import CommandLine, words_in
from aish.safety.policy.rules import CommandWords

# Characters around a path in options, assignments, code and addresses.
_AROUND = re.compile(r"[\s'\"`(){}\[\]<>|;&=,:@$\\]+")
_PATH_LIKE = re.compile(r"[/.]")
_SHORT_OPTION_CHARS = 2
_LONGEST_OPTION_CHARS = 64  # of letters with a value at their end; longer ones are not split
_UP = re.compile(r"(?<![^/=])\.\.(?![^/])")  # after a link it leads elsewhere
_LINKS = "/proc"  # its links lead everywhere

# Programs that read only the files they name, and the letters of options with which they read more: short ones, and
# initials of long ones.
_ALL = ("", "")
_CHECKING = ("c", "c")
_BY_LIST = ("", "f")
_EVALUATING = ("vR", "")  # a name there may contain a command
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
# Subcommands of git that show names but no contents.
_GIT_NAMES = {"status": ("v", "v"), "branch": ("", "e"), "remote": _ALL, "rev-parse": _ALL}


def find_named_paths(command: str, context: ShellContext, root: str) -> set[str]:
    """Returns everything that may be a path, also in option values and code: relative below the root, else absolute
    without the first slash, as in rules."""
    if len(command) > MAX_BYTES:  # too long to be read, and never certain to read only what it names
        return set()
    scope = Scope(context)
    names = {name for text in _split_text(command) for name in _names_in(text)}
    names |= {name for field in _expand_words(command, scope) for name in (*_names_in(field), *_names_within(field))}
    paths = (absolute_path(_at_home(name, scope), scope) for name in names)
    return {_below(path, root) for path in paths if path is not None}


def reads_only_named(line: CommandLine, context: ShellContext) -> bool:
    """Whether this is certain. If the shell changes the directory first, names mean other files."""
    if not line.is_plain or any(_is_unclear(word, Scope(context)) for words in line.parts for word in words if word):
        return False
    return all(_reads_named(words) for words in line.parts) or _is_only_cd(line)


def _reads_named(words: CommandWords) -> bool:
    program, *others = [word or "" for word in words]
    known = _READS_NAMED
    if program == "git" and others:
        known, program, others = _GIT_NAMES, others[0], others[1:]
    if program not in known:
        return False
    short, long = known[program]
    return not any(_reads_more(word, short, long) for word in others)


def _is_unclear(word: str, scope: Scope) -> bool:
    path = absolute_path(word, scope)
    is_long = word.startswith("-") and not word.startswith("--") and len(word) > _LONGEST_OPTION_CHARS
    return is_long or _UP.search(word) is not None or (path is not None and is_under(path, _LINKS))


def _reads_more(word: str, short: str, long: str) -> bool:
    if word.startswith("--"):
        return word[2:3] in tuple(long)
    return word.startswith("-") and any(letter in short for letter in word[1:])


def _is_only_cd(line: CommandLine) -> bool:
    return len(line.parts) == 1 and line.parts[0][0] == "cd"


def _expand_words(command: str, scope: Scope) -> Iterator[str]:
    """Yields every word as a program would get it."""
    try:
        parsed = parse(command)
    except (TooBig, ValueError):
        return
    for word in words_in(parsed.script):
        yield from (field.text for field in expand(word, scope))


def _names_in(word: str) -> Iterator[str]:
    """Yields the word, and the value of an option that it may be."""
    yield word
    if word.startswith("--"):
        yield word.partition("=")[2]
    elif word.startswith("-"):  # any of its letters may be the one that takes the rest
        yield from (word[at:] for at in range(_SHORT_OPTION_CHARS, min(len(word), _LONGEST_OPTION_CHARS)))


def _names_within(text: str) -> Iterator[str]:
    for piece in _split_text(text):
        yield from _names_in(piece)


def _split_text(text: str) -> Iterator[str]:
    """Splits code or prose, in which a bare word is rarely a file."""
    return filter(_PATH_LIKE.search, _AROUND.split(text))


def _at_home(name: str, scope: Scope) -> str:
    return scope.home + name[1:] if name.startswith("~/") else name


def _below(path: str, root: str) -> str:
    if path == root:
        return "."
    return path[len(root.rstrip("/")) + 1 :] if is_under(path, root) else path.lstrip("/")
