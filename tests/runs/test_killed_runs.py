"""Runs whose process is killed at every step and point: nothing is done twice, nothing unknown goes unsaid."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from aish.types.runs import RunKind, RunState, StepState
from support import killed_runs
from support.killed_runs import KINDS, POINTS, STEPS, Truthful, effects, engine_on, go_on, open_store
from support.postgres import Database

TESTS = Path(__file__).parents[1]


async def run_and_kill(place: str, workspace: Path, kind: str, step: int, point: str) -> None:
    words = (sys.executable, killed_runs.__file__, place, str(workspace), kind, str(step), point)
    env = {**os.environ, "PYTHONPATH": str(TESTS)}
    async with asyncio.timeout(60):
        child = await asyncio.create_subprocess_exec(*words, env=env)
        assert await child.wait() == -9


async def check_resumption(place: str, workspace: Path, kind: str, step: int, point: str) -> None:
    store = open_store(place)
    try:
        engine, person = engine_on(store, workspace), Truthful(workspace)
        [record] = await engine.runs.list()
        assert (record.kind, record.state) == (RunKind(kind), RunState.RUNNING)
        async with asyncio.timeout(60):
            await go_on(engine, record, person)
        done = effects(workspace)
        assert len(done) == len(set(done)), "an effect was had twice"
        [record] = await engine.runs.list()
        assert record.state is RunState.FINISHED
        steps = await engine.runs.steps(record.id)
        is_doubtful = point in ("after intent", "after effect")
        can_tell = kind == "plan" and step % 2 == 1  # x__put
        if is_doubtful and not can_tell:
            assert person.asked, "an unknown outcome was not reported"
            assert steps[step - 1].state is StepState.UNKNOWN
        elif is_doubtful:
            assert person.asked == []
            assert steps[step - 1].state is (StepState.DONE if point == "after effect" else StepState.FAILED)
        if kind == "norris" or not (point == "after effect" and not can_tell):
            assert sorted(done) == list(range(1, STEPS + 1)), "an effect was lost"
    finally:
        await store.aclose()


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("step", range(1, STEPS + 1))
@pytest.mark.parametrize("kind", KINDS)
async def test_a_killed_run_is_gone_on_with_and_does_nothing_twice(
    kind: str, step: int, point: str, tmp_path: Path
) -> None:
    place = str(tmp_path / "aish.db")
    await run_and_kill(place, tmp_path, kind, step, point)
    await check_resumption(place, tmp_path, kind, step, point)


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("step", range(1, STEPS + 1))
@pytest.mark.parametrize("kind", KINDS)
async def test_the_same_over_postgresql(kind: str, step: int, point: str, tmp_path: Path, database: Database) -> None:
    await run_and_kill(database.url, tmp_path, kind, step, point)
    await check_resumption(database.url, tmp_path, kind, step, point)
