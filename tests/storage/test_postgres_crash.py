"""Processes killed, the database restarted or gone, the network cut: what was acknowledged is there, and only once."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from aish.errors import StoreError
from aish.storage.postgres.store import PostgresStore
from aish.types.events import TurnEnd
from aish.types.messages import AssistantMessage, user
from aish.types.records import SessionRecord, TurnRecord
from aish.types.usage import Usage
from support.crashing import check_said, run_until_killed
from support.cut_proxy import CutProxy, cut_proxy
from support.eventually import eventually
from support.postgres import Database


def line(turn: str, seq: int) -> bytes:
    return b'{"seq":%d,"turn":"%s"}\n' % (seq, turn.encode())


class Writers:
    """Write turns until told to stop, and remember what was acknowledged and what was refused."""

    def __init__(self, store: PostgresStore) -> None:
        self.said: list[list[str]] = []
        self.refused: list[StoreError] = []
        self.stopping = False
        self._store = store

    async def write(self, session: str) -> None:
        await self._store.create_session(SessionRecord(session, 1, 1))
        self.said.append(["session", session])
        for index in range(1_000_000):
            if self.stopping:
                return
            await self._turn(f"turn_{session}_{index}", session)

    async def _turn(self, turn: str, session: str) -> None:
        try:
            number = await self._store.start_turn(TurnRecord(turn, session, 0, "m", 1, (user(turn),)))
            self.said.append(["started", turn, str(number)])
            for seq in range(1, 21):
                self._store.append_events(turn, seq, seq, line(turn, seq))
                if seq % 7 == 0:
                    await self._store.flush()
                    self.said.append(["flushed", turn, str(seq)])
            answer = (AssistantMessage(turn),)
            await self._store.finish_turn(turn, end=TurnEnd.ANSWERED, finished_ms=2, messages=answer, usage=Usage())
            self.said.append(["finished", turn, "20"])
        except StoreError as exc:
            self.refused.append(exc)


@asynccontextmanager
async def writing(store: PostgresStore, count: int = 4) -> AsyncIterator[Writers]:
    writers = Writers(store)
    async with asyncio.TaskGroup() as group:
        for index in range(count):
            group.create_task(writers.write(f"sess_{index}"))
        try:
            yield writers
        finally:
            writers.stopping = True


async def more_said(writers: Writers, count: int = 40) -> None:
    goal = len(writers.said) + count
    await eventually(lambda: len(writers.said) >= goal, 60)


@asynccontextmanager
async def opened(url: str, **times: float) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url, **times)
    try:
        yield store
    finally:
        await store.aclose()


@pytest.mark.parametrize("seed", range(3))
async def test_a_killed_process_loses_nothing_it_acknowledged(database: Database, seed: int) -> None:
    chance = random.Random(seed)
    said: list[list[str]] = []
    for life in range(2):
        said += await run_until_killed(database.url, f"{seed}{life}", chance.randint(1, 300))
    async with opened(database.url) as store:
        await check_said(store, said)


async def test_two_processes_on_one_database_killed_together_lose_nothing(database: Database) -> None:
    both = await asyncio.gather(*(run_until_killed(database.url, name, 150) for name in ("a", "b")))
    async with opened(database.url) as store:
        await check_said(store, both[0] + both[1])


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
async def test_writers_wait_for_a_database_that_restarts_and_nothing_is_lost(
    database: Database, how: signal.Signals
) -> None:
    async with opened(database.url, patience_s=60) as store:
        async with writing(store) as writers:
            for _ in range(2):
                await more_said(writers)
                await asyncio.to_thread(database.stop, how)
                await asyncio.to_thread(database.start)
            await more_said(writers)
        assert not writers.refused
        await check_said(store, writers.said)


async def test_a_database_that_stays_away_is_told_in_words_and_what_nobody_waited_for_is_written_later(
    database: Database,
) -> None:
    async with opened(database.url, patience_s=3) as store:
        await store.create_session(SessionRecord("sess_1", 1, 1))
        await store.start_turn(TurnRecord("turn_1", "sess_1", 0, "m", 1, (user("x"),)))
        database.stop()
        try:
            store.append_events("turn_1", 1, 1, line("turn_1", 1))
            with pytest.raises(
                StoreError, match=r"the store postgresql://127.0.0.1:\d+/aish cannot be reached"
            ) as told:
                await store.flush()
            with pytest.raises(StoreError, match="cannot be reached"):
                await store.find_session("sess_1")
            store.append_events("turn_1", 2, 2, line("turn_1", 2))
        finally:
            database.start()
        assert "store.url" in told.value.hint
        await store.flush()
        assert await store.read_events("turn_1") == line("turn_1", 1) + line("turn_1", 2)


async def test_connections_that_break_again_and_again_lose_nothing_and_write_nothing_twice(database: Database) -> None:
    async with cut_proxy(database.port) as proxy, opened(database.url_by(proxy.port), patience_s=60) as store:
        async with writing(store) as writers:
            for _ in range(8):
                await more_said(writers, 15)
                proxy.break_all()
            await more_said(writers)
        assert not writers.refused
        await check_said(store, writers.said)


async def test_a_cable_that_is_pulled_and_put_back_loses_nothing_and_writes_nothing_twice(database: Database) -> None:
    async with cut_proxy(database.port) as proxy:
        url = database.url_by(proxy.port)
        async with opened(url, connect_s=1, statement_s=1, patience_s=60) as store:
            async with writing(store) as writers:
                for _ in range(2):
                    await more_said(writers)
                    proxy.freeze()
                    before = proxy.swallowed
                    await eventually(lambda before=before: proxy.swallowed > before)
                    proxy.mend()
                await more_said(writers)
            assert not writers.refused
            await check_said(store, writers.said)


def cut_at_commit(proxy: CutProxy, *, arrives: bool, mended: bool) -> asyncio.Event:
    """The next COMMIT is the last thing sent; whether it arrives or not, nobody hears of it. Set once it is so."""
    is_cut = asyncio.Event()

    def look(data: bytes) -> None:
        if b"COMMIT\0" in data and not is_cut.is_set():
            is_cut.set()
            proxy.freeze(sent=not arrives)
            if mended:
                proxy.mend()

    proxy.on_sent = look
    return is_cut


@pytest.mark.parametrize("arrives", [True, False])
async def test_a_commit_that_nobody_heard_of_is_acknowledged_once_it_is_known(
    database: Database,
    arrives: bool,  # noqa: FBT001
) -> None:
    async with cut_proxy(database.port) as proxy:
        url = database.url_by(proxy.port)
        async with opened(url, connect_s=1, statement_s=1, patience_s=30) as store:
            await store.create_session(SessionRecord("sess_1", 1, 1))
            await store.start_turn(TurnRecord("turn_1", "sess_1", 0, "m", 1, (user("x"),)))
            is_cut = cut_at_commit(proxy, arrives=arrives, mended=True)
            store.append_events("turn_1", 1, 1, line("turn_1", 1))
            await store.create_session(SessionRecord("sess_2", 1, 1))
            assert is_cut.is_set()
            assert await store.read_events("turn_1") == line("turn_1", 1)
            assert await store.find_session("sess_2") is not None


@pytest.mark.parametrize("arrives", [True, False])
async def test_what_nobody_waits_for_is_written_once_though_its_commit_stayed_in_doubt(
    database: Database,
    arrives: bool,  # noqa: FBT001
) -> None:
    async with cut_proxy(database.port) as proxy:
        async with opened(database.url) as patient:
            await patient.create_session(SessionRecord("sess_1", 1, 1))
            await patient.start_turn(TurnRecord("turn_1", "sess_1", 0, "m", 1, (user("x"),)))
        async with opened(database.url_by(proxy.port), connect_s=2, statement_s=2, patience_s=5) as store:
            await store.flush()
            cut_at_commit(proxy, arrives=arrives, mended=False)
            store.append_events("turn_1", 1, 1, line("turn_1", 1))
            with pytest.raises(StoreError, match="it is not known whether this was written"):
                await store.create_session(SessionRecord("sess_2", 1, 1))
            proxy.mend()
            store.append_events("turn_1", 2, 2, line("turn_1", 2))
            await store.flush()
            assert await store.read_events("turn_1") == line("turn_1", 1) + line("turn_1", 2)
            assert (await store.find_session("sess_2") is not None) is arrives


async def test_a_flush_tells_of_events_that_the_database_had_taken_and_lost_in_a_crash(database: Database) -> None:
    async with opened(database.url, patience_s=60) as store:
        await store.create_session(SessionRecord("sess_1", 1, 1))
        await store.start_turn(TurnRecord("turn_1", "sess_1", 0, "m", 1, (user("x"),)))
        store.append_events("turn_1", 1, 1, line("turn_1", 1))
        await store.flush(durable=False)
        database.stop(signal.SIGQUIT)
        database.start()
        with pytest.raises(StoreError, match="went down before they were on its disk"):
            await store.flush()
        await store.flush()
