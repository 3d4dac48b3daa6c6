"""Asks about the plan with which an answer in plan mode ends: approve, edit or refuse it. Tells a plan from any other
answer.

The model is asked to mark its plan with a line `PLAN:`. Headings and lines such as "My plan:" count as the mark, too,
since small models write what they are used to. Without a mark, numbered steps are a plan only if the user has not asked
a question: "what are the parts of git?" is often answered with a numbered list.
"""

from __future__ import annotations

import re

from aish.errors import ProcessError
from aish.frontends.shell.approvals.editor import edit_text
from aish.frontends.shell.commands.mode import MODE_TEXTS
from aish.frontends.shell.shell import Shell, format_error
from aish.tool_calls.detect.proposals import lines_of_prose
from aish.types.decisions import Mode

_MENU = "[a]pprove, approve with edits [u]nasked, [e]dit, [r]efuse › "
_WORK_OFF = "The plan is approved. Work it off now."
_WORK_OFF_EDITED = "This plan is approved instead of yours. Work it off now.\n\n"
_WORD = r"(?:plan|plán|plano|piano|план|计划|計画|計劃)"
# A few words before and after it, as in "Here is my plan for the release:".
_LINE = re.compile(
    rf"[*_]{{0,3}}(?:[\w'’]+ ){{0,4}}?{_WORD}\b(?![ -]?mod)(?: [\w'’`./-]+){{0,6}}[*_]{{0,3}} ?[:：]", re.I
)
_HEADING = re.compile(
    rf"(?:#{{1,6}} .{{0,60}}?\b{_WORD}\b|(\*\*|__).{{0,60}}?\b{_WORD}\b.{{0,60}}\1$)(?![ -]?mod)", re.I
)
_STEP = re.compile(r"(?:#{1,6} )?[*_]{0,3}(?:\w{2,12} )?(\d{1,2})[.):][*_]{0,3} ?\S", re.I)
_MIN_STEPS = 2
_MAX_LINE_CHARS = 400  # of a line that is looked at


def is_plan(answer: str, question: str) -> bool:
    """Whether an answer is a plan that the user may approve."""
    lines = [line.strip()[:_MAX_LINE_CHARS] for line in lines_of_prose(answer) if line.strip()]
    if any(_LINE.match(line) or _HEADING.match(line) for line in lines):
        return True
    is_asked = question.rstrip(" \t\n\"'»”)").endswith(("?", "？", "؟"))
    return not is_asked and _count_steps(lines) >= _MIN_STEPS


def _count_steps(lines: list[str]) -> int:
    """How far the numbers of the lines count up from 1."""
    count = 0
    for line in lines:
        found = _STEP.match(line)
        if found is not None and int(found[1]) == count + 1:
            count += 1
    return count


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
