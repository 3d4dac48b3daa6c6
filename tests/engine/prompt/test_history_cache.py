from __future__ import annotations

from aish.engine.prompt import history_cache
from aish.engine.prompt.history_cache import HistoryCache
from aish.storage.memory import MemoryStore
from aish.types.events import TurnEnd
from aish.types.messages import user
from aish.types.records import SessionRecord, TurnRecord
from aish.types.usage import Usage


class Counting(MemoryStore):
    reads = 0

    async def list_turns(self, session, *, before=None, limit=None):
        self.reads += 1
        return await super().list_turns(session, before=before, limit=limit)


async def unchanged(record):
    return record


async def reads_of_two_looks(text):
    store = Counting()
    await store.create_session(SessionRecord("s", 1, 1))
    await store.start_turn(TurnRecord("t", "s", 1, "m", 2, (user(text),)))
    await store.finish_turn("t", end=TurnEnd.ANSWERED, finished_ms=3, messages=(user(text),), usage=Usage())
    cache = HistoryCache(store, unchanged)
    for _ in range(2):
        session = await store.find_session("s")
        assert [turn.messages for turn in await cache.turns(session, enough=None)] == [(user(text),)]
    return store.reads


async def test_a_session_is_read_once_unless_it_is_larger_than_the_cache_may_hold(monkeypatch):
    monkeypatch.setattr(history_cache, "_MAX_SESSION_BYTES", 1000)
    assert await reads_of_two_looks("short") == 1
    assert await reads_of_two_looks("long " * 300) == 2
