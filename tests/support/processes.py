"""What the kernel knows of a process."""

from __future__ import annotations

import os
from pathlib import Path


def is_running(pid: int) -> bool:
    """Zombies do not count: they are dead, only not yet reaped by whoever adopted them."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return not Path("/proc/self").exists()
