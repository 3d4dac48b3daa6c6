"""The command classifier: microseconds a line over the corpus, and lines that are made to hurt."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from functools import partial

from aish.safety.commands import classify
from bench import safety
from bench.effort import Effort
from bench.rows import Row, row

PART = "safety"
HOSTILE_BYTES = 4000


def rows(effort: Effort) -> Iterator[Row]:
    first_s = safety.timed(lambda: classify("ls", safety.CONTEXT))
    lines, rounds = safety.corpus(), effort.rounds(5, 1)
    times = sorted(safety.timed(partial(classify, line, safety.CONTEXT)) * 1e6 for _ in range(rounds) for line in lines)
    yield row(PART, f"a line of the corpus of {len(lines)}, median", "µs", statistics.median(times), rounds=rounds)
    yield row(PART, "a line of the corpus, p99", "µs", times[len(times) * 99 // 100], rounds=rounds)
    yield row(PART, "the first line, tables and parser loaded", "ms", first_s * 1e3)
    worst_s, name = max(
        (min(safety.timed(partial(classify, text, safety.CONTEXT)) for _ in range(2)), name)
        for name, text in safety.hostile(HOSTILE_BYTES)
    )
    yield row(PART, f"a hostile line of {HOSTILE_BYTES} bytes, the slowest ({name})", "ms", worst_s * 1e3, rounds=2)
