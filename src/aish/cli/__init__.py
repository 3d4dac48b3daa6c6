"""The command line: parses arguments and runs a frontend, which is imported only when its command runs.

Exit codes: 0 answered, 1 any other failure, 2 usage or configuration, 3 something was refused, 4 the provider failed, 5
a limit was reached, 6 work halted and waits for a decision, 130 interrupted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse


def run(words: Sequence[str]) -> int:
    """Runs a command line. Returns the exit code."""
    arguments = parse_command_line(words)
    from aish.cli.commands import RUN, run_guarded

    return run_guarded(lambda: RUN[arguments.command](arguments))


def parse_command_line(words: Sequence[str]) -> argparse.Namespace:
    """Parses a command line. A first word that is no command begins a question for `aish ask`."""
    from argparse import Namespace

    from aish.cli.parsers import PARSERS, USUAL_ACTIONS

    words = _rewrite_help(words)
    command = words[0] if words and words[0] in PARSERS and not _is_question(words) else ""
    if not command:
        return PARSERS["ask"]("aish").parse_args(words, Namespace(command="ask"))
    arguments = PARSERS[command](f"aish {command}").parse_args(words[1:], Namespace(command=command))
    arguments.action = getattr(arguments, "action", None) or USUAL_ACTIONS.get(command, "")
    arguments.words = words
    return arguments


def _rewrite_help(words: Sequence[str]) -> list[str]:
    """Turns `help` and `help COMMAND` into `--help`. Before any other word, `help` begins a question."""
    from aish.cli.parsers import PARSERS

    match list(words):
        case ["help"]:
            return ["--help"]
        case ["help", command] if command in PARSERS:
            return [command, "--help"]
        case others:
            return others


# Commands that are also common first words of a question. They are commands only before one of these actions, before an
# option, or alone.
_ACTIONS = {
    "cost": (),
    "runs": ("list", "show", "resume", "abandon"),
    "tools": ("new", "list", "test"),
    "extensions": ("list", "add", "remove", "check"),
    "memory": ("list", "add", "forget", "import", "export"),
}


def _is_question(words: Sequence[str]) -> bool:
    actions = _ACTIONS.get(words[0])
    return actions is not None and len(words) > 1 and not words[1].startswith("-") and words[1] not in actions


def serve_app(words: Sequence[str]) -> Any:
    """The ASGI application that each worker of `aish serve --workers N` runs."""
    from aish import app
    from aish.frontends.http.server import serve as http_serve
    from aish.frontends.mcp.http import mcp_mount

    arguments = parse_command_line(words)
    runtime = app.serving_runtime(arguments.endpoint, arguments.workspace)
    return http_serve.make_app(arguments, runtime, mcp_mount)[1]
