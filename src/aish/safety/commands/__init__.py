"""Classifies a shell line as safe, unknown or destructive, with reasons that a user can check. Pure.

The line is parsed into a model. The proof (`proof/`) may show that it only reads; the danger scan (`danger/`) may only
raise its level. The implementation is imported with the first line, so that it does not delay the prompt.
"""

from __future__ import annotations

from aish.safety.commands.verdict import Change, Level, Reason, ShellContext, Verdict, Write

__all__ = ["Change", "Level", "Reason", "ShellContext", "Verdict", "Write", "classify"]


def classify(line: str, context: ShellContext) -> Verdict:
    from aish.safety.commands.judge import classify as judge

    return judge(line, context)
