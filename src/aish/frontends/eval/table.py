"""The figures as a table for a terminal or a file."""

from __future__ import annotations

from collections.abc import Sequence

from aish.frontends.eval.figures import Row, Share

_HEADS = (
    "suite", "model", "mode", "n", "exact", "95 %", "tool", "called", "valid", "refused", "rounds", "retries",
    "repairs", "s", "tokens", "errors",
)  # fmt: skip
_LEFT = 3  # columns of words; the others are numbers


def table(rows: Sequence[Row]) -> list[str]:
    """Lines, columns aligned. A dash is a share of nothing."""
    cells = [_HEADS, *(_cells(row) for row in rows)]
    widths = [max(len(line[at]) for line in cells) for at in range(len(_HEADS))]
    lines = ["  ".join(_aligned(cell, widths[at], at) for at, cell in enumerate(line)).rstrip() for line in cells]
    return [lines[0], "─" * len(lines[0]), *lines[1:]]


def _aligned(cell: str, width: int, at: int) -> str:
    return cell.ljust(width) if at < _LEFT else cell.rjust(width)


def _cells(row: Row) -> tuple[str, ...]:
    low, high = row.exact.interval
    return (
        row.suite,
        row.model,
        row.mode,
        str(row.exact.of),
        percent(row.exact),
        f"{low:.0f}-{high:.0f}" if row.exact.of else "-",
        percent(row.tool),
        percent(row.called),
        percent(row.valid),
        percent(row.refused),
        f"{row.rounds:.1f}",
        str(row.retries),
        str(row.repairs),
        f"{row.median_s:.2f}",
        f"{row.tokens:.0f}",
        str(row.errors),
    )


def percent(share: Share) -> str:
    return f"{share.percent:.1f} %" if share.of else "-"
