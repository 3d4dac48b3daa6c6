"""All that came from a process, also what left its group and session (`setsid`). Linux only: elsewhere it is idle.

Two means, because each has a gap. The process adopts what its children leave behind (`PR_SET_CHILD_SUBREAPER`), so the
tree below it is whole as long as it lives. And it has a mark in its environment, which is inherited: it finds them
also after the process was killed, less those that were started with another environment (`env -i`).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
_ROUNDS = 50  # whatever forks while it is looked for is found in the next one
_ROUND_S = 0.001


def signal_descendants(leader: int, number: int) -> bool:
    """Whether there was one; `number` 0 only asks."""
    found = _below(leader)
    _signal(found, number)
    return bool(found)


def kill_descendants(leader: int | None, mark: str) -> None:
    """And all that has the mark, but not the process itself. None: it has gone."""
    for _ in range(_ROUNDS):
        below = _below(leader) if leader is not None else []
        found = [*below, *(_marked(mark.encode()) - {leader, *below})]
        if not found:
            return
        _signal(found, signal.SIGKILL)
        time.sleep(_ROUND_S)


def _signal(pids: Iterable[int], number: int) -> None:
    for pid in pids if number else ():
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _below(leader: int) -> list[int]:
    """Parents first: a shell that outlived its command would go on to the next one. Without the dead, though what
    these left behind counts."""
    children: dict[int, list[int]] = {}
    dead = set()
    for folder in _PROC.glob("[0-9]*"):
        with suppress(OSError, ValueError):
            state, parent, *_ = (folder / "stat").read_bytes().rpartition(b") ")[2].split()
            children.setdefault(int(parent), []).append(int(folder.name))
            if state in b"ZX":
                dead.add(int(folder.name))
    found = [leader]
    for parent_pid in found:  # which grows meanwhile
        found += [pid for pid in children.get(parent_pid, ()) if pid not in found]
    return [pid for pid in found[1:] if pid not in dead]


def _marked(mark: bytes) -> set[int]:
    found: set[int] = set()
    for folder in _PROC.glob("[0-9]*"):
        with suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                found.add(int(folder.name))
    return found
