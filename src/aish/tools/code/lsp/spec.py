"""How a language server is started, and its limits. Frozen data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec


class ServerLimits(msgspec.Struct, frozen=True):
    start_timeout_s: float = 30.0  # of a large project, on a busy machine
    answer_timeout_s: float = 10.0
    idle_stop_s: float = 600.0  # 0 means never
    max_memory_mb: int = 2048  # of the server and its child processes; 0 means no limit
    close_wait_s: float = 2.0
    max_message_bytes: int = 32 * 1024 * 1024
    max_open: int = 64  # open documents; the one not used for longest is closed
    restarts: int = 3  # crashes in a row, after which nothing is started for a while
    first_pause_s: float = 0.5  # after the second crash; doubled by each further one
    rest_s: float = 60.0  # how long nothing is started then; a server that ran this long counts as recovered
    check_every_s: float = 5.0  # checks memory and idleness


class LanguageServerSpec(msgspec.Struct, frozen=True):
    """`documents` maps file suffixes to language ids of the protocol."""

    name: str
    command: tuple[str, ...]
    root: Path
    documents: Mapping[str, str]
    watched: tuple[str, ...] = ()  # further names, or `*.suffix`, whose changes are reported
    settings: Mapping[str, Any] = {}
    options: Mapping[str, Any] = {}
    env: Mapping[str, str] = {}
    loaded_log: str = ""  # the log message that says that the project is loaded; "" if there is none
    ask_compiler: bool = False  # diagnostics come from the TypeScript compiler (see `diagnostics`)
    complete_with: tuple[str, ...] = ()  # one of these files must be in a parent folder, else answers are partial
    because: str = ""
    limits: ServerLimits = ServerLimits()

    def language_id(self, path: str) -> str:
        suffix = PurePosixPath(path).suffix
        return self.documents.get(suffix) or self.documents.get(suffix.lower(), "plaintext")

    def incomplete(self, path: str) -> str:
        """Returns why answers about the file's project may be incomplete, or ""."""
        if not self.complete_with:
            return ""
        folders = [self.root / folder for folder in PurePosixPath(path).parents]
        return (
            "" if any((folder / name).is_file() for folder in folders for name in self.complete_with) else self.because
        )

    def wants(self, path: str) -> bool:
        """Whether changes of this file are reported to the server."""
        name = PurePosixPath(path)
        ending = name.suffix.lower()
        return ending in self.documents or name.name in self.watched or f"*{ending}" in self.watched
