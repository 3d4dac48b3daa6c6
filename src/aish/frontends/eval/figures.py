"""Counts results, one row for each suite, model and mode, and formats them as a table. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

import msgspec

from aish.frontends.eval.results import Result

ALL = "all"
# The normal quantile for 95 %.
_Z = 1.959964
_HEADS = (
    "suite", "model", "mode", "n", "exact", "95 %", "tool", "called", "valid", "refused", "rounds", "retries",
    "repairs", "s", "tokens", "errors",
)  # fmt: skip
_TEXT_COLUMNS = 3  # left-aligned; the others are numbers


class Share(msgspec.Struct, frozen=True):
    """`count` of `of` results; `of` is 0 if there was nothing to count."""

    count: int
    of: int

    @property
    def percent(self) -> float:
        return 100.0 * self.count / self.of if self.of else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval in percent, which holds also near 0 and 100 and for few cases."""
        if not self.of:
            return (0.0, 100.0)
        share, n = self.count / self.of, self.of
        middle = share + _Z * _Z / (2 * n)
        spread = _Z * math.sqrt(share * (1 - share) / n + _Z * _Z / (4 * n * n))
        scale = 1 + _Z * _Z / n
        return (max(0.0, 100 * (middle - spread) / scale), min(100.0, 100 * (middle + spread) / scale))


class EvalRow(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one suite, model and mode. `exact` counts all answered cases; `tool` and `called` the cases that
    expect calls, `valid` those of them with calls, and `refused` the cases that expect none."""

    suite: str
    model: str
    mode: str
    exact: Share
    tool: Share
    called: Share
    valid: Share
    refused: Share
    errors: int
    rounds: float
    retries: int
    repairs: int
    median_s: float
    tokens: float


def make_rows(results: Sequence[Result]) -> list[EvalRow]:
    """Rows by suite, in order of appearance; with several suites, last the rows over all of them."""
    suites = list(dict.fromkeys(result.suite for result in results))
    settings = list(dict.fromkeys((result.model, result.mode) for result in results))
    rows = [
        _make_row(suite, setting, [r for r in results if r.suite == suite and (r.model, r.mode) == setting])
        for suite in suites
        for setting in settings
    ]
    if len(suites) > 1:
        rows += [_make_row(ALL, setting, [r for r in results if (r.model, r.mode) == setting]) for setting in settings]
    return [row for row in rows if row.exact.of or row.errors]


def table_lines(rows: Sequence[EvalRow]) -> list[str]:
    """The table as aligned lines. A dash stands for a share of nothing."""
    cells = [_HEADS, *(_cells(row) for row in rows)]
    widths = [max(len(line[at]) for line in cells) for at in range(len(_HEADS))]
    lines = ["  ".join(_align(cell, widths[at], at) for at, cell in enumerate(line)).rstrip() for line in cells]
    return [lines[0], "─" * len(lines[0]), *lines[1:]]


def _align(cell: str, width: int, at: int) -> str:
    return cell.ljust(width) if at < _TEXT_COLUMNS else cell.rjust(width)


def _cells(row: EvalRow) -> tuple[str, ...]:
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


def _make_row(suite: str, setting: tuple[str, str], results: Sequence[Result]) -> EvalRow:
    answered = [result for result in results if result.outcome in ("right", "wrong")]
    wanting = [result for result in answered if result.wants_call]
    calling = [result for result in wanting if result.calls]
    unwanted = [result for result in answered if result.wants_none]
    return EvalRow(
        suite=suite,
        model=setting[0],
        mode=setting[1],
        exact=_share(result.outcome == "right" for result in answered),
        tool=_share(result.right_tool for result in wanting),
        called=_share(bool(result.calls) for result in wanting),
        valid=_share(not any(call.fault for call in result.calls) for result in calling),
        refused=_share(not result.calls for result in unwanted),
        errors=sum(result.outcome == "error" for result in results),
        rounds=_mean([result.rounds for result in answered]),
        retries=sum(result.retries for result in answered),
        repairs=sum(result.repairs for result in answered),
        median_s=statistics.median([result.seconds for result in answered]) if answered else 0.0,
        tokens=_mean([result.prompt_tokens + result.completion_tokens for result in answered]),
    )


def _share(marks: Iterable[bool]) -> Share:
    given = list(marks)
    return Share(sum(given), len(given))


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else 0.0
