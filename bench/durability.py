"""How fast what is acknowledged becomes durable: `make bench-durability`. Needs PostgreSQL's binaries.

An append is one event of a turn, and its maker waits until it is on disk; 64 do so at a time. SQLite is held to
an absolute rate, the best of several rounds: other work on the machine only takes away. PostgreSQL is held to a ratio
over the plain way, a commit for each append over as many connections as the store may use, in the same run on the
same server; rounds take turns, and the ratio is the median over neighbouring ones. Then whole turns (begun, twenty
events, ended, all waited for), by one process and by several on one database. Exit code 1 when a bar is missed.
`--quick` is a small setting for CI.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import asyncpg  # noqa: E402

from aish.ports import Store  # noqa: E402
from aish.storage.postgres.connections import READERS  # noqa: E402
from aish.storage.postgres.store import PostgresStore  # noqa: E402
from aish.storage.sqlite.store import SqliteStore  # noqa: E402
from aish.types.events import TurnEnd  # noqa: E402
from aish.types.messages import AssistantMessage, user  # noqa: E402
from aish.types.records import SessionRecord, TurnRecord  # noqa: E402
from aish.types.usage import Usage  # noqa: E402
from support.postgres import Database as Database  # noqa: E402
from support.postgres import find_binaries as find_binaries  # noqa: E402
from support.postgres import running_database as running_database  # noqa: E402

WRITERS = 64
SQLITE_BAR = 5_000
RATIO_BAR = 3.0
LINE = b'{"seq":1,"type":"text_delta","text":"' + b"x" * 120 + b'"}\n'
INSERT = """
    INSERT INTO aish.events (cursor, turn, first_seq, last_seq, body)
    VALUES ((SELECT coalesce(max(cursor), 0) + 1 + (random() * 1e9)::bigint FROM aish.events), $1, $2, $2, $3)"""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--turns", nargs=3, metavar=("URL", "NAME", "SECONDS"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.turns:
        url, name, seconds = arguments.turns
        say(str(asyncio.run(turns_of(PostgresStore(url), name, float(seconds)))))
        return 0
    seconds, rounds = (1.0, 3) if arguments.quick else (4.0, 5)
    fine = asyncio.run(sqlite_rates(seconds, rounds))
    if find_binaries() is None:
        say("there is no PostgreSQL here: apt-get install postgresql")
        return 1
    with running_database() as database:
        fine &= asyncio.run(postgres_rates(database, seconds, rounds))
        for processes in (1, 2, 4):
            database.empty()
            together = several(database.url, processes, seconds)
            say(f"PostgreSQL, whole turns by {processes} process(es): {together:,.0f}/s")
    return 0 if fine else 1


async def sqlite_rates(seconds: float, rounds: int) -> bool:
    (ROOT / ".cache").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / ".cache") as folder:
        say(f"this disk: {syncs(Path(folder) / 'file'):,.0f} syncs/s, one after the other")
        store = SqliteStore(Path(folder) / "aish.db")
        rate = max([await appends_of(store, seconds / 2) for _ in range(rounds)])
        turns = await turns_of(store, "one", seconds)
        await store.aclose()
    fine = rate >= SQLITE_BAR
    say(f"SQLite, {WRITERS} writers: {rate:,.0f} durable appends/s, bar {SQLITE_BAR:,} {told(fine)}")
    say(f"SQLite, whole turns: {turns:,.0f}/s")
    return fine


def syncs(file: Path) -> float:
    with file.open("wb", buffering=0) as opened:
        started, count = time.perf_counter(), 0
        while time.perf_counter() < started + 0.5:
            opened.write(LINE)
            os.fsync(opened.fileno())
            count += 1
    return count / 0.5


async def postgres_rates(database: Database, seconds: float, rounds: int) -> bool:
    store = PostgresStore(database.url)
    await begin(store, "warm")
    ratios, ours, plain = [], [], []
    for _ in range(rounds):
        ours.append(await appends_of(store, seconds / 2))
        plain.append(await plain_appends(database.url, seconds / 2))
        ratios.append(ours[-1] / plain[-1])
    alone = await latency(store)
    await store.aclose()
    ratio = statistics.median(ratios)
    fine = ratio >= RATIO_BAR
    say(
        f"PostgreSQL, {WRITERS} writers: {statistics.median(ours):,.0f} durable appends/s, a commit for each"
        f" {statistics.median(plain):,.0f}/s, ratio {ratio:.1f}, bar {RATIO_BAR:g} {told(fine)}"
    )
    say(f"PostgreSQL, one writer alone: {alone * 1e3:.2f} ms an append")
    return fine


async def appends_of(store: Store, seconds: float) -> float:
    names = [f"turn_{time.time_ns()}_{index}" for index in range(WRITERS)]
    for name in names:
        await begin(store, name)

    async def append(name: str, seq: int) -> None:
        store.append_events(name, seq, seq, LINE)
        await store.flush()

    return await rate(append, names, seconds)


async def plain_appends(url: str, seconds: float) -> float:
    pool = await asyncpg.create_pool(url, min_size=READERS + 1, max_size=READERS + 1)
    names = [f"plain_{time.time_ns()}_{index}" for index in range(WRITERS)]

    async def append(name: str, seq: int) -> None:
        await pool.execute(INSERT, name, seq, LINE)

    try:
        return await rate(append, names, seconds)
    finally:
        await pool.close()


async def rate(append: Callable[[str, int], Awaitable[None]], names: list[str], seconds: float) -> float:
    until = time.perf_counter() + seconds
    done = 0

    async def write(name: str) -> None:
        nonlocal done
        seq = 0
        while time.perf_counter() < until:
            seq += 1
            await append(name, seq)
            done += 1

    started = time.perf_counter()
    await asyncio.gather(*map(write, names))
    return done / (time.perf_counter() - started)


async def latency(store: Store) -> float:
    await begin(store, "alone")
    took = []
    for seq in range(1, 301):
        started = time.perf_counter()
        store.append_events("alone", seq, seq, LINE)
        await store.flush()
        took.append(time.perf_counter() - started)
    return statistics.median(took)


async def turns_of(store: Store, name: str, seconds: float) -> float:
    """Whole turns, each in one of 64 sessions of its own."""
    until = time.perf_counter() + seconds
    done = 0

    async def talk(session: str) -> None:
        nonlocal done
        await store.create_session(SessionRecord(session, 1, 1))
        number = 0
        while time.perf_counter() < until:
            number += 1
            await turn(store, session, f"{session}_{number}")
            done += 1

    started = time.perf_counter()
    await asyncio.gather(*(talk(f"{name}_{index}") for index in range(WRITERS)))
    took = time.perf_counter() - started
    await store.aclose()
    return done / took


async def turn(store: Store, session: str, id: str) -> None:
    await store.start_turn(TurnRecord(id, session, 0, "m", 1, (user("what is the time?"),)))
    for seq in range(1, 21):
        store.append_events(id, seq, seq, LINE)
    answer = (AssistantMessage("it is late"),)
    await store.finish_turn(id, end=TurnEnd.ANSWERED, finished_ms=2, messages=answer, usage=Usage(10, 5))


def several(url: str, processes: int, seconds: float) -> float:
    command = [sys.executable, __file__, "--turns", url]
    started = [
        subprocess.Popen([*command, f"p{index}", str(seconds)], stdout=subprocess.PIPE, env=dict(os.environ))
        for index in range(processes)
    ]
    return sum(float(child.communicate(timeout=120)[0]) for child in started)


async def begin(store: Store, turn: str) -> None:
    await store.create_session(SessionRecord(f"of_{turn}", 1, 1))
    await store.start_turn(TurnRecord(turn, f"of_{turn}", 0, "m", 1, (user("hello"),)))


def told(fine: bool) -> str:  # noqa: FBT001
    return "ok" if fine else "MISSED"


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
