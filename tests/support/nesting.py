"""Values that go deeper than anybody nests them."""

from __future__ import annotations

from typing import Any


def nested(depth: int, kind: str = "list") -> Any:
    """A 1 in that many lists, or objects."""
    value: Any = 1
    for _ in range(depth):
        value = [value] if kind == "list" else {"n": value}
    return value
