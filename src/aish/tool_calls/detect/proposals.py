"""`CMD:` lines of a reply: commands that the model proposes. In a code fence or a quotation they are plain text."""

from __future__ import annotations

import re
from collections.abc import Iterator

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_COMMAND = re.compile(r" {0,3}(?:[-*] )?CMD:[ \t]*(\S.*)")
# With more in one reply the model repeats itself.
MAX_PROPOSALS = 20

CONTRACT = (
    "You share a terminal with the user: they see what you write, and you see what they ran. To propose a command, "
    "write it on a line of its own that begins with CMD: and holds nothing else, for example\nCMD: ls -la\n"
    "The user decides whether it runs."
)


# The beginning of a line that proposes a command.
BEGINNING = re.compile(r" {0,3}(?:[-*] )?CMD:")
BEGINNING_CHARS = 9


def proposals(reply: str) -> list[str]:
    found = [_bare(match[1]) for line in lines_of_prose(reply) if (match := _COMMAND.fullmatch(line))]
    return list(dict.fromkeys(filter(None, found)))[:MAX_PROPOSALS]


def lines_of_prose(reply: str) -> Iterator[str]:
    """The lines outside of code fences."""
    fence = ""
    for line in reply.splitlines():
        if opened := _FENCE.match(line):
            mark = opened[1]
            if not fence:
                fence = mark
            elif mark[0] == fence[0] and len(mark) >= len(fence) and not line.strip().strip(mark[0]):
                fence = ""
        elif not fence:
            yield line


def _bare(command: str) -> str:
    """Removes the backticks that some models put around a command."""
    command = command.strip()
    if len(command) > 1 and command[0] == command[-1] == "`" and "`" not in command[1:-1]:
        command = command[1:-1].strip()
    return command
