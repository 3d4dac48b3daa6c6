"""Sessions that several processes answer in: one turn at a time, and nobody waits for the dead."""

import asyncio

import pytest

from aish.engine.turn.runner import _LOCK_KIND as KIND
from aish.engine.turn.runner import lock_session, unlock_session
from aish.errors import SessionBusy
from aish.storage.sqlite.store import SqliteStore
from aish.types.records import Document
from support.engines import FixedLiveness


class Other(FixedLiveness):
    me = "host/alive/1"

    def is_alive(self, owner: str) -> bool:
        return owner in ("host/1/1", "host/alive/1")


class Mine(FixedLiveness):
    def is_alive(self, owner: str) -> bool:
        return owner in ("host/1/1", "host/alive/1")


@pytest.fixture
async def stores(tmp_path):
    pair = [SqliteStore(tmp_path / "aish.db") for _ in range(2)]
    yield pair
    for store in pair:
        await store.aclose()


async def test_the_second_waits_until_the_first_has_left(stores):
    one, two = stores
    await lock_session(one, "s", Mine(), 5)
    waiting = asyncio.create_task(lock_session(two, "s", Other(), 5))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    await unlock_session(one, "s", Mine())
    await asyncio.wait_for(waiting, 5)
    await unlock_session(two, "s", Other())
    assert await one.find(KIND, "s") is None


async def test_one_who_waits_too_long_is_told(stores):
    one, two = stores
    await lock_session(one, "s", Mine(), 5)
    with pytest.raises(SessionBusy):
        await lock_session(two, "s", Other(), 0.1)


async def test_a_note_of_the_dead_counts_for_nothing(stores):
    one, _ = stores
    await one.put(Document(KIND, "s", b"host/dead/9"))
    await lock_session(one, "s", Mine(), 1)


async def test_a_note_of_one_who_has_lost_the_session_counts_for_nothing_though_it_lives(stores):
    one, two = stores
    await lock_session(one, "s", Mine(), 5)
    await lock_session(two, "s", Other(), 1, Mine.me)
    await unlock_session(one, "s", Mine())  # late: it is no longer its to leave
    held = await two.find(KIND, "s")
    assert held is not None
    assert held.body == Other.me.encode()


async def test_many_at_once_never_overlap(stores):
    one, two = stores
    inside = 0

    async def visit(store, owners):
        nonlocal inside
        lock = locks[owners.me]
        async with lock:
            await lock_session(store, "s", owners, 20)
            inside += 1
            assert inside == 1
            await asyncio.sleep(0)
            inside -= 1
            await unlock_session(store, "s", owners)

    locks = {Mine.me: asyncio.Lock(), Other.me: asyncio.Lock()}  # each process serialises its own
    await asyncio.gather(*(visit(one, Mine()) for _ in range(5)), *(visit(two, Other()) for _ in range(5)))
