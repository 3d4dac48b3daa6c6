"""Runs a program that takes milliseconds and has no side effects, and blocks until it ends or a time limit is reached.

Any other program is started by `child`, which owns it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence


def run_quickly(argv: Sequence[str], stdin: str, *, timeout_s: float) -> str | None:
    """What the program writes to stderr, with an empty environment; None if it cannot be run in time."""
    try:
        done = subprocess.run(
            list(argv),
            input=stdin.encode("utf-8", "replace"),
            capture_output=True,
            timeout=timeout_s,
            env={"LC_ALL": "C"},
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stderr.decode("utf-8", "replace")
