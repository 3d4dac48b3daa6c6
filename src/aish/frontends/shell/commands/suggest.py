"""`aish suggest`, `aish explain` and `aish init`: a model at the prompt of your own shell.

`init` prints lines for the start-up file of bash, zsh or fish that bind Ctrl-X Ctrl-A to `suggest`.
"""

from __future__ import annotations

import argparse
import re
import shutil
from collections.abc import Sequence

from aish.autonomy.turn_summary import TurnSummary
from aish.engine.engine import Engine
from aish.errors import ModelNotFound, UsageError
from aish.frontends.runtime import Runtime
from aish.frontends.shell.approvals.consent import verdict_lines
from aish.frontends.shell.command_hints import hints_for_model, is_command_question, program_of
from aish.frontends.shell.render.event_printer import PROVIDER_FAILED, print_turn, printer_for
from aish.frontends.shell.render.styles import display_for, make_output
from aish.frontends.signals import run_until_done
from aish.frontends.terminal import visible
from aish.types.events import Status
from aish.types.live_shell import CommandHint
from aish.types.messages import user
from aish.types.requests import TurnRequest

_SUGGEST = (
    "Turn what the user wants into one command line for their shell. Answer with that command line alone: no "
    "explanation, no code fence, no prompt sign. If it already is a command, correct it."
)
_EXPLAIN = "Explain in a few short lines what this command line does, part by part, and what could go wrong:\n\n{}"
# Builtins and keywords of bash, which have no program of that name.
BASH_WORDS = frozenset(
    ("alias", "bg", "cd", "declare", "exec", "exit", "export", "fg", "for", "history", "if", "jobs", "kill", "local",
     "read", "set", "shopt", "source", "test", "time", "type", "ulimit", "umask", "unset", "wait", "while")
)  # fmt: skip
_FENCE = re.compile(r"^```\w*\n(.*?)\n?```$", re.DOTALL)

_BASH = r"""# aish: Ctrl-X Ctrl-A turns the current line into a suggestion
__aish_suggest() {
  local found
  found=$(aish suggest -- "$READLINE_LINE") && [ -n "$found" ] && READLINE_LINE=$found READLINE_POINT=${#found}
}
bind -x '"\C-x\C-a": __aish_suggest'
"""
_ZSH = r"""# aish: Ctrl-X Ctrl-A turns the current line into a suggestion
__aish_suggest() {
  local found
  found=$(aish suggest -- "$BUFFER" </dev/null) && [[ -n $found ]] && BUFFER=$found && CURSOR=$#BUFFER
  zle redisplay
}
zle -N __aish_suggest
bindkey '^X^A' __aish_suggest
"""
_FISH = r"""# aish: Ctrl-X Ctrl-A turns the current line into a suggestion
function __aish_suggest
    set -l found (aish suggest -- (commandline) </dev/null); and test -n "$found"; and commandline -- $found
    commandline -f repaint
end
bind \cx\ca __aish_suggest
"""
SNIPPETS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def init(shell: str) -> int:
    print(SNIPPETS[shell], end="")
    return 0


def run(arguments: argparse.Namespace, runtime: Runtime) -> int:
    text = " ".join(arguments.text).strip()
    if not text:
        example = "tar xzf a.tgz -C b" if arguments.command == "explain" else "list files by size"
        raise UsageError("nothing was given", hint=f'for example: aish {arguments.command} "{example}"')
    work = _explain if arguments.command == "explain" else _suggest
    return run_until_done(work(text, arguments.model, runtime))


async def _suggest(text: str, model: str, runtime: Runtime) -> int:
    summary = TurnSummary()
    output = make_output(runtime.launch_context.env)
    limits = runtime.config.limits.limits()
    hints = await runtime.find_commands(text)
    question = user(text + hints_for_model(hints))
    request = TurnRequest(input=(question,), model=model, kept=False, system=_SUGGEST, limits=limits)
    async with runtime.engine(mcp=()) as engine:
        known = _first_example(hints) if is_command_question(text) else ""
        if known and await _has_no_strong_model(engine, model):
            output.line(visible(known))  # a small model invents command lines; this one is known
            return 0
        async with engine.turn(request) as batches:
            async for events in batches:
                summary.add(events)
                for event in events:
                    if isinstance(event.body, Status):
                        output.note(f"· {event.body.text}")
    line = choose_line(summary.text, hints)
    if not line:
        output.note(f"aish: {summary.error or summary.end_detail or 'the model suggested nothing'}")
        return PROVIDER_FAILED
    output.line(visible(line))
    return 0


async def _has_no_strong_model(engine: Engine, model: str) -> bool:
    """Without any model the index of commands still has an answer."""
    try:
        return (await engine.router.resolve(model)).info.is_weak
    except ModelNotFound:
        if model:
            raise
        return True


async def _explain(command: str, model: str, runtime: Runtime) -> int:
    env = runtime.launch_context.env
    output = make_output(env)
    for line in verdict_lines(runtime.explain("shell__run", {"command": command})):
        output.note(line)
    printer = printer_for(output, display_for(output.out, env))
    question = user(_EXPLAIN.format(command))
    async with runtime.engine(mcp=()) as engine:
        request = TurnRequest(input=(question,), model=model, kept=False, limits=runtime.config.limits.limits())
        await print_turn(engine, request, printer, None)
    return printer.exit_code


def choose_line(reply: str, hints: Sequence[CommandHint]) -> str:
    """The line of the model if its program is installed; otherwise the first example of the hints that is."""
    line = extract_command(reply)
    program = program_of(line)
    if program and (program in BASH_WORDS or shutil.which(program)):
        return line
    return _first_example(hints) or line


def _first_example(hints: Sequence[CommandHint]) -> str:
    """It may have blanks to fill in: it is put where it can be edited."""
    return next((hint.example for hint in hints if hint.here and hint.example), "")


def extract_command(reply: str) -> str:
    """The command line in a reply, without the code fence, prompt sign or quotes that models put around it."""
    text = reply.strip()
    if fenced := _FENCE.match(text):
        text = fenced[1].strip()
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    line = line.removeprefix("CMD:").removeprefix("$ ").strip()
    return line[1:-1] if len(line) > 1 and line[0] == line[-1] == "`" else line
