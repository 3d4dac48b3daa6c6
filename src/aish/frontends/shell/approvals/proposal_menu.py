"""Offers the commands that a model proposed one by one, and runs those that the user chooses as if they were typed.

The gate judges a command before it runs. The choice answers its question, except that what the gate denies does not
run, and that a catastrophe needs a typed word.
"""

from __future__ import annotations

import re
from contextlib import suppress
from enum import Enum, auto

import msgspec

from aish.errors import ProcessError
from aish.frontends.runtime import LiveShell
from aish.frontends.shell.approvals.consent import HARMLESS, ask_for_rule
from aish.frontends.shell.command_hints import split_by_availability
from aish.frontends.shell.render.styles import columns_of
from aish.frontends.shell.shell import Shell
from aish.safety.policy.judgement import Judgement
from aish.safety.policy.rules import SHELL_TOOL
from aish.types.decisions import PROVED_RULE, Answer, Choice, Question, Verdict

_YES = Answer(Choice.YES)


class Offered(Enum):
    """What became of the proposals. `CONTINUE`: the user wants the model to go on with the output."""

    NOTHING = auto()
    RAN = auto()
    CONTINUE = auto()


class _Chosen(msgspec.Struct, frozen=True):
    command: str
    answer: Answer = _YES  # to the gate's question
    continues: bool = False


class _Stop(Enum):
    SKIP = auto()
    QUIT = auto()


async def offer_commands(shell: Shell, commands: list[str], *, can_continue: bool = False) -> Offered:
    """`can_continue`: the menu has a key that runs a command and lets the model go on with its output."""
    offered = Offered.NOTHING
    shell.keep_typed_ahead()
    for number, command in enumerate(commands, 1):
        if missing := await _find_missing_program(shell.live, command):
            shell.output.note(f"· {missing} is not on this machine")
            continue
        if len(commands) > 1:
            shell.output.note(f"proposal {number} of {len(commands)}")
        chosen = await _choose(shell, command, can_continue=can_continue)
        if chosen is _Stop.QUIT:
            break
        if isinstance(chosen, _Chosen) and await run_chosen(shell, chosen.command, chosen.answer):
            offered = Offered.RAN
            if chosen.continues:
                return Offered.CONTINUE
    return offered


async def run_chosen(shell: Shell, command: str, answer: Answer = _YES) -> bool:
    """Runs a command that the user has chosen, as if it were typed, unless the gate denies it or the user takes the
    choice back. `answer` answers the gate's question. Whether it ran."""

    async def consent(question: Question) -> Answer:
        if question.insist:
            shell.output.note(f"  {question.reason}")
            typed = await shell.read("this cannot be undone; type yes to run it: ", "")
            return Answer(Choice.YES if (typed or "").strip() == "yes" else Choice.NO)
        return answer if question.always else _YES

    decision = await shell.runtime.authorise_command(command, consent)
    if decision.verdict is not Verdict.ALLOW:
        how = "" if decision.rule == "the user" else f" ({decision.reason}); you can type it yourself"
        shell.output.note(f"  it was not run{how}")
        return False
    if decision.rule != PROVED_RULE:
        await shell.take_checkpoint()
    await shell.run_line(command, attach=True, typed=True, is_proposal=True)
    return True


def show_command(shell: Shell, command: str) -> None:
    """Shows a command exactly as it will run."""
    shell.output.note("$ " + command.replace("\n", "\n> "))


async def _find_missing_program(live: LiveShell | None, command: str) -> str:
    """The program of the command that is not installed, or "". Looks twice: an earlier command may have installed
    it."""
    if live is None:
        return ""
    _, missing = split_by_availability([command], lambda word: live.resolve(word) is not None)
    if missing:
        with suppress(ProcessError):
            await live.refresh()
        _, missing = split_by_availability([command], lambda word: live.resolve(word) is not None)
    return missing[0] if missing else ""


async def _choose(shell: Shell, command: str, *, can_continue: bool) -> _Chosen | _Stop:
    while True:
        judged = shell.runtime.explain(SHELL_TOOL, {"command": command})
        show_command(shell, command)
        if judged.verdict is not Verdict.ALLOW:
            shell.output.note(f"  {judged.reason}")
        columns = columns_of(shell.output.out)()
        typed = (await shell.read(_menu(judged, columns, can_continue=can_continue), "")) or ""
        match typed.strip().lower():
            case "r" | "run" | "y" | "yes":
                return _Chosen(command)
            case "c" | "continue" if can_continue:
                return _Chosen(command, continues=True)
            case "a" | "always":
                if always := await _ask_for_rule(shell, judged, command):
                    return _Chosen(command, always)
            case "e" | "edit":
                command = (await shell.read("$ ", command)) or command
            case "x" | "explain":
                _explain(shell, judged, can_continue=can_continue)
            case "s" | "skip" | "n" | "no":
                return _Stop.SKIP
            case "" | "q" | "quit":
                return _Stop.QUIT
            case _:  # such as `rm x`
                shell.output.note("  that is no choice here, so nothing was run; it stands at the prompt")
                shell.type_ahead(typed)
                return _Stop.QUIT


def _menu(judged: Judgement, columns: int, *, can_continue: bool) -> str:
    continues = " [c]ontinue" if can_continue else ""
    always = " [a]lways" if judged.always else ""
    menu = f"[r]un{continues} [e]dit [s]kip e[x]plain{always} [q]uit › "
    return menu if len(menu) < columns else re.sub(r"\w*(\[\w\])\w*", r"\1", menu)


async def _ask_for_rule(shell: Shell, judged: Judgement, command: str) -> Answer | None:
    if judged.always is None:
        shell.output.note("  no rule would be narrow enough to allow this always")
        return None
    return await ask_for_rule(judged.always.title, shell, shell.output, command=True, example=command)


def _explain(shell: Shell, judged: Judgement, *, can_continue: bool) -> None:
    for reason in judged.reasons or (judged.reason or HARMLESS,):
        shell.output.note(f"  - {reason}")
    if can_continue:
        shell.output.note("  [c]ontinue runs it, and the model goes on with what came out")
    if judged.always is not None:
        shell.output.note(f"  [a]lways would add the rule: {judged.always.title}")
