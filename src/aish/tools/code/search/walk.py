"""Walks the files of a workspace that are not ignored, ordered by name. Links are not followed."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

import msgspec

from aish.errors import ToolError
from aish.tools.code.search.ignore_files import (
    ALWAYS,
    FILES,
    Pattern,
    compile_regex,
    glob_to_regex,
    is_ignored,
    read_patterns,
)
from aish.tools.workspace import Workspace

MAX_FOLDERS = 20_000
_IGNORE_FILE_BYTES = 256 * 1024
_BRACES = re.compile(r"\{([^{}]*)\}")
_MAX_BRACES, _MAX_ALTERNATIVES = 4, 64


class SkippedFiles(msgspec.Struct):
    """What a search has skipped, and why, so that its result is not taken for complete."""

    too_large: int = 0
    unreadable: int = 0
    linked: int = 0
    stopped: bool = False  # at a limit of folders, files or time

    def __str__(self) -> str:
        parts = (
            (self.too_large, f"{self.too_large} files are too large to be looked at"),
            (self.unreadable, f"{self.unreadable} files are no text in UTF-8"),
            (self.linked, f"{self.linked} files are hard links, perhaps to files outside, and not read"),
            (self.stopped, "the workspace is too large for all of it to be looked at"),
        )
        return "; ".join(text for is_so, text in parts if is_so)


def walk_files(space: Workspace, *, below: str = "", skipped: SkippedFiles | None = None) -> Iterator[str]:
    """Yields the files below a folder, "" for all. Stops after MAX_FOLDERS."""
    above = IgnoreRules(space).patterns(below.rpartition("/")[0]) if below else ()
    waiting: list[tuple[str, tuple[Pattern, ...]]] = [(below, above)]
    seen = 0
    while waiting and seen < MAX_FOLDERS:
        folder, patterns = waiting.pop()
        seen += 1
        with suppress(ToolError):  # gone, or not allowed
            entries = space.entries(folder or ".")
            patterns += tuple(_own_patterns(space, folder, [name for name, _ in entries]))
            found = [(f"{folder}/{name}" if folder else name, name, kind) for name, kind in entries]
            list_undoable = [
                (path, kind)
                for path, name, kind in found
                if name not in ALWAYS and not is_ignored(path, patterns, folder=kind == "folder")
            ]
            yield from (path for path, kind in list_undoable if kind == "file")
            waiting += [(path, patterns) for path, kind in reversed(list_undoable) if kind == "folder"]
    if waiting and skipped is not None:
        skipped.stopped = True


class IgnoreRules:
    """The ignore files of a workspace. Each is read once."""

    def __init__(self, space: Workspace) -> None:
        self._space = space
        self._known: dict[str, tuple[Pattern, ...]] = {}

    def patterns(self, folder: str) -> tuple[Pattern, ...]:
        """Returns the patterns of the folder and those above it, outermost first."""
        above: tuple[Pattern, ...] = ()
        for one in ("", *(folder[: slash.start()] for slash in re.finditer("/", folder)), folder):
            if one not in self._known:
                self._known[one] = (*above, *_own_patterns(self._space, one, FILES))
            above = self._known[one]
        return above

    def ignores(self, path: str, *, below: str) -> bool:
        """Whether a walk from the folder `below` skips the path. `below` itself is never ignored."""
        at = len(below) + 1 if below else 0
        while at < len(path):
            end = path.find("/", at)
            part = path if end < 0 else path[:end]
            if is_ignored(part, self.patterns(part.rpartition("/")[0]), folder=end >= 0):
                return True
            at = len(part) + 1
        return False


def _own_patterns(space: Workspace, folder: str, names: Sequence[str]) -> Iterator[Pattern]:
    for file in FILES:
        if file in names:
            with suppress(ToolError):
                data = space.read(f"{folder}/{file}" if folder else file, max_bytes=_IGNORE_FILE_BYTES)
                yield from read_patterns(data.decode("utf-8", "replace"), folder)


def matches_glob(path: str, glob: str) -> bool:
    """`*.py` matches the name, `src/**/*.py` the path; `{a,b}` matches either."""
    glob = glob.removeprefix("./").lstrip("/")
    if not glob:
        return True
    subject = path if "/" in glob else path.rpartition("/")[2]
    return any(compile_regex(glob_to_regex(one)).fullmatch(subject) for one in _alternatives(glob))


@functools.lru_cache(maxsize=64)
def _alternatives(glob: str) -> tuple[str, ...]:
    found = [glob]
    for _ in range(_MAX_BRACES):
        opened = [_BRACES.search(one) for one in found]
        if not any(opened) or len(found) > _MAX_ALTERNATIVES:
            break
        found = [
            one[: at.start()] + choice + one[at.end() :] if at else one
            for one, at in zip(found, opened, strict=True)
            for choice in (at[1].split(",") if at else ("",))
        ]
    return tuple(found[:_MAX_ALTERNATIVES])
