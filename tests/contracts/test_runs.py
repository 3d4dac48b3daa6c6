"""The Runs part of the Store port: every adapter passes this one suite."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from aish.errors import StoreError
from aish.ports import Store
from aish.storage.memory import MemoryStore
from aish.storage.postgres.store import PostgresStore
from aish.storage.sqlite.store import SqliteStore
from aish.types.records import SessionRecord
from aish.types.runs import RunKind, RunRecord, RunState, StepRecord, StepState

LONG = 60.0


@pytest.fixture(params=["sqlite", "memory", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    opened: Store = MemoryStore()
    if request.param == "sqlite":
        opened = SqliteStore(tmp_path / "data" / "aish.db")
    elif request.param == "postgres":
        opened = PostgresStore(request.getfixturevalue("database").url)
    yield opened
    await opened.aclose()


def run(name: str = "run_1", owner: str = "me") -> RunRecord:
    return RunRecord(name, RunKind.NORRIS, "sess_1", "tidy up", RunState.RUNNING, body=b'{"step":1}', owner=owner)


def step(number: int = 1, state: StepState = StepState.INTENT) -> StepRecord:
    return StepRecord("run_1", number, f"call_{number}", "shell__run", "exec", state, arguments=b'{"command":"make"}')


async def test_a_new_run_belongs_to_who_made_it(store: Store) -> None:
    made = await store.create_run(run(), lease_s=LONG)
    assert made.fence == 1
    assert made.lease_ms > made.created_ms
    assert await store.find_run("run_1") == made
    assert await store.claim_run("run_1", "other", lease_s=LONG) is None


async def test_making_a_run_twice_is_an_error_and_keeps_the_first(store: Store) -> None:
    made = await store.create_run(run(), lease_s=LONG)
    with pytest.raises(StoreError, match="already a run run_1"):
        await store.create_run(run(owner="other"), lease_s=LONG)
    assert await store.find_run("run_1") == made


async def test_a_run_whose_lease_is_over_is_taken_by_one(store: Store) -> None:
    await store.create_run(run(), lease_s=0)
    taken = await asyncio.gather(*(store.claim_run("run_1", f"o{n}", lease_s=LONG) for n in range(8)))
    [winner] = [claimed for claimed in taken if claimed is not None]
    assert winner.fence == 2
    assert winner.body == b'{"step":1}'


async def test_the_run_of_an_owner_that_died_is_taken_before_its_lease_is_over(store: Store) -> None:
    await store.create_run(run(), lease_s=LONG)
    assert await store.claim_run("run_1", "other", lease_s=LONG, dead="somebody") is None
    claimed = await store.claim_run("run_1", "other", lease_s=LONG, dead="me")
    assert claimed is not None
    assert claimed.owner == "other"


async def test_a_lease_from_a_clock_that_was_put_back_does_not_hold(store: Store) -> None:
    await store.create_run(run(), lease_s=365 * 86_400.0)
    assert await store.claim_run("run_1", "other", lease_s=LONG) is not None


async def test_the_late_writes_of_an_old_owner_change_nothing(store: Store) -> None:
    old = await store.create_run(run(), lease_s=0)
    assert await store.put_step(step(), fence=old.fence)
    new = await store.claim_run("run_1", "other", lease_s=LONG)
    assert new is not None
    assert not await store.put_step(step(state=StepState.DONE), fence=old.fence)
    assert not await store.put_step(step(2), fence=old.fence)
    assert not await store.update_run(msgspec.structs.replace(old, state=RunState.FINISHED), lease_s=LONG)
    assert not await store.renew_run("run_1", old.fence, lease_s=LONG)
    assert await store.find_run("run_1") == new
    assert await store.list_steps("run_1") == [step()]


async def test_a_change_is_kept_and_giving_back_frees_the_run(store: Store) -> None:
    made = await store.create_run(run(), lease_s=LONG)
    halted = msgspec.structs.replace(made, state=RunState.HALTED, reason="rm -r", body=b"{}", owner="", session="s2")
    assert await store.update_run(halted, lease_s=0)
    found = await store.find_run("run_1")
    assert found is not None
    assert (found.state, found.reason, found.body, found.session) == (RunState.HALTED, "rm -r", b"{}", "s2")
    assert await store.claim_run("run_1", "other", lease_s=LONG) is not None


async def test_a_renewed_lease_holds(store: Store) -> None:
    made = await store.create_run(run(), lease_s=0)
    assert await store.renew_run("run_1", made.fence, lease_s=LONG)
    assert await store.claim_run("run_1", "other", lease_s=LONG) is None


async def test_steps_come_in_order_and_an_outcome_takes_its_intents_place(store: Store) -> None:
    made = await store.create_run(run(), lease_s=LONG)
    for number in (2, 1, 10):
        assert await store.put_step(step(number), fence=made.fence)
    done = msgspec.structs.replace(step(2, StepState.DONE), outcome="made é", status="ok", witness="w", key="a")
    assert await store.put_step(done, fence=made.fence)
    assert await store.list_steps("run_1") == [step(1), done, step(10)]


async def test_runs_are_listed_newest_first_and_by_state(store: Store) -> None:
    for number in range(3):
        await store.create_run(run(f"run_{number}"), lease_s=LONG)
    halted = await store.find_run("run_1")
    assert halted is not None
    await store.update_run(msgspec.structs.replace(halted, state=RunState.HALTED), lease_s=0)
    listed = await store.list_runs(limit=10)
    assert [one.id for one in listed] == sorted(
        (one.id for one in listed),
        key=lambda id: next((r.created_ms, r.id) for r in listed if r.id == id),
        reverse=True,
    )
    assert len(await store.list_runs(limit=2)) == 2
    assert [one.id for one in await store.list_runs(limit=10, states=[RunState.HALTED])] == ["run_1"]


async def test_a_run_goes_with_its_session(store: Store) -> None:
    await store.create_session(SessionRecord("sess_1", created_ms=1, updated_ms=1))
    made = await store.create_run(run(), lease_s=LONG)
    await store.put_step(step(), fence=made.fence)
    await store.delete_session("sess_1")
    assert await store.find_run("run_1") is None
    assert await store.list_steps("run_1") == []


@pytest.mark.parametrize("name", ["run_none", "", "\0", "'; DROP TABLE runs; --"])
async def test_an_unknown_run_is_nowhere(store: Store, name: str) -> None:
    await store.create_run(run(), lease_s=LONG)
    assert await store.find_run(name) is None
    assert await store.claim_run(name, "me", lease_s=1) is None
    assert not await store.renew_run(name, 1, lease_s=1)
    assert await store.list_steps(name) == []
