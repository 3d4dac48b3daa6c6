"""What work that goes on by itself does not do by itself, whatever the rules allow. Pure."""

from __future__ import annotations

from aish.safety.commands import Level, ShellContext, classify
from aish.types.decisions import Question

# Where it really runs the gate knows, and says what is destructive there. Here it is some workspace: what a line names
# by a relative path lies in it.
_SOMEWHERE = ShellContext(cwd="/workspace", home="/home/person", roots=("/workspace",))
_NOT_READ = "parse"  # the rule of a line that the parser could not read
_REMOVAL = "removal"


def hazard_in(question: Question) -> str:
    """Why a command must not run unasked: it destroys or removes something, or nobody can tell what it does."""
    command = question.arguments.get("command")
    if not isinstance(command, str):
        return ""
    found = classify(command, _SOMEWHERE)
    if found.level is Level.SAFE:
        return ""
    bad = [reason.text for reason in found.reasons if reason.kind == _REMOVAL or reason.rule == _NOT_READ]
    if found.level is Level.DESTRUCTIVE:
        bad = bad or [reason.text for reason in found.reasons] or ["it is destructive"]
    return bad[0] if bad else ""
