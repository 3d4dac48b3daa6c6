"""Lists the files of a folder as an indented tree, without build output and version control."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

_DEPTH = 4
_SKIPPED = frozenset({".git", "node_modules", "__pycache__", ".venv", "target", "dist", "build", ".cache"})


def tree_lines(root: Path, max_lines: int, depth: int = _DEPTH) -> list[str]:
    """At most `max_lines` lines, then "…" if there are more."""
    lines = list(islice(_lines(root, depth, max_lines), max_lines + 1))
    return lines if len(lines) <= max_lines else [*lines[:max_lines], "…"]


def _lines(folder: Path, depth: int, max_lines: int, indent: str = "") -> Iterator[str]:
    try:
        entries = sorted(folder.iterdir(), key=lambda entry: (entry.is_file(), entry.name))
    except OSError:
        return
    for entry in entries[: max_lines + 1]:
        if entry.name in _SKIPPED or entry.is_symlink():
            continue
        is_folder = entry.is_dir()
        yield f"{indent}{entry.name}{'/' if is_folder else ''}"
        if is_folder and depth > 1:
            yield from _lines(entry, depth - 1, max_lines, indent + "  ")
