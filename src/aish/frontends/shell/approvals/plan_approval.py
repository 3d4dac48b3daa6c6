"""Asks about the plan with which an answer in plan mode ends: approve, edit or refuse it."""

from __future__ import annotations

from aish.errors import ProcessError
from aish.frontends.shell.approvals.editor import edit_text
from aish.frontends.shell.commands.mode import MODE_TEXTS
from aish.frontends.shell.shell import Shell, format_error
from aish.types.decisions import Mode

_MENU = "[a]pprove, approve with edits [u]nasked, [e]dit, [r]efuse › "
_WORK_OFF = "The plan is approved. Work it off now."
_WORK_OFF_EDITED = "This plan is approved instead of yours. Work it off now.\n\n"


async def ask_about_plan(shell: Shell, reply: str) -> str | None:
    """Puts the plan of an answer in plan mode to the user. Returns what to tell the model; None if it is not approved,
    and plan mode goes on. Any other text is what to tell the model instead: it stands at the prompt."""
    while True:
        typed = (await shell.read(_MENU)) or ""
        match typed.strip().lower():
            case "a" | "approve" | "y" | "yes":
                return approve_plan(shell)
            case "u" | "unasked":
                return approve_plan(shell, is_unasked=True)
            case "e" | "edit":
                if edited := await _edit(shell, reply):
                    return _leave_plan_mode(shell, shell.mode_before, _WORK_OFF_EDITED + edited)
            case "" | "r" | "refuse" | "n" | "no":
                shell.output.note("not approved; plan mode goes on (Shift-Tab or :mode leaves it)")
                return None
            case _:
                shell.output.note("not approved; plan mode goes on, and what you typed stands at the prompt")
                shell.type_ahead(typed)
                return None


def approve_plan(shell: Shell, *, is_unasked: bool = False) -> str:
    """Leaves plan mode, for `edits` or for the mode before it. Returns what to tell the model."""
    return _leave_plan_mode(shell, Mode.EDITS if is_unasked else shell.mode_before, _WORK_OFF)


async def _edit(shell: Shell, plan: str) -> str | None:
    try:
        return await edit_text(plan, name="plan.md", env=shell.editor_env)
    except ProcessError as exc:
        shell.output.note(format_error(exc))
        return None


def _leave_plan_mode(shell: Shell, mode: Mode, text: str) -> str:
    shell.switch_mode(Mode.ASK if mode is Mode.PLAN else mode)
    shell.output.note(f"mode {shell.mode}: {MODE_TEXTS[shell.mode]}")
    return text
