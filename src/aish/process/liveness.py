"""Names this process, so that another aish on the same store can tell whether it is still alive.

A name is `host/pid/start`: process ids are reused, but not together with the start time. Without /proc the start is
left out. A process on another host counts as alive (`host_presence` finds out more).
"""

from __future__ import annotations

import os
import socket
from pathlib import Path


class ProcessOwners:
    def __init__(self) -> None:
        self._host = socket.gethostname()
        self._me = f"{self._host}/{os.getpid()}/{_start_of(os.getpid())}"

    @property
    def me(self) -> str:
        return self._me

    def is_here(self, owner: str) -> bool:
        """Whether it is a process of this host."""
        return owner.rpartition("/")[0].rpartition("/")[0] == self._host

    def is_alive(self, owner: str) -> bool:
        parts = owner.rsplit("/", 2)
        if len(parts) != 3 or not parts[1].isdigit():
            return False
        host, pid, start = parts[0], int(parts[1]), parts[2]
        return host != self._host or (_exists(pid) and _start_of(pid) == start)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OSError):
        return True
    return True


def _start_of(pid: int) -> str:
    """Field 22 of /proc/PID/stat, counted after the parenthesised name, which may itself hold anything."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    # A zombie has ended, and was not reaped yet.
    return "" if fields[0] == "Z" else fields[19]
