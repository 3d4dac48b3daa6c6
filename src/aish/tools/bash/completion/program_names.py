"""Lists the programs on PATH, for corrections of mistyped names, and looks for files that a line names."""

from __future__ import annotations

import os
from contextlib import suppress

_MAX_FOLDERS = 64
_MAX_NAMES = 20_000  # of one folder; the largest known have 5 000


class ProgramNames:
    """Keeps the names of each folder until the folder changes. The first listing takes about 2 ms."""

    def __init__(self) -> None:
        self._folders: dict[str, tuple[int, frozenset[str]]] = {}

    def list_names(self, path: str) -> frozenset[str]:
        folders = [folder for folder in path.split(":") if folder][:_MAX_FOLDERS]
        known = {folder: self._list_folder(folder) for folder in folders}
        self._folders = known
        return frozenset().union(*(names for _, names in known.values()))

    def _list_folder(self, folder: str) -> tuple[int, frozenset[str]]:
        try:
            changed_ns = os.stat(folder).st_mtime_ns  # noqa: PTH116 - for every folder at each line
            known = self._folders.get(folder)
            return known if known and known[0] == changed_ns else (changed_ns, _read_folder(folder))
        except OSError:
            return 0, frozenset()


def _read_folder(folder: str) -> frozenset[str]:
    return frozenset(os.listdir(folder)[:_MAX_NAMES])  # noqa: PTH208 - names, not paths


def has_file(cwd: str, name: str) -> bool:
    with suppress(ValueError, OSError):
        return os.path.lexists(os.path.join(cwd, os.path.expanduser(name)))  # noqa: PTH111, PTH118 - at every key
    return False
