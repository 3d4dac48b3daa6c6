"""What work that goes on by itself does not do by itself, whatever the rules allow. Pure.

A sandbox holds what a command changes outside the workspace. It does not hold what is lost inside it, what is sent or
done elsewhere, and what is read: those halt where they can be seen. What cannot be seen at all runs in the sandbox
only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from aish.safety.commands import Change, Level, ShellContext, Verdict, classify
from aish.types.decisions import Question

_NOT_READ = "parse"  # the rule of a line that the parser could not read
# Kinds of reasons that halt: nothing takes them back.
_EFFECTS = frozenset({"removal", "upload", "remote", "daemon", "startup", "keys", "secret"})
# Rules of kind "write" whose file is known: that file is looked at.
_NAMED_WRITES = frozenset({"write", "outside.write", "permissions.file"})
_UNHELD = "it is not proved harmless, and no sandbox holds it (see `aish doctor`)"


class Containment(Protocol):
    """Where commands run, and what stands between them and everything else."""

    def shell_in(self, turn: str) -> ShellContext:
        """Where the next command of that turn runs."""

    async def is_active(self) -> bool:
        """Whether commands run inside a working sandbox that has no network."""

    def is_new(self, path: str) -> bool:
        """Whether there is nothing at that absolute path, and it lies where the sandbox lets files be written."""


async def hazard_of(question: Question, containment: Containment) -> str:
    """Why a command must not run unasked; "" for what is proved harmless, or held by the sandbox and seen to do none of
    what a sandbox cannot hold."""
    command = question.arguments.get("command")
    if not isinstance(command, str):
        return ""
    shell = containment.shell_in(question.turn)
    found = classify(command, shell)
    if found.level is Level.SAFE:
        return ""
    if hazard := _seen_in(found, containment.is_new):
        return hazard
    return "" if await containment.is_active() else _UNHELD


def _seen_in(found: Verdict, is_new: Callable[[str], bool]) -> str:
    if found.level is Level.DESTRUCTIVE:
        return found.reasons[0].text if found.reasons else "it is destructive"
    seen = (*_effects(found), *_overwritten(found, is_new))
    return seen[0] if seen else ""


def _effects(found: Verdict) -> Iterator[str]:
    for reason in found.reasons:
        is_unnamed_write = reason.kind == "write" and reason.rule not in _NAMED_WRITES
        if reason.kind in _EFFECTS or reason.rule == _NOT_READ or is_unnamed_write:
            yield reason.text


def _overwritten(found: Verdict, is_new: Callable[[str], bool]) -> Iterator[str]:
    """What adds to a file of the workspace, or makes one, loses nothing."""
    for write in found.writes:
        adds = write.inside and write.change in (Change.APPEND, Change.CREATE)
        if not adds and not is_new(write.path):
            yield f"it may overwrite {write.path}"
