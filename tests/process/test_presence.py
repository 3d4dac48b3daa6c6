"""Who lives on other hosts, as told by what they write into a store that both share."""

from __future__ import annotations

import pytest

from aish.process.liveness import BEAT_S, KIND, SILENT_S, HostPresence, ProcessOwners
from aish.storage.memory import MemoryStore
from aish.types.records import Document
from support.eventually import eventually

FAR = "elsewhere/42/7"


class Looker:
    def __init__(self) -> None:
        self.now_s = 100.0
        self.store = MemoryStore()
        self.presence = HostPresence(self.store, monotonic=lambda: self.now_s)

    async def passes(self, seconds: float) -> None:
        """Time, with a beat now and then."""
        for _ in range(round(seconds / BEAT_S)):
            self.now_s += BEAT_S
            await self.presence.beat()

    async def far_beats(self, count: int) -> None:
        await self.store.put(Document(KIND, FAR, b"%d" % count))


@pytest.fixture
async def looker() -> Looker:
    made = Looker()
    await made.presence.beat()
    return made


async def test_a_process_elsewhere_lives_as_long_as_its_count_goes_up(looker: Looker) -> None:
    for count in range(10):
        await looker.far_beats(count)
        await looker.passes(SILENT_S - BEAT_S)
        assert looker.presence.is_alive(FAR)
    await looker.passes(SILENT_S)
    assert not looker.presence.is_alive(FAR)
    await looker.far_beats(99)
    await looker.passes(BEAT_S)
    assert looker.presence.is_alive(FAR)


async def test_a_process_nobody_ever_saw_is_given_time_before_it_is_taken_for_dead(looker: Looker) -> None:
    assert looker.presence.is_alive(FAR)
    await looker.passes(SILENT_S - BEAT_S)
    assert looker.presence.is_alive(FAR)
    await looker.passes(BEAT_S)
    assert not looker.presence.is_alive(FAR)


async def test_nobody_is_taken_for_dead_before_the_first_look_or_while_the_store_cannot_be_read(looker: Looker) -> None:
    assert HostPresence(MemoryStore()).is_alive(FAR)
    looker.now_s += 10 * SILENT_S
    assert looker.presence.is_alive(FAR)


async def test_a_process_of_this_host_is_looked_at_itself(looker: Looker) -> None:
    here = ProcessOwners().me
    await looker.passes(2 * SILENT_S)
    assert looker.presence.is_alive(here)
    assert not looker.presence.is_alive(here.rpartition("/")[0] + "/1")


async def test_while_it_is_kept_others_can_see_it() -> None:
    store = MemoryStore()
    presence = HostPresence(store)
    async with presence.announce():

        async def is_seen() -> bool:
            return await store.find(KIND, presence.me) is not None

        await eventually(is_seen)
