"""Finds what autonomous work must not do unasked, whatever the rules allow. Pure.

A sandbox contains what a command changes outside the workspace. It does not prevent losses inside it, effects on other
machines, or reading secrets: a command that visibly does one of these halts. A command that cannot be analysed runs in
the sandbox only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Protocol

from aish.safety.commands import Level, LineVerdict, PathChange, ShellContext, classify
from aish.types.decisions import Question

_NOT_PARSED = "parse"  # the rule of a line that the parser could not read
# Kinds of reasons that halt: their effects cannot be undone.
_IRREVERSIBLE = frozenset({"removal", "upload", "remote", "daemon", "startup", "keys", "secret"})
# Rules of kind "write" whose file is known, so that it can be checked.
_NAMED_WRITES = frozenset({"write", "outside.write", "permissions.file"})
_NOT_CONTAINED = "it is not proved harmless, and no sandbox holds it (see `aish doctor`)"


class Containment(Protocol):
    """Where commands run, and whether a sandbox contains them."""

    def shell_in(self, turn: str) -> ShellContext:
        """Where the next command of the turn runs."""

    async def is_active(self) -> bool:
        """Whether commands run inside a working sandbox that has no network."""

    def is_new(self, path: str) -> bool:
        """Whether nothing exists at the absolute path, and the sandbox lets files be written there."""


async def find_hazard(question: Question, containment: Containment) -> str:
    """Why a command must not run unasked. "" if it is proved harmless, or if the sandbox contains it and it does
    nothing that a sandbox cannot contain."""
    command = question.arguments.get("command")
    if not isinstance(command, str):
        return ""
    shell = containment.shell_in(question.turn)
    found = classify(command, shell)
    if found.level is Level.SAFE:
        return ""
    if hazard := _find_visible_hazard(found, containment.is_new):
        return hazard
    return "" if await containment.is_active() else _NOT_CONTAINED


def _find_visible_hazard(found: LineVerdict, is_new: Callable[[str], bool]) -> str:
    if found.level is Level.DESTRUCTIVE:
        return found.reasons[0].text if found.reasons else "it is destructive"
    return next(chain(_irreversible_effects(found), _overwritten_files(found, is_new)), "")


def _irreversible_effects(found: LineVerdict) -> Iterator[str]:
    for reason in found.reasons:
        is_unnamed_write = reason.kind == "write" and reason.rule not in _NAMED_WRITES
        if reason.kind in _IRREVERSIBLE or reason.rule == _NOT_PARSED or is_unnamed_write:
            yield reason.text


def _overwritten_files(found: LineVerdict, is_new: Callable[[str], bool]) -> Iterator[str]:
    """Files that may be overwritten. Appending to a file of the workspace, or creating one, loses nothing."""
    for write in found.writes:
        adds = write.inside and write.change in (PathChange.APPEND, PathChange.CREATE)
        if not adds and not is_new(write.path):
            yield f"it may overwrite {write.path}"
