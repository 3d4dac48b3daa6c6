"""What a model proposed in words: shown one by one, run through the gate if the person says so.

The person's yes to a proposal is their answer to the gate's question about it; what the gate insists on it asks itself.
"""

from __future__ import annotations

import json
from contextlib import suppress

from aish.errors import ProcessError
from aish.frontends.runtime import LiveShell
from aish.frontends.shell.approvals.consent import ask_how_wide
from aish.frontends.shell.approvals.verdict_text import HARMLESS
from aish.frontends.shell.command_hints import sorted_out
from aish.frontends.shell.state import Shell
from aish.safety.policy.gate import Judgement
from aish.types.decisions import Answer, Choice, Question, Verdict
from aish.types.live_shell import RunResult
from aish.types.messages import text_of
from aish.types.tools import ResultStatus

_TOOL = "shell__run"
_MENU = "[r]un [e]dit [s]kip e[x]plain{always} [q]uit › "
_YES = Answer(Choice.YES)


async def carry_out(shell: Shell, commands: list[str]) -> bool:
    """Whether anything was run."""
    ran = False
    for number, command in enumerate(commands, 1):
        if absent := await _absent(shell.live, command):
            shell.output.note(f"· {absent} is not on this machine")
            continue
        if len(commands) > 1:
            shell.output.note(f"proposal {number} of {len(commands)}")
        chosen = await _choose(shell, command)
        if chosen is None:
            break
        if chosen:
            ran = await _run(shell, *chosen) or ran
    return ran


async def _absent(live: LiveShell | None, command: str) -> str:
    """The program of it that is not here; one that was run before it may have brought it."""
    if live is None:
        return ""
    _, missing = sorted_out([command], lambda word: live.resolve(word) is not None)
    if missing:
        with suppress(ProcessError):
            await live.refresh()
        _, missing = sorted_out([command], lambda word: live.resolve(word) is not None)
    return missing[0] if missing else ""


async def _choose(shell: Shell, command: str) -> tuple[str, Answer] | tuple[()] | None:
    """The command to run and how far the yes goes; () to skip it; None to stop."""
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
                if always := await _always(shell, judged):
                    return command, always
            case "e" | "edit":
                command = (await shell.read("$ ", command)) or command
            case "x" | "explain":
                _explain(shell, judged)
            case "s" | "skip" | "n" | "no":
                return ()
            case "" | "q" | "quit":
                return None
            case other:  # `rm x` is no yes
                shell.output.note(f"  {other!r} is none of these; nothing was run")


async def _always(shell: Shell, judged: Judgement) -> Answer | None:
    """With the rule as the person leaves it; None: ask again."""
    if judged.always is None:
        shell.output.note("  no rule would be narrow enough to allow this always")
        return None
    return await ask_how_wide(judged.always.title, shell, shell.output, command=True)


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

    with shell.runtime.chosen_command(command):
        result = await shell.engine.call_tool(_TOOL, json.dumps({"command": command}), ask=consent)
    text = text_of(result.parts)
    if text:
        shell.output.answer(text if text.endswith("\n") else f"{text}\n")
    if result.status not in (ResultStatus.OK, ResultStatus.TOOL_ERROR):
        return False
    status = 0 if result.status is ResultStatus.OK else 1
    shell.attached.add(RunResult(command, status, shell.cwd, result.duration_ms / 1000, text))
    return True
