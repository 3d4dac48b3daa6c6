"""Applies the mode of a turn to what the gate judged. Pure.

This is the only place where a mode decides. A rule of the user stays what it is, and what the gate insists on is asked:
a mode lowers only the questions that come from the defaults. Plan mode takes back every leave but that to read.
"""

from __future__ import annotations

from typing import assert_never

import msgspec

from aish.safety.policy.judgement import Judgement, Nature
from aish.types.decisions import MODE_RULE, PROVED_RULE, Mode, Verdict

# From the strictest to the freest.
ORDER = (Mode.PLAN, Mode.ASK, Mode.EDITS, Mode.AUTO)
PLAN_REFUSAL = (
    "this is plan mode, in which nothing is changed. Read what you need; then end with a plan for the user to approve: "
    "the line PLAN:, then what you would do, step by step"
)


def apply_mode(judged: Judgement, mode: Mode, *, is_held: bool = False) -> Judgement:
    """`is_held`: a sandbox without network holds the command, which visibly loses nothing."""
    match mode:
        case Mode.ASK:
            return judged
        case Mode.PLAN:
            return _plan(judged)
        case Mode.EDITS | Mode.AUTO:
            may_run = _is_lowerable(judged) and (
                judged.nature is Nature.EDIT or (mode is Mode.AUTO and judged.nature is Nature.COMMAND and is_held)
            )
            return Judgement(Verdict.ALLOW, f"{MODE_RULE}{mode}", "", nature=judged.nature) if may_run else judged
        case _:
            assert_never(mode)


def needs_sandbox(judged: Judgement, mode: Mode) -> bool:
    """Whether the mode decides by what a sandbox holds."""
    return mode is Mode.AUTO and judged.nature is Nature.COMMAND and _is_lowerable(judged)


def strictest(mode: Mode, most: Mode) -> Mode:
    return min(mode, most, key=ORDER.index)


def _is_lowerable(judged: Judgement) -> bool:
    return judged.verdict is Verdict.ASK and judged.is_default and not judged.insist


def _plan(judged: Judgement) -> Judgement:
    if judged.verdict is Verdict.DENY:
        return judged
    if judged.nature is not Nature.READ:
        return Judgement(Verdict.DENY, "mode plan", PLAN_REFUSAL, judged.reasons, nature=judged.nature)
    if judged.is_proved_line and judged.verdict is Verdict.ALLOW:
        return msgspec.structs.replace(judged, rule=PROVED_RULE)  # it runs with the environment that its proof assumes
    return judged
