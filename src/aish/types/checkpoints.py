"""Checkpoints of a workspace, and what a rewind brings back."""

from __future__ import annotations

import msgspec


class Checkpoint(msgspec.Struct, frozen=True):
    """The files of a workspace at one moment. `root` and `number` find it again on this machine."""

    root: str
    number: int
    taken_ms: int = 0


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
