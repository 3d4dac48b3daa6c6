"""Offers the commands that a model proposed (`CMD:` lines) one by one, and runs those that the user chooses.

The choice answers the gate's question about the command. What the gate insists on is asked separately.
"""

from __future__ import annotations

import json
from contextlib import suppress

from aish.errors import ProcessError
from aish.frontends.runtime import LiveShell
from aish.frontends.shell.approvals.consent import HARMLESS, ask_for_rule
from aish.frontends.shell.command_hints import split_by_availability
from aish.frontends.shell.shell import Shell
from aish.safety.policy.judgement import Judgement
from aish.types.decisions import Answer, Choice, Mode, Question, Verdict
from aish.types.live_shell import RunResult
from aish.types.messages import text_of
from aish.types.tools import ResultStatus

_TOOL = "shell__run"
_MENU = "[r]un [e]dit [s]kip e[x]plain{always} [q]uit › "
_YES = Answer(Choice.YES)


async def run_proposals(shell: Shell, commands: list[str]) -> bool:
    """Whether anything was run."""
    ran = False
    for number, command in enumerate(commands, 1):
        if missing := await _find_missing_program(shell.live, command):
            shell.output.note(f"· {missing} is not on this machine")
            continue
        if len(commands) > 1:
            shell.output.note(f"proposal {number} of {len(commands)}")
        chosen = await _choose(shell, command)
        if chosen is None:
            break
        if chosen:
            ran = await _run(shell, *chosen) or ran
    return ran


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


async def _choose(shell: Shell, command: str) -> tuple[str, Answer] | tuple[()] | None:
    """The command to run and the answer for the gate; () to skip it; None to stop."""
    while True:
        judged = shell.runtime.explain(_TOOL, {"command": command})
        shell.output.note(f"$ {command}")
        if judged.verdict is not Verdict.ALLOW:
            shell.output.note(f"  {judged.reason}")
        menu = _MENU.format(always=" [a]lways" if judged.always else "")
        match ((await shell.read(menu, "")) or "").strip().lower():
            case "r" | "run" | "y" | "yes":
                return command, _YES
            case "a" | "always":
                if always := await _ask_for_rule(shell, judged, command):
                    return command, always
            case "e" | "edit":
                command = (await shell.read("$ ", command)) or command
            case "x" | "explain":
                _explain(shell, judged)
            case "s" | "skip" | "n" | "no":
                return ()
            case "" | "q" | "quit":
                return None
            case other:  # such as `rm x`
                shell.output.note(f"  {other!r} is none of these; nothing was run")


async def _ask_for_rule(shell: Shell, judged: Judgement, command: str) -> Answer | None:
    if judged.always is None:
        shell.output.note("  no rule would be narrow enough to allow this always")
        return None
    return await ask_for_rule(judged.always.title, shell, shell.output, command=True, example=command)


def _explain(shell: Shell, judged: Judgement) -> None:
    for reason in judged.reasons or (judged.reason or HARMLESS,):
        shell.output.note(f"  - {reason}")
    if judged.always is not None:
        shell.output.note(f"  [a]lways would add the rule: {judged.always.title}")


async def _run(shell: Shell, command: str, answer: Answer) -> bool:
    async def consent(question: Question) -> Answer:
        if question.insist:
            shell.output.note(f"  {question.reason}")
            typed = await shell.read("this cannot be undone; type yes to run it: ", "")
            return Answer(Choice.YES if (typed or "").strip() == "yes" else Choice.NO)
        return answer if question.always else _YES

    with shell.runtime.choose_command(command):
        result = await shell.engine.call_tool(_TOOL, json.dumps({"command": command}), ask=consent, mode=Mode.ASK)
    text = text_of(result.parts)
    if text:
        shell.output.answer(text if text.endswith("\n") else f"{text}\n")
    if result.status not in (ResultStatus.OK, ResultStatus.TOOL_ERROR):
        return False
    status = 0 if result.status is ResultStatus.OK else 1
    shell.command_context.add_run(RunResult(command, status, shell.cwd, result.duration_ms / 1000, text))
    return True
