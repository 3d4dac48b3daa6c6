"""Folders of installed packages, which are too large to watch completely.

Installing a package adds or removes a name in the folder that lists packages, so only that folder is watched. Manual
changes inside a package are not noticed.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

FOLDERS = frozenset({"node_modules", ".venv", "venv"})
_MAX_LISTINGS = 200


def listings(root: Path, folder: str) -> list[str]:
    """Returns the folders, relative to the root, that list the packages of one of PACKAGE_FOLDERS."""
    if folder.rpartition("/")[2] == "node_modules":
        found: Iterable[Path] = [root / folder, *(root / folder).glob("@*/")]
    else:
        found = (root / folder).glob("lib/python*/site-packages/")
    return [path.relative_to(root).as_posix() for path in list(found)[:_MAX_LISTINGS]]


def is_package(name: str) -> bool:
    """Excludes caches and temporary names of installers."""
    return bool(name) and not name.startswith((".", "~", "__pycache__"))
