"""What a backend reads again: sessions in the shell against a real llama.cpp, counted by its own timings."""

from __future__ import annotations

from collections.abc import Iterator

from bench import prefix
from bench.effort import Effort
from bench.rows import Bar, Row, row

PART = "prefix"
_UNITS = {"%": "%", "times": "×"}


def rows(effort: Effort) -> Iterator[Row]:
    figures = prefix.measure(quick=effort.quick)
    for name, most in prefix.BARS.items():
        if name in figures:
            what, _, unit = name.rpartition(", ")
            yield row(PART, what, _UNITS[unit], figures[name], bar=Bar(most=most))
    if effort.peers and not effort.quick:
        from bench.prefix_parts.rivals import measure

        peers, missing = measure()
        name = "tools and messages read again, by bytes"
        yield row(PART, name, "%", figures["read again by bytes, %"], peers={**peers}, notes=missing)
