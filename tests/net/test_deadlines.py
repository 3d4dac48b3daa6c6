"""One timer looks at many deadlines."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from aish.net.event_loop import DeadlineTimer, get_deadline_timer
from support.eventually import eventually


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aish.net.event_loop.PERIOD_S", 0.01)


class Looked:
    def __init__(self) -> None:
        self.times: list[float] = []

    def check_deadlines(self, now_s: float) -> None:
        self.times.append(now_s)


async def test_what_has_joined_is_looked_at_until_it_leaves() -> None:
    sweep, stays, leaves = DeadlineTimer(asyncio.get_running_loop()), Looked(), Looked()
    sweep.add(stays)
    sweep.add(leaves)
    await eventually(lambda: len(leaves.times) > 1)
    sweep.discard(leaves)
    before, seen = len(stays.times), len(leaves.times)
    await eventually(lambda: len(stays.times) > before + 1)
    assert len(leaves.times) == seen and stays.times == sorted(stays.times)


async def test_there_is_a_timer_only_while_there_is_something_to_look_at() -> None:
    sweep, looked = DeadlineTimer(asyncio.get_running_loop()), Looked()
    assert not sweep._has_timer
    sweep.add(looked)
    sweep.discard(looked)
    await eventually(lambda: not sweep._has_timer)
    sweep.add(looked)
    await eventually(lambda: looked.times)


def test_a_loop_that_is_over_is_not_kept() -> None:
    async def used() -> weakref.ref[asyncio.AbstractEventLoop]:
        loop = asyncio.get_running_loop()
        sweep = get_deadline_timer(loop)
        assert sweep is get_deadline_timer(loop)
        looked = Looked()
        sweep.add(looked)
        await eventually(lambda: looked.times)
        sweep.discard(looked)
        return weakref.ref(loop)

    loop = asyncio.new_event_loop()
    kept = loop.run_until_complete(used())
    loop.close()
    del loop
    gc.collect()
    assert kept() is None
