"""Questions that ask for a command: what this machine has for it goes along to the model, and is shown as it is where
the model is small. A program that is not here is never offered to be run."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache

from aish.frontends.terminal import visible
from aish.types.command_hints import CommandHint

_SURELY = (
    r"what('s| is) the command|which (command|program)|command (for|to)\b|"
    r"(find|list|show|count|search|unpack|extract|compress|delete|rename|copy|download|sort|replace|convert)\b.*\b"
    r"(file|files|folder|directory|line|lines|process|port|disk|archive)s?\b"
)
_ASKS = rf"how (do|can|would|to)\b|what('s| is) (the )?(command|way)|which tool|{_SURELY}"
_MAX_CHARS = 2000
# Words that stand before the program that is meant.
_BEFORE = frozenset({"sudo", "time", "nohup", "exec", "command", "env", "nice"})


@cache
def _words(pattern: str) -> re.Pattern[str]:
    """Compiled when first looked for: a run needs one of them at most."""
    return re.compile(rf"\b({pattern})", re.IGNORECASE)


def asks_for_command(text: str) -> bool:
    return len(text) <= _MAX_CHARS and bool(_words(_ASKS).search(text))


def surely_asks_for_command(text: str) -> bool:
    """Not just how to do something: that may as well be cooking rice."""
    return len(text) <= _MAX_CHARS and bool(_words(_SURELY).search(text))


def told_to_model(hints: Sequence[CommandHint]) -> str:
    """Beside the question; "" if nothing is known."""
    lines = [f"- {hint.program}: {hint.about}" + (f"; e.g. {hint.example}" if hint.example else "") for hint in hints]
    here = [line for line, hint in zip(lines, hints, strict=True) if hint.here]
    return "\n\n[programs on this machine that may help]\n" + "\n".join(here) if here else ""


def shown(hints: Sequence[CommandHint]) -> list[str]:
    lines = []
    for hint in hints:
        example = f"   {hint.example}" if hint.example else ""
        absent = f" (not here: apt install {hint.package})" if not hint.here and hint.package else ""
        lines.append(visible(f"  {hint.program:<10} {hint.about}{absent}{example if hint.here else ''}"))
    return lines


def runnable(hints: Sequence[CommandHint]) -> list[str]:
    """The first line that can be run as it stands, as a proposal."""
    return [hint.example for hint in hints if hint.is_ready][:1]


def program_of(command: str) -> str:
    """The first word that names a program; "" where that cannot be told."""
    for word in command.split():
        if "=" in word.split("/")[0] or word in _BEFORE or word.startswith("-"):
            continue
        return word if re.fullmatch(r"[\w./+-]+", word) else ""
    return ""


def sorted_out(commands: Sequence[str], is_known: Callable[[str], bool]) -> tuple[list[str], list[str]]:
    """Those that can be run here, and the programs of the others."""
    there, missing = [], []
    for command in commands:
        program = program_of(command)
        if program and "/" not in program and not is_known(program):
            missing.append(program)
        else:
            there.append(command)
    return there, list(dict.fromkeys(missing))
