"""Input and output of the classifier. Frozen data."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec


class Level(StrEnum):
    SAFE = "safe"  # proved read-only
    UNKNOWN = "unknown"  # not proved; no danger found
    DESTRUCTIVE = "destructive"  # loses data or control


class PathChange(StrEnum):
    """The change of a path."""

    OVERWRITE = "overwrite"
    APPEND = "append"
    CREATE = "create"
    MODIFY = "modify"
    REMOVE = "remove"


class ShellContext(msgspec.Struct, frozen=True):
    """All that the classifier knows about the shell; it does not access files, processes or the environment itself.

    `functions` maps a name to its body, "" if the body is unknown. `variables` contains only values known for certain.
    `readable` are folders besides the workspace that may be read, `private` are folders of aish that need approval.
    """

    cwd: str
    home: str
    roots: tuple[str, ...] = ()  # the workspace; empty means the working directory
    aliases: Mapping[str, str] = {}
    functions: Mapping[str, str] = {}
    variables: Mapping[str, str] = {}
    readable: tuple[str, ...] = ()
    private: tuple[str, ...] = ()


class Reason(msgspec.Struct, frozen=True):
    """`span` is in characters of the line and shows which part the reason is about."""

    text: str
    span: tuple[int, int]
    rule: str
    kind: str  # the class of danger; "unproved", "outside", "secret" or "network" if the line is not proved safe
    level: Level = Level.UNKNOWN
    catastrophe: bool = False


class Write(msgspec.Struct, frozen=True):
    """`path` is absolute if it could be resolved, else as written; unresolved counts as outside the workspace."""

    path: str
    change: PathChange
    inside: bool
    span: tuple[int, int]


class Read(msgspec.Struct, frozen=True):
    """A file or folder that the line reads. `path` is absolute if it could be resolved, else as written."""

    path: str
    inside: bool  # the workspace, or a harmless place of the system
    span: tuple[int, int]
    deep: bool = False  # with everything below it
    names_only: bool = False  # lists names and sizes, shows no content
    glob: bool = False  # `path` is a pattern
    follows: bool = False  # with `deep`: also where links lead
    ignores_links: bool = False  # with `deep`: links below it are not read
    tracked_only: bool = False  # with `deep`: in a repository only what it tracks
    skips_hidden: bool = False  # with `deep`: not what is hidden
    filters: tuple[str, ...] = ()  # with `deep`: name patterns, of which one must match a file


class LineVerdict(msgspec.Struct, frozen=True):
    """`reads` and `hosts` are given for lines that change nothing: what they read, and which hosts they may contact."""

    level: Level
    reasons: tuple[Reason, ...] = ()
    writes: tuple[Write, ...] = ()
    programs: tuple[str, ...] = ()
    reads: tuple[Read, ...] = ()
    hosts: tuple[str, ...] = ()

    def only(self, *kinds: str) -> bool:
        """Whether only reasons of these kinds keep the line from being safe."""
        return self.level is Level.UNKNOWN and not self.writes and all(reason.kind in kinds for reason in self.reasons)

    @property
    def catastrophe(self) -> bool:
        """Must be asked about even if everything is approved."""
        return any(reason.catastrophe for reason in self.reasons)
