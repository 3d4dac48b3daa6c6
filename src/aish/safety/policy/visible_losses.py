"""What a command visibly loses, or does where no sandbox holds it. Pure.

A sandbox contains what a command changes outside the workspace. It does not prevent losses inside it, effects on other
machines, or reading secrets. One judgement for the modes of the gate and for autonomous work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Protocol

from aish.safety.commands import Level, LineVerdict, PathChange, Reason

_NOT_PARSED = "parse"  # the rule of a line that the parser could not read
# Kinds of reasons whose effects cannot be undone, or happen elsewhere.
_IRREVERSIBLE = frozenset({"removal", "upload", "remote", "daemon", "startup", "keys", "secret"})
# Rules of kind "write" whose file is known, so that it can be checked.
_NAMED_WRITES = frozenset({"write", "outside.write", "permissions.file"})
_KNOWN_REASONS = frozenset({"unproved", "write"})


class SandboxState(Protocol):
    """Whether a sandbox contains what commands do."""

    async def is_active(self) -> bool:
        """Whether commands run inside a working sandbox that has no network."""

    def is_new(self, path: str) -> bool:
        """Whether nothing exists at the absolute path, and the sandbox lets files be written there."""


class _NoSandboxState:
    async def is_active(self) -> bool:
        return False

    def is_new(self, path: str) -> bool:
        return False


NO_SANDBOX_STATE: SandboxState = _NoSandboxState()


def find_visible_loss(found: LineVerdict, is_new: Callable[[str], bool]) -> str:
    """What the line visibly loses or does outside a sandbox; "" if nothing. `is_new` says whether nothing exists at a
    path and the sandbox lets a file be written there."""
    if found.level is Level.DESTRUCTIVE:
        return found.reasons[0].text if found.reasons else "it is destructive"
    return next(chain(_irreversible_effects(found), _overwritten_files(found, is_new)), "")


def hides_effects(reason: Reason) -> bool:
    """Whether by this reason the effect is elsewhere, cannot be undone, or is not known."""
    is_known = reason.kind in _KNOWN_REASONS and reason.rule != _NOT_PARSED
    return not is_known or _is_unnamed_write(reason)


def _is_unnamed_write(reason: Reason) -> bool:
    return reason.kind == "write" and reason.rule not in _NAMED_WRITES


def _irreversible_effects(found: LineVerdict) -> Iterator[str]:
    for reason in found.reasons:
        if reason.kind in _IRREVERSIBLE or reason.rule == _NOT_PARSED or _is_unnamed_write(reason):
            yield reason.text


def _overwritten_files(found: LineVerdict, is_new: Callable[[str], bool]) -> Iterator[str]:
    """Files that may be overwritten. Appending to a file of the workspace, or creating one, loses nothing."""
    for write in found.writes:
        adds = write.inside and write.change in (PathChange.APPEND, PathChange.CREATE)
        if not adds and not is_new(write.path):
            yield f"it may overwrite {write.path}"
