"""What the model is shown: a request put together in a session of 2 000 turns, and a window that is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from bench import context
from bench.effort import Effort
from bench.rows import Bar, Row, row

PART = "context"


def rows(effort: Effort) -> Iterator[Row]:
    composed = asyncio.run(context.composing())["compose 2 000 turns, ms"]
    yield row(PART, "a request composed after 2 000 turns", "ms", composed, bar=Bar(most=5.0), rounds=50)
    if effort.quick:
        return
    kept = asyncio.run(context.window())
    over, unused = kept["requests over the budget"], kept["most tokens left unused that a turn needed"]
    yield row(PART, "300 turns in a window of 4 096: over it", "", over, bar=Bar(most=0))
    yield row(PART, "300 turns in a window of 4 096: tokens unused that a turn needed", "", unused, bar=Bar(most=0))
