"""Measures the memory of a session of processes. Linux only."""

from __future__ import annotations

import os
from pathlib import Path

_PROC = Path("/proc")
# Fields of /proc/PID/stat after the name, which ends with the last parenthesis.
_SESSION, _RESIDENT_PAGES = 3, 21


def resident_mb(leader: int) -> float | None:
    """Returns the memory of all processes in the session of `leader`; None if it is unknown."""
    if not (_PROC / "self" / "stat").exists():
        return None
    pages = sum(_pages(entry, leader) for entry in os.listdir(_PROC) if entry.isdigit())  # noqa: PTH208  # names only
    return pages * os.sysconf("SC_PAGE_SIZE") / (1024 * 1024)


def _pages(pid: str, leader: int) -> int:
    try:
        fields = (_PROC / pid / "stat").read_bytes().rpartition(b")")[2].split()
        return int(fields[_RESIDENT_PAGES]) if int(fields[_SESSION]) == leader else 0
    except (OSError, ValueError, IndexError):  # the process has ended meanwhile
        return 0
