"""Which server to start, for what, and within which limits. Frozen data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec


class ServerLimits(msgspec.Struct, frozen=True):
    start_timeout_s: float = 30.0  # of a large project, on a busy machine
    answer_timeout_s: float = 10.0
    idle_stop_s: float = 600.0  # 0 means never
    max_memory_mb: int = 2048  # of the server and all it started; 0 means no limit
    close_wait_s: float = 2.0
    max_message_bytes: int = 32 * 1024 * 1024
    max_open: int = 64  # documents that a server is told of at once; the one not used for longest is closed
    restarts: int = 3  # crashes in a row, after which nothing is started for a while
    first_pause_s: float = 0.5  # after the second crash; doubled by each further one
    rest_s: float = 60.0  # how long nothing is started then; one that lived this long had recovered
    attend_every_s: float = 5.0  # looks at memory and idleness


class ServerSpec(msgspec.Struct, frozen=True):
    """`documents` maps the ending of a file to the name the protocol has for its language."""

    name: str
    command: tuple[str, ...]
    root: Path
    documents: Mapping[str, str]
    watched: tuple[str, ...] = ()  # further names, or `*.ending`, whose change the server wants to hear of
    settings: Mapping[str, Any] = {}
    options: Mapping[str, Any] = {}
    env: Mapping[str, str] = {}
    loaded_log: str = ""  # what its log says once it knows all files of the project; "" where it does not say
    ask_compiler: bool = False  # diagnostics come from the compiler behind it (see `tsserver`)
    complete_with: tuple[str, ...] = ()  # files of which one must be in a folder above, else answers are partial
    because: str = ""
    limits: ServerLimits = ServerLimits()

    def language_id(self, path: str) -> str:
        suffix = PurePosixPath(path).suffix
        return self.documents.get(suffix) or self.documents.get(suffix.lower(), "plaintext")

    def incomplete(self, path: str) -> str:
        """Why what it says of a file's project may not be all; "" where it is."""
        if not self.complete_with:
            return ""
        folders = [self.root / folder for folder in PurePosixPath(path).parents]
        return (
            "" if any((folder / name).is_file() for folder in folders for name in self.complete_with) else self.because
        )

    def wants(self, path: str) -> bool:
        """Whether a change of this file is news to the server."""
        name = PurePosixPath(path)
        ending = name.suffix.lower()
        return ending in self.documents or name.name in self.watched or f"*{ending}" in self.watched
