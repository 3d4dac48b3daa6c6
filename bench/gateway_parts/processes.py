"""What the kernel knows of a gateway's processes: processor time and memory. Linux only."""

from __future__ import annotations

import os
import re
from pathlib import Path

PROC = Path("/proc")


def tree(pid: int, *, without: str = "") -> list[int]:
    """A process and all it started, less those with `without` in their command line."""
    children: dict[int, list[int]] = {}
    for folder in PROC.glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(folder.name))
    found, todo = [], [pid]
    while todo:
        one = todo.pop()
        if not (without and without in _command_line(one)):
            found.append(one)
        todo += children.get(one, ())
    return found


def cpu_ns(pids: list[int]) -> int:
    """Time on a processor, of all threads alive; exact, where `utime` counts ticks."""
    total = 0
    for pid in pids:
        for task in PROC.glob(f"{pid}/task/[0-9]*/schedstat"):
            try:
                total += int(task.read_text().split()[0])
            except OSError:
                continue
    return total


def pss_mb(pids: list[int]) -> float:
    """Memory with shared pages counted once among their users."""
    total = 0
    for pid in pids:
        try:
            total += int(re.findall(r"^Pss:\s+(\d+)", (PROC / f"{pid}/smaps_rollup").read_text(), re.M)[0])
        except (OSError, IndexError):
            continue
    return total / 1024


def load_average() -> float:
    return os.getloadavg()[0]


def _command_line(pid: int) -> str:
    try:
        return (PROC / f"{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
