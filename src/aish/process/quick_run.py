"""A short question to a program, asked and answered at once: for what is over in milliseconds and has no side effects.

Blocks its caller, within a time limit. Anything that lasts longer or does something has an owner: see `process`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence


def ask_program(words: Sequence[str], given: str, *, timeout_s: float) -> str | None:
    """What it said on stderr about `given`, with an empty environment; None if it cannot be asked."""
    try:
        asked = subprocess.run(
            list(words),
            input=given.encode("utf-8", "replace"),
            capture_output=True,
            timeout=timeout_s,
            env={"LC_ALL": "C"},
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return asked.stderr.decode("utf-8", "replace")
