"""Compares a run with a saved one: what got worse, and which cases changed.

Only cases that both runs answered, and that have not changed since, are compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from aish.errors import UsageError
from aish.frontends.eval.results import FORMAT, Report, Result

MAX_REPORT_BYTES = 512 * 1024 * 1024
_MAX_NAMED = 20


class Comparison(msgspec.Struct, frozen=True):
    """One suite, model and mode in both runs, over the same cases. The cases in `lost` were right and are wrong now."""

    suite: str
    model: str
    mode: str
    compared: int
    before: float
    now: float
    lost: tuple[str, ...]
    won: tuple[str, ...]

    def is_worse(self, tolerance: float) -> bool:
        return self.before - self.now > tolerance


def load_report(path: Path) -> Report:
    try:
        if path.stat().st_size > MAX_REPORT_BYTES:
            raise UsageError(f"{path} is too large to be a report of aish eval")
        report = msgspec.json.decode(path.read_bytes(), type=Report)
    except OSError as exc:
        raise UsageError(f"cannot read the baseline {path}: {exc.strerror}") from exc
    except msgspec.DecodeError as exc:
        raise UsageError(f"{path} is no report of aish eval: {exc}", hint="write one with --json") from exc
    if report.format != FORMAT:
        raise UsageError(f"{path} is a report of another version of aish", hint="make the baseline anew")
    return report


def compare(before: Sequence[Result], now: Sequence[Result]) -> list[Comparison]:
    old = {result.key: result for result in before if result.outcome in ("right", "wrong")}
    groups: defaultdict[tuple[str, str, str], list[tuple[Result, Result]]] = defaultdict(list)
    for result in now:
        earlier = old.get(result.key)
        if result.outcome in ("right", "wrong") and earlier is not None and earlier.digest == result.digest:
            groups[result.suite, result.model, result.mode].append((earlier, result))
    return [_compare_group(group, pairs) for group, pairs in groups.items()]


def _compare_group(group: tuple[str, str, str], pairs: Sequence[tuple[Result, Result]]) -> Comparison:
    changed = [(one.outcome, other.outcome, other.case) for one, other in pairs if one.outcome != other.outcome]
    return Comparison(
        *group,
        compared=len(pairs),
        before=100.0 * sum(one.outcome == "right" for one, _ in pairs) / len(pairs),
        now=100.0 * sum(other.outcome == "right" for _, other in pairs) / len(pairs),
        lost=tuple(case for was, _, case in changed if was == "right"),
        won=tuple(case for was, _, case in changed if was == "wrong"),
    )


def describe(changes: Sequence[Comparison], tolerance: float) -> Iterator[str]:
    if not changes:
        yield "nothing to compare: the baseline holds none of these cases, models and modes"
    for change in changes:
        mark = "✗" if change.is_worse(tolerance) else "✓"
        where = f"{change.suite} {change.model} {change.mode}"
        yield f"{mark} {where}: {change.before:.1f} % → {change.now:.1f} % over {change.compared} cases"
        if change.lost:
            yield f"    now wrong: {_list_cases(change.lost)}"
        if change.won:
            yield f"    now right: {_list_cases(change.won)}"


def _list_cases(cases: Sequence[str]) -> str:
    more = f" and {len(cases) - _MAX_NAMED} more" if len(cases) > _MAX_NAMED else ""
    return ", ".join(cases[:_MAX_NAMED]) + more
