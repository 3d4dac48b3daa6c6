"""`:mode`: how much the model's tools may do without a question; `:approve`, which ends plan mode."""

from __future__ import annotations

from aish.errors import UsageError
from aish.frontends.shell.commands.arguments import unknown_argument
from aish.frontends.shell.shell import Shell
from aish.types.decisions import Mode

MODE_TEXTS = {
    Mode.ASK: "you are asked before anything is changed",
    Mode.EDITS: "edits of files in the project run unasked; :undo takes them back",
    Mode.AUTO: "edits and commands that lose nothing run unasked, commands only inside the sandbox",
    Mode.PLAN: "nothing is changed; the model plans, and you approve",
}


async def approve(shell: Shell, rest: str) -> None:
    """Has the last answer worked off as a plan, also if it was not recognised as one."""
    from aish.frontends.shell.approvals.plan_approval import approve_plan
    from aish.frontends.shell.ask_model import ask_model

    if rest not in ("", "unasked"):
        raise unknown_argument("approve", rest, "unasked, so that edits run unasked")
    if shell.mode is not Mode.PLAN or not shell.answer.text.strip():
        missing = "no plan yet" if shell.mode is Mode.PLAN else f"this is mode {shell.mode}"
        raise UsageError(f"there is nothing to approve: {missing}", hint=":mode plan, then ask for what is to be done")
    await ask_model(shell, approve_plan(shell, is_unasked=rest == "unasked"))


async def mode(shell: Shell, rest: str) -> None:
    if rest and rest not in set(Mode):
        raise unknown_argument("mode", rest, ", ".join(Mode))
    if rest:
        shell.switch_mode(Mode(rest))
    shell.output.note(f"mode {shell.mode}: {MODE_TEXTS[shell.mode]}")
    if shell.mode is Mode.AUTO and not await shell.runtime.containment.is_active():
        shell.output.note("no sandbox without network is active here, so commands are asked about (:doctor says why)")
