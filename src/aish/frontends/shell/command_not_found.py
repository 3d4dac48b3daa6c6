"""Answers a command line whose first word the shell does not know: names the nearest command, and runs that, asks the
model, or goes on typing, by one key."""

from __future__ import annotations

import msgspec

from aish.frontends.shell.prompt.routing import Destination, RoutedLine
from aish.frontends.shell.prompt.spelling import correct_line
from aish.frontends.shell.shell import Shell

# A function by which a distribution answers itself, for example with the package that has the program.
_HANDLER = "command_not_found_handle"


async def answer_unknown(shell: Shell, routed: RoutedLine) -> RoutedLine | None:
    """Returns what is to be done instead, or None for nothing. Runs nothing itself."""
    live, word = shell.live, routed.unknown
    if live is None or "/" in word:  # bash says what is wrong with a path
        return routed
    corrected = correct_line(routed.text, word, live.names())
    if corrected is None and live.resolve(_HANDLER) is not None:
        return routed
    name, line = corrected or ("", "")
    meant = f" Did you mean {name}?" if name else ""
    if shell.has_typed_ahead:  # the user has gone on, so no key answers a question
        shell.output.note(f"{word}: command not found.{meant}")
        return None
    runs = f'[Enter/y] runs "{line}", ' if line else ""
    question = f"{word}: command not found.{meant} {runs}[m] asks the model, anything else goes on typing "
    match await shell.read_key(question, ("", "y", "m") if line else ("", "m")):
        case "m":
            return RoutedLine(Destination.MODEL, routed.text, is_explicit=True)
        case "" | "y" if line:
            return msgspec.structs.replace(routed, text=line, unknown="")
    return None
