"""How deep the arguments of a call may be nested. Whoever looks into a value goes down with it, and nobody may fall."""

from __future__ import annotations

from typing import Any

# More than documents have that people nest; the validator gives up at 255, and Python's own stack at some hundreds.
MAX_LEVELS = 200
TOO_DEEP = f"nested too deeply, {MAX_LEVELS} levels at most"


def is_too_deep(value: Any) -> bool:
    """Level by level: a flat object costs one look at its members."""
    level = [value] if type(value) in (dict, list) else []
    for _ in range(MAX_LEVELS):
        members = [member for outer in level for member in (outer.values() if type(outer) is dict else outer)]
        level = [member for member in members if type(member) is dict or type(member) is list]
        if not level:
            return False
    return True
