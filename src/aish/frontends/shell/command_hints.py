"""Hints for questions that ask for a command: programs of this machine that fit.

The model gets them with the question; if it is small, the user sees them, too. A program that is not installed is never
offered to be run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache

from aish.frontends.terminal import visible
from aish.types.live_shell import CommandHint

_CLEAR_QUESTION = (
    r"what('s| is) the command|which (command|program)|command (for|to)\b|"
    r"(find|list|show|count|search|unpack|extract|compress|delete|rename|copy|download|sort|replace|convert)\b.*\b"
    r"(file|files|folder|directory|line|lines|process|port|disk|archive)s?\b"
)
_QUESTION = rf"how (do|can|would|to)\b|what('s| is) (the )?(command|way)|which tool|{_CLEAR_QUESTION}"
_MAX_CHARS = 2000
_WRAPPERS = frozenset({"sudo", "time", "nohup", "exec", "command", "env", "nice"})


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    """Compiles on first use: a run needs at most one of the patterns."""
    return re.compile(rf"\b({pattern})", re.IGNORECASE)


def is_command_question(text: str) -> bool:
    return len(text) <= _MAX_CHARS and bool(_compile(_QUESTION).search(text))


def is_clear_command_question(text: str) -> bool:
    """Whether it surely asks for a command. "How do I ..." alone may ask about anything."""
    return len(text) <= _MAX_CHARS and bool(_compile(_CLEAR_QUESTION).search(text))


def hints_for_model(hints: Sequence[CommandHint]) -> str:
    """Text to send with the question: the hints whose programs are installed. "" if there are none."""
    lines = [
        f"- {hint.program}: {hint.about}" + (f"; e.g. {hint.example}" if hint.example else "")
        for hint in hints
        if hint.here
    ]
    return "\n\n[programs on this machine that may help]\n" + "\n".join(lines) if lines else ""


def hint_lines(hints: Sequence[CommandHint]) -> list[str]:
    lines = []
    for hint in hints:
        example = f"   {hint.example}" if hint.example else ""
        missing = f" (not here: apt install {hint.package})" if not hint.here and hint.package else ""
        lines.append(visible(f"  {hint.program:<10} {hint.about}{missing}{example if hint.here else ''}"))
    return lines


def ready_commands(hints: Sequence[CommandHint]) -> list[str]:
    """The example of the best hint that is here, if it can be run unchanged, as a list of at most one proposal. An
    example of another hint would do something else than what was asked for."""
    best = next((hint for hint in hints if hint.here), None)
    return [best.example] if best and best.is_ready else []


def program_of(command: str) -> str:
    """The program that the command runs, without wrappers such as `sudo`; "" if that is not clear."""
    for word in command.split():
        if "=" in word.split("/")[0] or word in _WRAPPERS or word.startswith("-"):
            continue
        return word if re.fullmatch(r"[\w./+-]+", word) else ""
    return ""


def split_by_availability(commands: Sequence[str], is_known: Callable[[str], bool]) -> tuple[list[str], list[str]]:
    """The commands that can run here, and the missing programs of the others."""
    available, missing = [], []
    for command in commands:
        program = program_of(command)
        if program and "/" not in program and not is_known(program):
            missing.append(program)
        else:
            available.append(command)
    return available, list(dict.fromkeys(missing))
