"""Checkpoints of a workspace, and what a rewind of a session brings back."""

from __future__ import annotations

from enum import StrEnum

import msgspec

REWIND_KIND = "rewind"  # of the document of a session


class Checkpoint(msgspec.Struct, frozen=True):
    """The files of a workspace at one moment. `root` and `number` find it again on the same machine."""

    root: str
    number: int


class FileChanges(msgspec.Struct, frozen=True):
    """What bringing a checkpoint back changes, or has changed: paths below its root. `left` are paths that stay as they
    are, each with the reason."""

    restored: tuple[str, ...] = ()  # are gone now
    replaced: tuple[str, ...] = ()  # are different now
    removed: tuple[str, ...] = ()  # were not there then
    left: tuple[tuple[str, str], ...] = ()

    @property
    def count(self) -> int:
        return len(self.restored) + len(self.replaced) + len(self.removed)


class RestoredFiles(msgspec.Struct, frozen=True):
    """`before` is the checkpoint that was taken just before the files were brought back."""

    changes: FileChanges
    before: Checkpoint


class RewindScope(StrEnum):
    """What a rewind brings back."""

    FILES = "files"
    CONVERSATION = "conversation"
    BOTH = "both"


class TurnCheckpoint(msgspec.Struct, frozen=True):
    """The checkpoint before the first effect of a turn, or why there is none."""

    turn: str
    checkpoint: Checkpoint | None = None
    problem: str = ""


Cut = tuple[int, int]  # the first and the last turn of a part that is no longer in the conversation


class PastRewind(msgspec.Struct, frozen=True):
    """A rewind that was made: how to take it back. `to` is where it went, `last` the newest turn at that time."""

    id: str
    at_ms: int
    to: str
    last: int
    before: tuple[Checkpoint, ...] = ()
    cuts: tuple[Cut, ...] = ()


class SessionRewinds(msgspec.Struct, frozen=True):
    """What is stored of a session beside its turns."""

    checkpoints: tuple[TurnCheckpoint, ...] = ()
    cuts: tuple[Cut, ...] = ()
    rewinds: tuple[PastRewind, ...] = ()

    def has_cut(self, number: int) -> bool:
        return any(first <= number <= last for first, last in self.cuts)


class RewindTarget(msgspec.Struct, frozen=True):
    """Something that a session can be rewound to: the state before a turn (`id` is its number) or before an earlier
    rewind (`r1`, `r2`, …). `files` None: no effect is known since, so there are no files to bring back. `problem` says
    why files cannot be brought back."""

    id: str
    at_ms: int
    title: str
    files: tuple[tuple[str, FileChanges], ...] | None = None  # by workspace
    problem: str = ""
    is_cut: bool = False  # the turn is no longer part of the conversation
    turn: str = ""  # the id of the turn, "" for a rewind

    @property
    def changed(self) -> int:
        return sum(changes.count for _, changes in self.files or ())


class RewindResult(msgspec.Struct, frozen=True):
    """What a rewind has done. Rewinding to `undo` takes it back. `files` are changes by workspace, `turns` the number
    of turns that left the conversation."""

    undo: str
    files: tuple[tuple[str, FileChanges], ...] = ()
    turns: int = 0
