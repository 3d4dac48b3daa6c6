"""`aish suggest`, `aish explain` and `aish init`: a model at the prompt you already have.

`init` prints a few lines for your shell's start-up file; they put Ctrl-X Ctrl-A on `suggest`.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Sequence

from aish.autonomy.turn_summary import Heard
from aish.errors import UsageError
from aish.frontends.runtime import Runtime
from aish.frontends.shell.approvals.verdict_text import verdict_lines
from aish.frontends.shell.command_hints import asks_for_command, program_of, runnable, told_to_model
from aish.frontends.shell.render.event_printer import PROVIDER_FAILED, narrator_for
from aish.frontends.shell.render.styles import look_for
from aish.frontends.shell.render.turn_printer import answer
from aish.frontends.signals import run_until_done
from aish.frontends.terminal import Output, visible
from aish.types.command_hints import CommandHint
from aish.types.events import Status
from aish.types.messages import user
from aish.types.requests import TurnRequest

_SUGGEST = (
    "Turn what the user wants into one command line for their shell. Answer with that command line alone: no "
    "explanation, no code fence, no prompt sign. If it already is a command, mend it."
)
_EXPLAIN = "Explain in a few short lines what this command line does, part by part, and what could go wrong:\n\n{}"
# What bash knows without a program of that name.
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
    heard = Heard()
    output = _output(runtime)
    limits = runtime.config.limits.limits()
    hints = await runtime.find_commands(text)
    asked = user(text + told_to_model(hints))
    request = TurnRequest(input=(asked,), model=model, kept=False, system=_SUGGEST, limits=limits)
    async with runtime.engine(mcp=()) as engine:
        ready = runnable(hints) if asks_for_command(text) else []
        if ready and (await engine.router.resolve(model)).info.is_weak:
            output.line(visible(ready[0]))  # a small model makes lines up; this one is known to work here
            return 0
        async with engine.turn(request) as batches:
            async for events in batches:
                heard.see(events)
                for event in events:
                    if isinstance(event.body, Status):
                        output.note(f"· {event.body.text}")
    line = runnable_line(heard.said, hints)
    if not line:
        output.note(f"aish: {heard.trouble or heard.detail or 'the model suggested nothing'}")
        return PROVIDER_FAILED
    output.line(visible(line))
    return 0


async def _explain(command: str, model: str, runtime: Runtime) -> int:
    output = _output(runtime)
    for told in verdict_lines(runtime.explain("shell__run", {"command": command})):
        output.note(told)
    narrator = narrator_for(output, look_for(output.out, runtime.process_environment.env))
    question = user(_EXPLAIN.format(command))
    async with runtime.engine(mcp=()) as engine:
        request = TurnRequest(input=(question,), model=model, kept=False, limits=runtime.config.limits.limits())
        await answer(engine, request, narrator, None)
    return narrator.exit_code


def _output(runtime: Runtime) -> Output:
    around = look_for(sys.stderr, runtime.process_environment.env)
    return Output(color=around.styled, live=around.live)


def runnable_line(said: str, hints: Sequence[CommandHint]) -> str:
    """What the model wrote, if it begins with a program that is here; else what is known to be."""
    line = bare_command(said)
    program = program_of(line)
    if program and (program in BASH_WORDS or shutil.which(program)):
        return line
    ready = [hint.example for hint in hints if hint.here and hint.example]
    return ready[0] if ready else line


def bare_command(reply: str) -> str:
    """The one line meant to be run, without what models put around it."""
    text = reply.strip()
    if fenced := _FENCE.match(text):
        text = fenced[1].strip()
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    line = line.removeprefix("CMD:").removeprefix("$ ").strip()
    return line[1:-1] if len(line) > 1 and line[0] == line[-1] == "`" else line
