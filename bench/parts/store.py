"""The store: events that are acknowledged once they are on disk, and whole turns, in SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

from aish.storage.postgres.store import PostgresStore
from aish.storage.sqlite.store import SqliteStore
from bench import durability
from bench.effort import Effort
from bench.rows import Bar, Row, median, row

PART = "store"
PLAIN = "a commit for each"


def rows(effort: Effort) -> Iterator[Row]:
    seconds, rounds = (0.7, 2) if effort.quick else (2.0, 5)
    yield from asyncio.run(sqlite_rows(seconds, rounds))
    if effort.quick:
        return
    if durability.find_binaries() is None:
        notes = {"PostgreSQL": "it is not here (apt-get install postgresql)"}
        yield row(PART, "PostgreSQL, 64 writers, durable appends", "/s", None, better="more", notes=notes)
        return
    with durability.running_database() as database:
        yield from asyncio.run(postgres_rows(database, seconds, rounds))


async def sqlite_rows(seconds: float, rounds: int) -> list[Row]:
    folder = durability.ROOT / ".cache"
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as inner:  # on the disk, not in memory
        syncs = durability.syncs(Path(inner) / "file")
        store = SqliteStore(Path(inner) / "aish.db")
        rate = max([await durability.appends_of(store, seconds) for _ in range(rounds)])
        turns = await durability.turns_of(store, "one", seconds)
        await store.aclose()
    bar, limits = Bar(least=durability.SQLITE_BAR), {"syncs of this disk": syncs}
    what = "SQLite, 64 writers, durable appends"
    return [
        row(PART, what, "/s", rate, limits=limits, better="more", bar=bar, rounds=rounds),
        row(PART, "SQLite, whole turns of twenty events", "/s", turns, better="more"),
    ]


async def postgres_rows(database: durability.Database, seconds: float, rounds: int) -> list[Row]:
    store = PostgresStore(database.url)
    await durability.begin(store, "warm")
    ours, plain = [], []
    for _ in range(rounds):
        ours.append(await durability.appends_of(store, seconds))
        plain.append(await durability.plain_appends(database.url, seconds))
    alone = await durability.latency(store) * 1e3
    turns = await durability.turns_of(store, "whole", seconds)  # closes it
    bar, limits = Bar(least=durability.RATIO_BAR, of=PLAIN), {PLAIN: median(plain)}
    what = "PostgreSQL, 64 writers, durable appends"
    return [
        row(PART, what, "/s", median(ours), limits=limits, better="more", bar=bar, rounds=rounds),
        row(PART, "PostgreSQL, one writer alone, an append", "ms", alone, rounds=300),
        row(PART, "PostgreSQL, whole turns of twenty events", "/s", turns, better="more"),
    ]
