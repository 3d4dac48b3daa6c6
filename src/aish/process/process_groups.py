"""Finds and signals the processes of a group, of a session, and all descendants of a process. POSIX; a session and
descendants need Linux's /proc.

Descendants are also those that left the group and session (`setsid`). They are found in two ways, because each has a
gap. The process adopts the orphans of its children (`PR_SET_CHILD_SUBREAPER`), so the tree below it is complete as long
as it lives. And it has a mark in its environment, which is inherited: the mark finds them also after the process was
killed, except those started with another environment (`env -i`).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
_ROUNDS = 50  # a process that forks during the search is found in the next round
_ROUND_S = 0.001
_READ_BYTES = 64 * 1024


def signal_group(group: int, number: int) -> bool:
    """Signals a process group. Whether it has any processes; `number` 0 only asks."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # PermissionError: only zombies (macOS), or another user's processes
        return False
    return True


def signal_session(
    leader: int, number: int, spared: frozenset[int] = frozenset(), *, spares_hangup: bool = True
) -> bool:
    """Signals all processes of a session, except the spared groups and, with `spares_hangup`, those that ignore SIGHUP.
    Whether there were any."""
    members = [pid for pid in _session_members(leader, spared) if not (spares_hangup and _ignores_hangup(pid))]
    if not members:
        return not _PROC.is_dir() and signal_group(leader, number)
    for pid in members:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
    return True


def _session_members(leader: int, spared: frozenset[int]) -> list[int]:
    """The processes of a session, without zombies."""
    found = []
    for pid, stat in _read_all("stat"):
        with suppress(ValueError):
            state, _, group, session_id, *_ = stat.rpartition(b") ")[2].split(maxsplit=4)
            if int(session_id) == leader and state not in b"ZX" and int(group) not in spared:
                found.append(pid)
    return found


def _ignores_hangup(pid: int) -> bool:
    with suppress(OSError):
        for line in (_PROC / str(pid) / "status").read_bytes().splitlines():
            if line.startswith(b"SigIgn:"):
                return bool(int(line.split()[1], 16) & 1 << (signal.SIGHUP - 1))
    return False


def reap_group(group: int) -> None:
    """Reaps orphans of a group. They become children of aish if it is process 1 of a container."""
    with suppress(ChildProcessError):
        while os.waitpid(-group, os.WNOHANG) != (0, 0):
            pass


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
    for pid, stat in _read_all("stat"):
        with suppress(ValueError):
            state, parent, *_ = stat.rpartition(b") ")[2].split(maxsplit=2)
            children.setdefault(int(parent), []).append(pid)
            if state in b"ZX":
                dead.add(pid)
    found = [leader]
    for parent_pid in found:  # the list grows during the loop
        found += [pid for pid in children.get(parent_pid, ()) if pid not in found]
    return [pid for pid in found[1:] if pid not in dead]


def _find_marked(mark: bytes) -> set[int]:
    return {pid for pid, environ in _read_all("environ") if mark in environ and mark in environ.split(b"\0")}


def _read_all(name: str) -> Iterator[tuple[int, bytes]]:
    """Yields a file of each process in /proc. Plain system calls: `pathlib` takes five times as long, and each command
    of a model needs several searches."""
    with suppress(OSError):
        for pid in os.listdir(_PROC):  # noqa: PTH208
            if pid[0] in "123456789":
                with suppress(OSError):
                    yield int(pid), _read_file(f"{_PROC}/{pid}/{name}")


def _read_file(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return b"".join(iter(lambda: os.read(fd, _READ_BYTES), b""))
    finally:
        os.close(fd)
