"""What a read leads to on this disk: links followed, wildcards expanded, and secrets below a folder found.

For the gate, which judges names without looking at the disk. Bounded: past the bounds nothing more is found.
"""

from __future__ import annotations

import glob
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from aish.safety.commands.verdict import Read

_MAX_MATCHES = 200
# A walk through this many entries takes a few milliseconds.
_MAX_ENTRIES = 3_000
# Folders of packages and histories: what is in them came from elsewhere.
_SKIPPED = frozenset({".git", "node_modules", ".venv", "venv", "__pycache__", ".tox", "target", "site-packages"})


class RealPaths:
    """`is_secret` says of a path whether its place or its name is that of a secret."""

    def __init__(self, root: Path, is_secret: Callable[[str], bool]) -> None:
        self._root = str(root)
        self._real_root = os.path.realpath(root)
        self._is_secret = is_secret

    def __call__(self, read: Read) -> Iterator[str]:
        for path in self._matches(read):
            real = self._as_named(os.path.realpath(path))
            if real != path:
                yield real
            elif read.glob:
                yield path
            if read.deep:
                yield from self._below(path, read.filters)

    def _below(self, folder: str, filters: Sequence[str]) -> Iterator[str]:
        """Secrets, and what links lead to elsewhere."""
        for entry in _files_below(folder):
            name = entry.name.lower()
            if filters and not any(fnmatchcase(name, pattern.lower()) for pattern in filters):
                continue
            if entry.is_symlink():
                real = self._as_named(os.path.realpath(entry.path))
                if not real.startswith(self._root + "/"):
                    yield real
            elif self._is_secret(entry.path):
                yield entry.path

    def _matches(self, read: Read) -> Iterator[str]:
        if not read.glob:
            return iter((read.path,))
        # As the shell does it: a leading `*` passes hidden files over, which `Path.glob` does not.
        found = glob.iglob(read.path)  # noqa: PTH207
        return itertools.islice(found, _MAX_MATCHES)

    def _as_named(self, real: str) -> str:
        """Below the workspace as it is named, where its own name is a link."""
        rest = real.removeprefix(self._real_root)
        is_below = rest != real and rest[:1] in ("", "/")
        return self._root + rest if is_below else real


def _files_below(folder: str) -> Iterator[os.DirEntry[str]]:
    left = _MAX_ENTRIES
    folders = [folder]
    while folders and left > 0:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in itertools.islice(entries, left):
                    left -= 1
                    if not entry.is_dir(follow_symlinks=False):
                        yield entry
                    elif entry.name not in _SKIPPED:
                        folders.append(entry.path)
        except OSError:
            continue
