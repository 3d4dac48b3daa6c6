"""Finds what autonomous work must not do unasked, whatever the rules allow. Pure.

A sandbox contains what a command changes outside the workspace. It does not prevent losses inside it, effects on other
machines, or reading secrets: a command that visibly does one of these halts. A command that cannot be analysed runs in
the sandbox only.
"""

from __future__ import annotations

from typing import Protocol

from aish.safety.commands import Level, ShellContext, classify
from aish.safety.policy.rules import OUTSIDE_SANDBOX
from aish.safety.policy.visible_losses import SandboxState, find_visible_loss
from aish.types.decisions import Question

_NOT_CONTAINED = "it is not proved harmless, and no sandbox holds it (see `aish doctor`)"


class Containment(SandboxState, Protocol):
    """Where commands run, and whether a sandbox contains them."""

    def shell_in(self, turn: str) -> ShellContext:
        """Where the next command of the turn runs."""


async def find_hazard(question: Question, containment: Containment) -> str:
    """Why a command must not run unasked. "" if it is proved harmless, or if the sandbox contains it and it does
    nothing that a sandbox cannot contain."""
    command = question.arguments.get("command")
    if not isinstance(command, str):
        return ""
    if question.arguments.get(OUTSIDE_SANDBOX):
        return question.reason
    shell = containment.shell_in(question.turn)
    found = classify(command, shell)
    if found.level is Level.SAFE:
        return ""
    if hazard := find_visible_loss(found, containment.is_new):
        return hazard
    return "" if await containment.is_active() else _NOT_CONTAINED
