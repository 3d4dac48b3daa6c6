"""Asks every case of every model in every mode, a few at a time, and hands out each result as it comes.

One model at a time and one mode at a time: two local models at once would only measure the machine. A backend that
fails many times in a row is not asked again; what it was not asked is skipped, and says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

import msgspec

from aish.engine.engine import Engine
from aish.frontends.eval.attempt import EngineIn, How, attempt
from aish.frontends.eval.cases import Case
from aish.frontends.eval.results import Result, Setting

# A backend that is down fails at once, each time; a case that is too hard for it does not fail ten in a row.
MAX_FAILURES_IN_A_ROW = 10


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    cases: tuple[Case, ...]
    settings: tuple[Setting, ...]
    repeat: int = 1
    seed: int = 1
    concurrency: int = 1
    timeout_s: float = 120.0

    @property
    def total(self) -> int:
        return len(self.cases) * len(self.settings) * self.repeat


async def run_plan(plan: Plan, engine: Engine, engine_in: EngineIn, on_result: Callable[[Result], None]) -> None:
    """Cancelling it stops what is under way; results handed out before stand."""
    for setting in plan.settings:
        await _run_setting(plan, setting, engine, engine_in, on_result)


async def _run_setting(
    plan: Plan, setting: Setting, engine: Engine, engine_in: EngineIn, on_result: Callable[[Result], None]
) -> None:
    jobs = _jobs(plan, setting)
    failures = 0

    async def work() -> None:
        nonlocal failures
        for case, how in jobs:
            if failures >= MAX_FAILURES_IN_A_ROW:
                on_result(_skipped(case, how))
                continue
            result = await attempt(case, how, engine, engine_in)
            failures = failures + 1 if result.outcome == "error" else 0
            on_result(result)

    async with asyncio.TaskGroup() as group:
        for _ in range(plan.concurrency):
            group.create_task(work())


def _jobs(plan: Plan, setting: Setting) -> Iterator[tuple[Case, How]]:
    for repeat in range(plan.repeat):
        for case in plan.cases:
            yield (
                case,
                How(
                    setting=setting,
                    seed=plan.seed,
                    repeat=repeat,
                    # The same answer every time where one is asked for; else the model's own spread of answers.
                    temperature=0.0 if plan.repeat == 1 else None,
                    timeout_s=plan.timeout_s,
                ),
            )


def _skipped(case: Case, how: How) -> Result:
    return Result(
        case=case.id,
        suite=case.suite,
        model=how.setting.model,
        mode=how.setting.mode_name,
        digest=case.digest,
        repeat=how.repeat,
        outcome="skipped",
        error=f"not asked: the backend failed {MAX_FAILURES_IN_A_ROW} times in a row",
    )


def select(cases: Sequence[Case], *, part: tuple[int, int], limit: int) -> tuple[Case, ...]:
    """Part k of n takes every n-th case; a limit takes that many of each suite, spread over it."""
    chosen: list[Case] = []
    for suite in dict.fromkeys(case.suite for case in cases):
        members = [case for case in cases if case.suite == suite][part[0] - 1 :: part[1]]
        if limit and limit < len(members):
            members = [members[at * len(members) // limit] for at in range(limit)]
        chosen += members
    return tuple(chosen)
