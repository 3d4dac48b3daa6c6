"""Where figures were made: the machine, its load, and the versions of what was measured."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from bench.peers import pinned


def facts() -> dict[str, object]:
    return {
        "date": now(),
        "commit": _said("git", "rev-parse", "--short", "HEAD"),
        "cpu": _cpu(),
        "cores": os.cpu_count() or 0,
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "node": _said("node", "--version"),
        "load": round(os.getloadavg()[0], 2),
        "aish": version("aish-runtime"),
        "peers": {name: peer.version for name, peer in pinned().items()},
    }


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines() if sys.platform == "linux" else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _said(*words: str) -> str:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
