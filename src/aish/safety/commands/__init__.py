"""Understands a line of shell: safe, unknown or destructive, with reasons a person can check. Pure, like all of safety.

The line is parsed into a model; the strict pass may prove it read-only, the loose pass may only raise danger.
"""

from aish.safety.commands.judge import classify
from aish.safety.commands.verdict import Change, Level, Reason, ShellContext, Verdict, Write

__all__ = ["Change", "Level", "Reason", "ShellContext", "Verdict", "Write", "classify"]
