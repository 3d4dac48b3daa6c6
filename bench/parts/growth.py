"""Growth: what ten and a hundred times as much costs. Anything worse than its size is named with its place in the code.

The exponent is that of the last tenfold, or of the fit over all three sizes if that is steeper: what is fixed hides
growth where sizes are small.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from bench.effort import Effort
from bench.growth_parts import Subject, engines, servers, stores, texts
from bench.rows import Bar, Row, exponent, row

PART = "growth"
MOST = 1.15
QUICK = ("tools on offer", "chunks of an answer", "turns of a session")


def rows(effort: Effort) -> Iterator[Row]:
    subjects = (*texts.SUBJECTS, *engines.SUBJECTS, *stores.SUBJECTS, *servers.SUBJECTS)
    for subject in subjects:
        if not effort.quick or subject.name in QUICK:
            yield measured(subject)


def measured(subject: Subject) -> Row:
    what = f"{subject.name}: {subject.unit}"
    try:
        costs = [subject.cost(size) for size in subject.sizes]
    except Exception as exc:  # the others are measured all the same
        return row(PART, what, "exponent", None, notes={subject.name: f"{type(exc).__name__} {exc}"})
    steepest = max(exponent(subject.sizes, costs), exponent(subject.sizes[1:], costs[1:]))
    curve = {str(size): cost for size, cost in zip(subject.sizes, costs, strict=True)}
    notes = {subject.name: f"worse than its size: look at {subject.where}"} if steepest > MOST else {}
    sys.stderr.write(f"{what}: {curve} µs, exponent {steepest:.2f}\n")
    return row(PART, what, "exponent", steepest, limits=curve, bar=Bar(most=MOST), rounds=3, notes=notes)
