"""Counts results: one row for each suite, model and mode. Pure; the table, the page and the baseline share it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

import msgspec

from aish.frontends.eval.results import Result

ALL = "all"
# The normal quantile for 95 %.
_Z = 1.959964


class Share(msgspec.Struct, frozen=True):
    """`of` 0: there was nothing to count."""

    count: int
    of: int

    @property
    def percent(self) -> float:
        return 100.0 * self.count / self.of if self.of else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval in percent: true also near 0 and 100, and for few cases."""
        if not self.of:
            return (0.0, 100.0)
        share, n = self.count / self.of, self.of
        middle = share + _Z * _Z / (2 * n)
        spread = _Z * math.sqrt(share * (1 - share) / n + _Z * _Z / (4 * n * n))
        scale = 1 + _Z * _Z / n
        return (max(0.0, 100 * (middle - spread) / scale), min(100.0, 100 * (middle + spread) / scale))


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """`exact` is of all that were answered; `tool` and `called` of those that should have led to calls, `valid` of
    those that did; `refused` of those that should not."""

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


def rows(results: Sequence[Result]) -> list[Row]:
    """By suite in order of appearance; a last row over all suites where there are several."""
    suites = list(dict.fromkeys(result.suite for result in results))
    settings = list(dict.fromkeys((result.model, result.mode) for result in results))
    made = [
        _row(suite, setting, [r for r in results if r.suite == suite and (r.model, r.mode) == setting])
        for suite in suites
        for setting in settings
    ]
    if len(suites) > 1:
        made += [_row(ALL, setting, [r for r in results if (r.model, r.mode) == setting]) for setting in settings]
    return [row for row in made if row.exact.of or row.errors]


def _row(suite: str, setting: tuple[str, str], results: Sequence[Result]) -> Row:
    answered = [result for result in results if result.outcome in ("right", "wrong")]
    wanting = [result for result in answered if result.wants_call]
    calling = [result for result in wanting if result.calls]
    unwanted = [result for result in answered if result.wants_none]
    return Row(
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
