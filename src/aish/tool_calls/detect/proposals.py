"""Finds what an answer offers to run or to copy: `CMD:` lines, and fenced blocks of code.

`CMD:` lines are proposals; in a code fence or a quotation they are plain text. Blocks of shell code can be run if the
user names them. Both are numbered together, in their order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

_FENCE = re.compile(r"(\s{0,12}(?:(?:[-*+]|\d{1,2}[.)])\s{1,4})?)(`{3,}(?=[^`]*$)|~{3,})(.*)")
_DECORATION = r"(?:\*\*|__|`{1,2})"
_COMMAND = re.compile(rf" {{0,3}}(?:(?:[-*+]|\d{{1,2}}[.)]) )?({_DECORATION})?CMD:(?:\*\*|__)?[ \t]*(\S.*)")
# With more in one reply the model repeats itself.
MAX_PROPOSALS = 20
MAX_BLOCKS = 200
MAX_BLOCK_CHARS = 256 * 1024

CONTRACT = (
    "You share a terminal with the user: they see what you write, and you see what they ran. To propose a command, "
    "write it on a line of its own that begins with CMD: and holds nothing else, for example\nCMD: ls -la\n"
    "The user decides whether it runs."
)


# The beginning of a line that proposes a command, and the most characters it has.
BEGINNING = re.compile(rf" {{0,3}}(?:(?:[-*+]|\d{{1,2}}[.)]) )?{_DECORATION}?CMD:")
BEGINNING_CHARS = 13

_BEFORE_COMMAND = re.compile(rf" {{0,3}}(?:(?:[-*+]|\d{{1,2}}[.)]) )?{_DECORATION}?")

_SHELLS = frozenset({"bash", "sh", "shell", "zsh"})
# In these, and in blocks that begin with a `$ `, a command stands behind its prompt, with its output below.
_SESSIONS = frozenset({"console", "shell-session", "shellsession", "sh-session", "bash-session", "terminal"})
_MAX_FENCE_CHARS = 256


class AnswerBlock(msgspec.Struct, frozen=True):
    """`command` is what would run, "" if it is not for a shell. `is_proposal`: a `CMD:` line."""

    number: int
    text: str
    language: str = ""
    command: str = ""
    is_proposal: bool = False


class FenceTracker:
    """Follows code fences line by line. The language is that of the fence that is open, or was last."""

    def __init__(self) -> None:
        self.is_open = False
        self.indent = 0
        self.language = ""
        self._mark = ""

    def feed(self, line: str) -> bool:
        """Whether the line opens or closes a fence."""
        found = _FENCE.match(line) if len(line) <= _MAX_FENCE_CHARS else None
        if found is None:
            return False
        indent, mark, info = found.groups()
        if not self.is_open:
            self.is_open, self.indent, self._mark = True, len(indent), mark
            self.language = _language_of(info)
            return True
        if mark[0] != self._mark[0] or len(mark) < len(self._mark) or line.strip().strip(mark[0]):
            return False
        self.is_open = False
        return True

    @property
    def is_for_shell(self) -> bool:
        """Whether what is inside may be run: a block without a language may hold a `$ ` prompt."""
        return self.is_open and (not self.language or is_shell_language(self.language))


class BlockScanner:
    """Reads an answer line by line. A block counts when its fence is closed; until then it has a number only."""

    def __init__(self) -> None:
        self.blocks: list[AnswerBlock] = []
        self.fence = FenceTracker()
        self._count = 0
        self._lines: list[str] = []
        self._chars = 0

    def number_of_next(self) -> int:
        """The number of a block that begins now; 0 inside a fence, and if there are too many."""
        return 0 if self.fence.is_open or self._count >= MAX_BLOCKS else self._count + 1

    def feed(self, line: str) -> int:
        """The number of the block that begins with this line, or 0."""
        number = self.number_of_next()
        if self.fence.feed(line):
            return self._begin(number) if self.fence.is_open else self._end()
        if self.fence.is_open:
            self._chars += len(line)
            if self._chars <= MAX_BLOCK_CHARS:
                self._lines.append(_unindent(line, self.fence.indent))
            return 0
        command = _find_command(line) if number else ""
        if command:
            self._count = number
            self.blocks.append(AnswerBlock(number, command, "bash", command, is_proposal=True))
        return number if command else 0

    def reset(self) -> None:
        """The text has ended. An open fence counts as text: what is not complete is not run."""
        self.fence = FenceTracker()

    def _begin(self, number: int) -> int:
        self._count = number or self._count
        self._lines, self._chars = [], 0
        return number

    def _end(self) -> int:
        if self._chars <= MAX_BLOCK_CHARS and not (self.blocks and self.blocks[-1].number == self._count):
            text = "\n".join(self._lines)
            command = find_block_command(text, self.fence.language)
            self.blocks.append(AnswerBlock(self._count, text, self.fence.language, command))
        return 0


def find_blocks(reply: str) -> list[AnswerBlock]:
    scanner = BlockScanner()
    for line in reply.splitlines():
        scanner.feed(line)
    return scanner.blocks


def proposals(reply: str) -> list[str]:
    found = [block.command for block in find_blocks(reply) if block.is_proposal]
    return list(dict.fromkeys(found))[:MAX_PROPOSALS]


def lines_of_prose(reply: str) -> Iterator[str]:
    """The lines outside of code fences."""
    fence = FenceTracker()
    for line in reply.splitlines():
        if not fence.feed(line) and not fence.is_open:
            yield line


def may_be_command(line: str, *, whole: bool) -> bool:
    """Whether a line proposes a command, or may do so when the rest of it has come."""
    if whole:
        return bool(_find_command(line))
    begun = _BEFORE_COMMAND.sub("", line, count=1)
    return BEGINNING.match(line) is not None or (bool(begun) and "CMD:".startswith(begun))


def is_shell_language(language: str) -> bool:
    return language in _SHELLS or language in _SESSIONS


def find_block_command(text: str, language: str) -> str:
    """What a block of code would run in a shell; "" if it is not for one."""
    if language and not is_shell_language(language):
        return ""
    first = next((line for line in text.splitlines() if line.strip()), "")
    if first.lstrip().startswith("$ "):
        return "\n".join(_typed_lines(text.splitlines()))
    return text.strip("\n") if language in _SHELLS and text.strip() else ""


def _typed_lines(lines: list[str]) -> Iterator[str]:
    """The lines behind the prompts of a session, with those that continue them."""
    continues = False
    for each in lines:
        line = each.lstrip()
        if line.startswith(("$ ", "> ")) or line == ">":
            line = line[2:]
        elif continues:
            line = each
        else:
            continue
        yield line
        continues = line.endswith("\\")


def _language_of(info: str) -> str:
    words = info.replace("{", " ").replace("}", " ").split()
    return words[0].lstrip(".").rstrip(",").lower() if words else ""


def _unindent(line: str, columns: int) -> str:
    blanks = len(line) - len(line.lstrip(" "))
    return line[min(blanks, columns) :]


def _find_command(line: str) -> str:
    found = _COMMAND.fullmatch(line)
    if found is None:
        return ""
    decoration, command = found[1] or "", found[2].strip()
    if decoration and command.endswith(decoration):
        command = command.removesuffix(decoration).rstrip()
    return _bare(command)


def _bare(command: str) -> str:
    """Removes the backticks that some models put around a command."""
    if len(command) > 1 and command[0] == command[-1] == "`" and "`" not in command[1:-1]:
        command = command[1:-1].strip()
    return command
