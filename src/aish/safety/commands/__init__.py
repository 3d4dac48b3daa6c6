"""Understands a line of shell: safe, unknown or destructive, with reasons a person can check. Pure, like all of safety.

The line is parsed into a model; the strict pass may prove it read-only, the loose pass may only raise danger. What does
the work is loaded with the first line: a prompt should not wait for it.
"""

from __future__ import annotations

from aish.safety.commands.verdict import Change, Level, Reason, ShellContext, Verdict, Write

__all__ = ["Change", "Level", "Reason", "ShellContext", "Verdict", "Write", "classify"]


def classify(line: str, context: ShellContext) -> Verdict:
    from aish.safety.commands.judge import classify as judge

    return judge(line, context)
