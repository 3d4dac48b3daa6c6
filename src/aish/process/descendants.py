"""Finds and signals all descendants of a process, also those that left its group and session (`setsid`). Linux only;
does nothing elsewhere.

Two ways, because each has a gap. The process adopts the orphans of its children (`PR_SET_CHILD_SUBREAPER`), so the tree
below it is complete as long as it lives. And it has a mark in its environment, which is inherited: the mark finds them
also after the process was killed, except those started with another environment (`env -i`).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
_ROUNDS = 50  # a process that forks during the search is found in the next round
_ROUND_S = 0.001


def signal_descendants(leader: int, number: int) -> bool:
    """Signals the descendants of `leader`. Whether there were any; `number` 0 only asks."""
    found = _find_descendants(leader)
    _signal(found, number)
    return bool(found)


def kill_descendants(leader: int | None, mark: str) -> None:
    """Kills the descendants of `leader` and every process with the mark, but not `leader` itself. None: it has
    ended."""
    for _ in range(_ROUNDS):
        below = _find_descendants(leader) if leader is not None else []
        found = [*below, *(_find_marked(mark.encode()) - {leader, *below})]
        if not found:
            return
        _signal(found, signal.SIGKILL)
        time.sleep(_ROUND_S)


def _signal(pids: Iterable[int], number: int) -> None:
    for pid in pids if number else ():
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _find_descendants(leader: int) -> list[int]:
    """Parents first: a shell that outlived its command would start the next one. Without zombies, but with their
    children."""
    children: dict[int, list[int]] = {}
    dead = set()
    for folder in _PROC.glob("[0-9]*"):
        with suppress(OSError, ValueError):
            state, parent, *_ = (folder / "stat").read_bytes().rpartition(b") ")[2].split()
            children.setdefault(int(parent), []).append(int(folder.name))
            if state in b"ZX":
                dead.add(int(folder.name))
    found = [leader]
    for parent_pid in found:  # the list grows during the loop
        found += [pid for pid in children.get(parent_pid, ()) if pid not in found]
    return [pid for pid in found[1:] if pid not in dead]


def _find_marked(mark: bytes) -> set[int]:
    found: set[int] = set()
    for folder in _PROC.glob("[0-9]*"):
        with suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                found.add(int(folder.name))
    return found
