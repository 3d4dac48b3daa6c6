"""The results of a run: a row of figures for each suite, model and mode, and the comparison with a saved run."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from aish.errors import UsageError
from aish.types.requests import ToolMode

FORMAT = 1
RAW = "-raw"
ALL = "all"
MAX_REPORT_BYTES = 512 * 1024 * 1024
HEADS = (
    "suite", "model", "mode", "n", "exact", "95 %", "tool", "called", "valid", "refused", "rounds", "retries",
    "repairs", "s", "tokens", "errors",
)  # fmt: skip
TEXT_COLUMNS = 3  # left-aligned; the others are numbers
_MAX_NAMED = 20
_Z = 1.959964  # the normal quantile for 95 %

Outcome = Literal["right", "wrong", "error", "skipped"]


class Setting(msgspec.Struct, frozen=True):
    """A model in a mode. With `repair` False, calls are graded as the model wrote them."""

    model: str
    mode: ToolMode
    repair: bool = True

    @property
    def mode_name(self) -> str:
        return self.mode if self.repair else self.mode + RAW


class GotCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call that the model made. `fault` says why it could not be executed, or is ""."""

    name: str
    arguments: str
    fault: str = ""


class Result(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`right_tool` and `wants_call` are about cases that expect calls; `error` is a failure of the backend."""

    case: str
    suite: str
    model: str
    mode: str
    digest: str
    repeat: int = 0
    outcome: Outcome
    wants_call: bool = False
    wants_none: bool = False
    right_tool: bool = False
    calls: tuple[GotCall, ...] = ()
    text: str = ""
    reason: str = ""
    error: str = ""
    rounds: int = 0
    repairs: int = 0
    retries: int = 0
    seconds: float = 0.0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    question: str = ""
    expected: str = ""

    @property
    def key(self) -> tuple[str, str, str, int]:
        return (self.case, self.model, self.mode, self.repeat)


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A run, as `--json` writes it and `--baseline` reads it."""

    format: int = FORMAT
    aish: str
    python: str
    platform: str
    started: str
    options: dict[str, object]
    complete: bool
    results: tuple[Result, ...]


class Share(msgspec.Struct, frozen=True):
    """`count` of `of` results; `of` is 0 if there was nothing to count."""

    count: int
    of: int

    @property
    def percent(self) -> float:
        return 100.0 * self.count / self.of if self.of else 0.0

    def __str__(self) -> str:
        return f"{self.percent:.1f} %" if self.of else "-"

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

    @property
    def cells(self) -> tuple[str, ...]:
        """The row as texts, one for each of `HEADS`. A dash stands for a share of nothing."""
        low, high = self.exact.interval
        shares = (str(share) for share in (self.tool, self.called, self.valid, self.refused))
        return (
            self.suite, self.model, self.mode, str(self.exact.of), str(self.exact),
            f"{low:.0f}-{high:.0f}" if self.exact.of else "-", *shares, f"{self.rounds:.1f}", str(self.retries),
            str(self.repairs), f"{self.median_s:.2f}", f"{self.tokens:.0f}", str(self.errors),
        )  # fmt: skip


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


def result_lines(rows: Sequence[EvalRow]) -> list[str]:
    """The table as aligned lines."""
    cells = [HEADS, *(row.cells for row in rows)]
    columns = [
        [f"{cell:{'<' if at < TEXT_COLUMNS else '>'}{max(map(len, column))}}" for cell in column]
        for at, column in enumerate(zip(*cells, strict=True))
    ]
    lines = ["  ".join(line).rstrip() for line in zip(*columns, strict=True)]
    return [lines[0], "─" * len(lines[0]), *lines[1:]]


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


def compare_results(before: Sequence[Result], now: Sequence[Result]) -> list[Comparison]:
    """Compares the cases that both runs answered and that have not changed since."""
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


def describe_changes(changes: Sequence[Comparison], tolerance: float) -> Iterator[str]:
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
