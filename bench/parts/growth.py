"""Growth: what ten and a hundred times as much costs. Anything worse than its size is named with its place in the code.

The exponent is that of the last tenfold, or of the fit over all three sizes if that is steeper: what is fixed hides
growth where sizes are small.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from bench.effort import Effort
from bench.growth_parts import Subject, engines, servers, stores, texts
from bench.rows import Bar, Row, exponent, row

PART = "growth"
MOST = 1.15
TRIES = 3  # each cost is the least of some already, but of one minute: what disturbs that makes a curve of its own
QUICK = ("tools on offer", "chunks of an answer", "turns of a session")


def rows(effort: Effort) -> Iterator[Row]:
    subjects = (*texts.SUBJECTS, *engines.SUBJECTS, *stores.SUBJECTS, *servers.SUBJECTS)
    for subject in subjects:
        if not effort.quick or subject.name in QUICK:
            yield measured(subject)


def measured(subject: Subject) -> Row:
    what = f"{subject.name}: {subject.unit}"
    try:
        costs = measure(subject)
    except Exception as exc:  # the others are measured all the same
        return row(PART, what, "exponent", None, notes={subject.name: f"{type(exc).__name__} {exc}"})
    steepest = steepest_of(subject.sizes, costs)
    curve = {str(size): cost for size, cost in zip(subject.sizes, costs, strict=True)}
    notes = {subject.name: f"worse than its size: look at {subject.where}"} if steepest > MOST else {}
    sys.stderr.write(f"{what}: {curve} µs, exponent {steepest:.2f}\n")
    return row(PART, what, "exponent", steepest, limits=curve, bar=Bar(most=MOST), rounds=3, notes=notes)


def measure(subject: Subject) -> list[float]:
    """The least of each, tried again where it seems worse than its size: a slow program is so every time."""
    costs = [subject.cost(size) for size in subject.sizes]
    for _ in range(TRIES - 1):
        if steepest_of(subject.sizes, costs) <= MOST:
            break
        costs = [min(cost, subject.cost(size)) for size, cost in zip(subject.sizes, costs, strict=True)]
    return costs


def steepest_of(sizes: Sequence[int], costs: Sequence[float]) -> float:
    return max(exponent(sizes, costs), exponent(sizes[1:], costs[1:]))
