"""Asks every model every case in every mode, a few at a time, and passes on each result as it arrives.

Models and modes run one after another: two local models at once would only measure the machine. A backend that fails
many times in a row is not asked again; the remaining cases are reported as skipped.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Self

import msgspec

from aish.engine.engine import Engine
from aish.frontends.eval.attempt import AttemptSettings, EngineIn, attempt
from aish.frontends.eval.cases import Case
from aish.frontends.eval.report import Result, Setting
from aish.frontends.terminal import Output

# More failures in a row mean that the backend is down, and not that a case is too hard.
MAX_FAILURES_IN_A_ROW = 10


class EvalPlan(msgspec.Struct, frozen=True, kw_only=True):
    cases: tuple[Case, ...]
    settings: tuple[Setting, ...]
    repeat: int = 1
    seed: int = 1
    concurrency: int = 1
    timeout_s: float = 120.0

    @property
    def total(self) -> int:
        return len(self.cases) * len(self.settings) * self.repeat


async def run_plan(plan: EvalPlan, engine: Engine, engine_in: EngineIn, on_result: Callable[[Result], None]) -> None:
    """Runs the plan. Cancelling stops the running attempts; results that were passed on stay valid."""
    for setting in plan.settings:
        await _run_setting(plan, setting, engine, engine_in, on_result)


async def _run_setting(
    plan: EvalPlan, setting: Setting, engine: Engine, engine_in: EngineIn, on_result: Callable[[Result], None]
) -> None:
    jobs = _jobs(plan, setting)
    failures = 0

    async def work() -> None:
        nonlocal failures
        for case, settings in jobs:
            if failures >= MAX_FAILURES_IN_A_ROW:
                on_result(_skip(case, settings))
                continue
            result = await attempt(case, settings, engine, engine_in)
            failures = failures + 1 if result.outcome == "error" else 0
            on_result(result)

    async with asyncio.TaskGroup() as group:
        for _ in range(plan.concurrency):
            group.create_task(work())


def _jobs(plan: EvalPlan, setting: Setting) -> Iterator[tuple[Case, AttemptSettings]]:
    for repeat in range(plan.repeat):
        for case in plan.cases:
            yield (
                case,
                AttemptSettings(
                    setting=setting,
                    seed=plan.seed,
                    repeat=repeat,
                    # A single attempt is deterministic; repetitions sample the model's own distribution.
                    temperature=0.0 if plan.repeat == 1 else None,
                    timeout_s=plan.timeout_s,
                ),
            )


def _skip(case: Case, settings: AttemptSettings) -> Result:
    return Result(
        case=case.id,
        suite=case.suite,
        model=settings.setting.model,
        mode=settings.setting.mode_name,
        digest=case.digest,
        repeat=settings.repeat,
        outcome="skipped",
        error=f"not asked: the backend failed {MAX_FAILURES_IN_A_ROW} times in a row",
    )


def select(cases: Sequence[Case], *, part: tuple[int, int], limit: int) -> tuple[Case, ...]:
    """Selects cases: part k of n is every n-th case; a limit takes that many of each suite, evenly spread."""
    chosen: list[Case] = []
    for suite in dict.fromkeys(case.suite for case in cases):
        members = [case for case in cases if case.suite == suite][part[0] - 1 :: part[1]]
        if limit and limit < len(members):
            members = [members[at * len(members) // limit] for at in range(limit)]
        chosen += members
    return tuple(chosen)


# Lines for a whole run if the output is no terminal.
_LINES = 20


class EvalProgress:
    def __init__(self, output: Output, plan: EvalPlan) -> None:
        self._output = output
        self._total = plan.total
        self._every = max(1, plan.total // _LINES)
        self._outcomes: Counter[str] = Counter()
        self._started = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._output.end_progress()

    def collector(self, results: list[Result]) -> Callable[[Result], None]:
        """A function that takes each result, stores it and shows the progress."""

        def collect(result: Result) -> None:
            results.append(result)
            self._outcomes[result.outcome] += 1
            line = self._line(result)
            self._output.progress(line)
            if not sys.stderr.isatty() and (len(results) % self._every == 0 or len(results) == self._total):
                self._output.note(line)

        return collect

    def _line(self, result: Result) -> str:
        done = self._outcomes.total()
        left_s = (time.monotonic() - self._started) / done * (self._total - done)
        errors = f", {self._outcomes['error']} errors" if self._outcomes["error"] else ""
        return (
            f"{done}/{self._total}  {result.suite} · {result.model} · {result.mode}  "
            f"{self._outcomes['right']} right, {self._outcomes['wrong']} wrong{errors}  {_clock(left_s)} left"
        )


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"
