"""Jobs that bash was told to forget (`disown`): its children, in groups that its list of jobs does not have.

Looked for when bash waits, so that what runs in the foreground is none of them. Where that cannot be seen (no /proc, a
plain sh) there are none.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")


def disowned_groups(bash: int, jobs: frozenset[int] | None) -> frozenset[int]:
    """`jobs` are the groups bash knows; None: it has not said."""
    if jobs is None:
        return frozenset()
    groups = {_group_of(child, bash) for child in _children(bash)}
    return frozenset(groups) - jobs - {0, bash}


def _children(pid: int) -> list[int]:
    with suppress(OSError, ValueError):
        return [int(child) for child in (_PROC / str(pid) / "task" / str(pid) / "children").read_bytes().split()]
    return []


def _group_of(pid: int, session: int) -> int:
    """0 for the dead, and for who has left the session."""
    with suppress(OSError, ValueError):
        state, _, group, found, *_ = (_PROC / str(pid) / "stat").read_bytes().rpartition(b") ")[2].split()
        return int(group) if int(found) == session and state not in b"ZX" else 0
    return 0
