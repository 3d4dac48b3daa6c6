"""Folders of installed packages: too large for all of it to be watched, and changed by installing.

Who installs a package makes or removes a name in the folder that lists them; that much is watched. What somebody
changes by hand inside a package is not seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

FOLDERS = frozenset({"node_modules", ".venv", "venv"})
_MAX_LISTINGS = 200


def listings(root: Path, folder: str) -> list[str]:
    """The folders, relative to the root, that list the packages of one of FOLDERS."""
    if folder.rpartition("/")[2] == "node_modules":
        found: Iterable[Path] = [root / folder, *(root / folder).glob("@*/")]
    else:
        found = (root / folder).glob("lib/python*/site-packages/")
    return [path.relative_to(root).as_posix() for path in list(found)[:_MAX_LISTINGS]]


def is_package(name: str) -> bool:
    """Caches and what an installer puts aside for a moment are none."""
    return bool(name) and not name.startswith((".", "~", "__pycache__"))
