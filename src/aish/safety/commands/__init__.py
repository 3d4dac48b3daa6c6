"""Classifies a shell line as safe, unknown or destructive, with reasons that a user can check. Pure.

The line is parsed into a model. The proof (`proof/`) may show that it only reads; the danger scan (`danger/`) may only
raise its level. The implementation is imported with the first line, so that it does not delay the prompt.
"""

from __future__ import annotations

from aish.safety.commands.verdict import Level, LineVerdict, PathChange, Reason, ShellContext, Write

__all__ = ["Level", "LineVerdict", "PathChange", "Reason", "ShellContext", "Write", "classify"]


def classify(line: str, context: ShellContext) -> LineVerdict:
    from aish.safety.commands.classifier import classify as judge

    return judge(line, context)
