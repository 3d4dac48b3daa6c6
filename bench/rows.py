"""What a benchmark says: rows, each one figure of ours beside those of peers and limits, and the bar it is held to.

A peer does the same job and can be better or worse. A limit is what the job costs without us: no gateway, a bare
interpreter, bash itself. No program is behind a limit; it says how much is left to gain. Knows nothing of how figures
are made.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Figure = float | None
Better = Literal["less", "more"]


@dataclass(frozen=True)
class Bar:
    """What ours is held to: absolute, over a limit, or so many times a peer or limit."""

    most: float | None = None
    least: float | None = None
    of: str = ""  # the peer or limit that `most` and `least` are times of, or with `over` are above
    over: bool = False

    def words(self) -> str:
        sign, number = ("≤", self.most) if self.most is not None else ("≥", self.least)
        if not self.of:
            return f"{sign} {number:g}"
        return f"{sign} {self.of} + {number:g}" if self.over else f"{sign} {number:g} × {self.of}"

    def met(self, ours: Figure, others: Mapping[str, Figure]) -> bool | None:
        """None where it cannot be told."""
        other = others.get(self.of) if self.of else None
        if ours is None or (self.of and other is None):
            return None
        base = other or 0.0
        bound = self.least or 0.0 if self.most is None else self.most
        bound = base + bound if self.over or not self.of else base * bound
        return ours >= bound if self.most is None else ours <= bound


@dataclass(frozen=True)
class Row:
    part: str
    what: str
    unit: str
    ours: Figure
    peers: dict[str, Figure] = field(default_factory=dict)
    limits: dict[str, Figure] = field(default_factory=dict)
    better: Better = "less"
    bar: str = ""
    met: bool | None = None
    rounds: int = 1
    notes: dict[str, str] = field(default_factory=dict)  # why a peer has no figure

    @property
    def key(self) -> str:
        return f"{self.part}: {self.what}"

    def times(self, name: str) -> Figure:
        """How many times better ours is than theirs; below 1 it is behind."""
        theirs = {**self.limits, **self.peers}.get(name)
        if self.ours is None or theirs is None or not self.ours or not theirs:
            return None
        return theirs / self.ours if self.better == "less" else self.ours / theirs

    def behind(self) -> dict[str, float]:
        """The peers that do better, and how many times."""
        found = {name: self.times(name) for name in self.peers}
        return {name: 1 / times for name, times in found.items() if times is not None and times < 1}

    def to_json(self) -> dict[str, Any]:
        ratios = {name: rounded(self.times(name)) for name in (*self.peers, *self.limits)}
        shown = {**asdict(self), "ours": rounded(self.ours), "ratio": ratios}
        for group in ("peers", "limits"):
            shown[group] = {name: rounded(figure) for name, figure in shown[group].items()}
        return shown

    @classmethod
    def of_json(cls, data: Mapping[str, Any]) -> Row:
        return cls(**{key: value for key, value in data.items() if key != "ratio"})


def row(
    part: str,
    what: str,
    unit: str,
    ours: Figure,
    *,
    peers: Mapping[str, Figure] | None = None,
    limits: Mapping[str, Figure] | None = None,
    better: Better = "less",
    bar: Bar | None = None,
    rounds: int = 1,
    notes: Mapping[str, str] | None = None,
) -> Row:
    """With its bar judged. What is not finite is no figure."""
    theirs, limited = ({name: finite(each) for name, each in (group or {}).items()} for group in (peers, limits))
    met = bar.met(finite(ours), {**limited, **theirs}) if bar else None
    words = bar.words() if bar else ""
    return Row(part, what, unit, finite(ours), theirs, limited, better, words, met, rounds, dict(notes or {}))


def finite(figure: Figure) -> Figure:
    return figure if figure is not None and math.isfinite(figure) else None


def rounded(figure: Figure) -> Figure:
    """To four digits that count."""
    if figure is None or not figure:
        return figure
    return round(figure, max(0, 3 - math.floor(math.log10(abs(figure)))))


def median(figures: Iterable[Figure]) -> Figure:
    """Of those that are figures."""
    known = [figure for figure in figures if figure is not None]
    return statistics.median(known) if known else None


def exponent(sizes: Iterable[float], costs: Iterable[float]) -> float:
    """Of the power of its size that a cost grows with: 1 is linear. The slope of a straight line through logarithms."""
    points = [(math.log(size), math.log(cost)) for size, cost in zip(sizes, costs, strict=True)]
    middle_x, middle_y = (statistics.fmean(axis) for axis in zip(*points, strict=True))
    above = sum((x - middle_x) * (y - middle_y) for x, y in points)
    return above / sum((x - middle_x) ** 2 for x, _ in points)
