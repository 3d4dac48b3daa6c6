"""Counts what a command would remove, for the user who is asked: how many files, and how many that git does not have.

It only looks, and within bounds: a question must not wait for a walk through a whole disk. What git has is read from
the index of the repository, so no program is started.
"""

from __future__ import annotations

import glob
import itertools
import os
import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

MAX_ENTRIES = 20_000
MAX_S = 0.2
_MAX_INDEX_BYTES = 32 * 1024 * 1024  # an index of 300 000 files
_ENTRY = struct.Struct(">40x20sH")  # times and modes, the hash, flags
_NAME_BITS = 0x0FFF
_EXTENDED = 0x4000
_HEADER = struct.Struct(">4sII")


class _Count(msgspec.Struct):
    files: int = 0
    folders: int = 0
    untracked: int = 0
    is_complete: bool = True


def count_loss(paths: Sequence[str], *, max_entries: int = MAX_ENTRIES, max_s: float = MAX_S) -> str:
    """What is lost if these paths, which may be patterns, are removed with all below them. "" if nothing is there."""
    count = _Count()
    repositories = _Repositories()
    until_s = time.monotonic() + max_s
    found = itertools.chain.from_iterable(map(_walk, _expand(paths)))
    for number, entry in enumerate(found, 1):
        if number > max_entries or (number % 64 == 0 and time.monotonic() > until_s):
            count.is_complete = False
            break
        if entry.endswith("/"):
            count.folders += 1
            continue
        count.files += 1
        count.untracked += not repositories.has(entry)
    return _describe(count, repositories)


def _describe(count: _Count, repositories: _Repositories) -> str:
    if not count.files:
        return "removes empty folders" if count.folders else ""
    more = "" if count.is_complete else "more than "
    files = "1 file" if count.files == 1 else f"{count.files} files"
    if not repositories.found:
        return f"removes {more}{files}, and there is no git repository"
    if not repositories.is_known:
        return f"removes {more}{files}"
    lost = f"{count.untracked} not in git" if count.untracked else "all in git"
    if count.files == count.untracked:
        lost = "not in git" if count.files == 1 else "none of them in git"
    return f"removes {more}{files}, {lost}"


def _expand(paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        if os.path.lexists(path):
            yield path
        elif glob.has_magic(path):
            yield from map(str, Path("/").glob(path[1:]))


def _walk(path: str) -> Iterator[str]:
    """The path and all below it; folders end with a slash. Links are removed, not followed."""
    if Path(path).is_symlink() or not Path(path).is_dir():
        yield path
        return
    yield f"{path}/"
    try:
        with os.scandir(path) as entries:
            names = [entry.path for entry in itertools.islice(entries, MAX_ENTRIES + 1) if entry.name != ".git"]
    except OSError:  # it cannot be looked into
        return
    for name in names:
        yield from _walk(name)


class _Repositories:
    """The files that git has, by repository; each index is read once. `found`: one is there and could be read."""

    def __init__(self) -> None:
        self.found = False
        self.is_known = True  # every index that was needed could be read
        self._tops: dict[Path, Path | None] = {}  # by folder; None if it is in no repository
        self._tracked: dict[Path, frozenset[str] | None] = {}

    def has(self, path: str) -> bool:
        top = self._find_top(Path(path).parent)
        if top is None:
            return False
        if top not in self._tracked:
            self._tracked[top] = read_index(top)
        tracked = self._tracked[top]
        self.found, self.is_known = True, self.is_known and tracked is not None
        return tracked is not None and os.path.relpath(path, top) in tracked

    def _find_top(self, folder: Path) -> Path | None:
        if folder not in self._tops:
            is_top = (folder / ".git").is_dir()
            above = None if folder == folder.parent else folder.parent
            self._tops[folder] = folder if is_top else above and self._find_top(above)
        return self._tops[folder]


def read_index(top: Path) -> frozenset[str] | None:
    """The names that the index of the repository has; None if it cannot be read, or has a form that git seldom
    writes."""
    try:
        with (top / ".git" / "index").open("rb") as file:
            return frozenset(_names_in(file.read(_MAX_INDEX_BYTES)))
    except FileNotFoundError:  # nothing was ever added
        return frozenset()
    except (OSError, struct.error, ValueError):
        return None


def _names_in(data: bytes) -> Iterator[str]:
    magic, version, count = _HEADER.unpack_from(data)
    if magic != b"DIRC" or version not in (2, 3):
        raise ValueError(version)
    start = _HEADER.size
    for _ in range(count):
        _, flags = _ENTRY.unpack_from(data, start)
        name = start + _ENTRY.size + (2 if flags & _EXTENDED else 0)
        length = flags & _NAME_BITS
        end = name + length if length < _NAME_BITS else data.index(b"\0", name)
        yield os.fsdecode(data[name:end])
        start += (end - start + 8) // 8 * 8  # filled up with at least one zero
