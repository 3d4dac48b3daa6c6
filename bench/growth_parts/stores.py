"""A store that fills: listing and searching sessions, and following its feed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from tempfile import TemporaryDirectory

from aish.storage.sqlite.store import SqliteStore
from bench.growth_parts import Subject
from bench.growth_parts.engines import fill_session, least_us

LINE = b'{"seq":1,"type":"text_delta","text":"' + b"x" * 120 + b'"}\n'
PAGE = 16  # what the server reads at once
BATCH = 16  # events that are written together
TRIES = 6

Work = Callable[[SqliteStore], Awaitable[object]]


def with_sessions(count: int, work: Work) -> float:
    """One operation, in a store of so many sessions of one turn."""

    async def measure() -> float:
        with TemporaryDirectory() as folder:
            store = SqliteStore(Path(folder) / "aish.db")
            for number in range(count):
                await fill_session_softly(store, f"s{number}")
            await store.flush()
            try:
                return await least_us(lambda: once(store), TRIES)
            finally:
                await store.aclose()

    async def once(store: SqliteStore) -> None:
        for _ in range(10):
            await work(store)

    return asyncio.run(measure()) / 10


async def fill_session_softly(store: SqliteStore, session: str) -> None:
    await fill_session(store, session, 1)


def listed(count: int) -> float:
    return with_sessions(count, lambda store: store.list_sessions(limit=20))


def searched(count: int) -> float:
    return with_sessions(count, lambda store: store.list_sessions(limit=20, search="question 1"))


def begun(count: int) -> float:
    return with_sessions(count, lambda store: store.list_turns("s5", limit=50))


def followed(count: int) -> float:
    """A feed of so many rows, read after its first to its end by a store that has just been opened: a short one would
    lie in SQLite's own cache from the time before, and a long one would not."""

    async def measure() -> float:
        with TemporaryDirectory() as folder:
            file = Path(folder) / "aish.db"
            async with aclosing(SqliteStore(file)) as store:
                await fill_session(store, "one", 1)
                for seq in range(1, count + 1):
                    store.append_events("one_1", seq, seq, LINE)
                    if seq % BATCH == 0:
                        await store.flush(durable=False)
            return min([await read_us(file) for _ in range(4)])

    async def read_us(file: Path) -> float:
        async with aclosing(SqliteStore(file)) as store:
            cursor = (await store.read_feed(0, 1))[-1].cursor
            began = time.process_time_ns()
            while rows := await store.read_feed(cursor, PAGE):
                cursor = rows[-1].cursor
            return (time.process_time_ns() - began) / 1e3

    return asyncio.run(measure())


SUBJECTS = (
    Subject(
        "sessions in the store", (100, 1000, 10_000), "the newest listed", listed, "storage/sqlite/sessions_sql.py"
    ),
    Subject(
        "sessions in the store, searched", (100, 1000, 10_000), "a search", searched, "storage/sqlite/sessions_sql.py"
    ),
    Subject(
        "sessions in the store, one of them",
        (100, 1000, 10_000),
        "its turns read",
        begun,
        "storage/sqlite/sessions_sql.py",
    ),
    Subject("events of a feed", (6_400, 64_000, 640_000), "all of it read", followed, "storage/sqlite/sessions_sql.py"),
)
