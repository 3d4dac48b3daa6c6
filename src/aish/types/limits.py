"""What one turn may spend. Zero or less means none at all; None means no limit."""

from __future__ import annotations

import msgspec


class Limits(msgspec.Struct, frozen=True):
    max_steps: int = 8
    max_tool_calls: int = 32
    wall_s: float = 600.0
    max_tokens: int | None = None
    max_cost: float | None = None
    # A result longer than this is cut with a visible mark; about 8 000 tokens, a quarter of a common 32 K window.
    result_max_chars: int = 32_000
    # Same call, same arguments, this many times in a turn: ask, or stop.
    repeat_limit: int = 3
