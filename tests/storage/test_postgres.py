"""What is particular to the PostgreSQL adapter: how it opens, what it refuses, its rows, its locks and its bounds."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from aish.errors import StoreError
from aish.storage.postgres import writer
from aish.storage.postgres.connections import READERS
from aish.storage.postgres.database import (
    SqlConnection,
    escape,
    is_lost,
    migrate,
    migrations,
    name_of,
    open_database,
    unescape,
)
from aish.storage.postgres.sql.sessions import NEXT_CURSOR
from aish.storage.postgres.store import PostgresStore
from aish.storage.postgres.transaction import BUDGET, WriteOperation, lock_numbers
from aish.types.events import TurnEnd
from aish.types.messages import AssistantMessage, user
from aish.types.records import Document, Fact, SessionRecord, TurnRecord
from aish.types.runs import RunKind, RunRecord, RunState
from aish.types.usage import Category, Reservation, Usage, UsageRecord
from support.eventually import eventually
from support.free_port import free_port
from support.postgres import PASSWORD, Database

# What asyncpg raises over a connection that the server has ended: which of them depends on what had arrived by then.
LOST = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)


@pytest.fixture
async def store(database: Database) -> AsyncIterator[PostgresStore]:
    opened = PostgresStore(database.url)
    yield opened
    await opened.aclose()


@pytest.fixture
async def raw(database: Database) -> AsyncIterator[Any]:
    """A connection past the store."""
    connection = await asyncpg.connect(database.url, server_settings={"search_path": "aish"})
    yield connection
    await connection.close()


async def begin(store: PostgresStore, *turns: str) -> None:
    """A session for each turn, named after it."""
    for turn in turns or ("turn_1",):
        await store.create_session(SessionRecord(f"of_{turn}", 1, 1))
        await store.start_turn(TurnRecord(turn, f"of_{turn}", 0, "m", 1, (user("hello"),)))


def line(number: int) -> bytes:
    return b'{"seq":%d}\n' % number


async def finish(store: PostgresStore, turn: str, at_ms: int = 2) -> None:
    await store.finish_turn(turn, end=TurnEnd.ANSWERED, finished_ms=at_ms, messages=(), usage=Usage())


CONNECTED = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'aish'"


def test_the_driver_is_imported_when_the_database_is_opened() -> None:
    code = "import sys, aish.storage.postgres.store as s; s.PostgresStore('postgresql://x')\n"
    code += "print('asyncpg' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"False\n"


async def test_closing_ends_every_connection_and_leaves_all_that_was_appended(database: Database) -> None:
    store = PostgresStore(database.url)
    await begin(store)
    await asyncio.gather(*(store.find_session("of_turn_1") for _ in range(20)))
    assert (await database.rows(CONNECTED))[0][0] > 1
    store.append_events("turn_1", 1, 1, line(1))
    await store.aclose()
    assert await database.rows("SELECT body FROM events") == [(line(1),)]
    await eventually(lambda: _is_left_alone(database))


async def _is_left_alone(database: Database) -> bool:
    return bool((await database.rows(CONNECTED))[0][0] == 0)


async def test_old_usage_takes_a_row_for_each_model_and_quarter_of_an_hour(
    database: Database, store: PostgresStore
) -> None:
    for number in range(30):
        store.record_usage(UsageRecord(f"use_{number}", number * 60_000, "", "m", Category.MAIN, Usage(7)))
    await store.flush()
    while await store.sum_up_usage(before_ms=900_000):
        pass
    rows = await database.rows("SELECT calls, prompt_tokens FROM usage ORDER BY at_ms")
    assert rows == [(15, 105)] + [(0, 7)] * 15


async def test_however_many_read_at_once_connections_are_bounded(database: Database, store: PostgresStore) -> None:
    await begin(store)
    found = await asyncio.gather(*(store.find_session("of_turn_1") for _ in range(500)))
    assert all(found)
    assert (await database.rows(CONNECTED))[0][0] <= READERS + 1


async def test_events_appended_together_become_one_row(database: Database, store: PostgresStore) -> None:
    await begin(store)
    for number in range(1, 101):
        store.append_events("turn_1", number, number, line(number))
    await store.flush()
    rows = await database.rows("SELECT first_seq, last_seq FROM events ORDER BY first_seq")
    assert rows[-1][1] == 100
    assert len(rows) <= 5


async def test_events_reach_the_database_without_being_flushed(database: Database, store: PostgresStore) -> None:
    await begin(store)
    store.append_events("turn_1", 1, 1, line(1))

    async def is_there() -> bool:
        return bool(await database.rows("SELECT 1 FROM events"))

    await eventually(is_there, 10)


async def test_a_flush_after_the_events_were_taken_still_syncs(database: Database, store: PostgresStore) -> None:
    await begin(store)
    store.append_events("turn_1", 1, 1, line(1))
    await store.read_events("turn_1")
    [(before,)] = await database.rows("SELECT number FROM writers")
    await store.flush()
    [(after,)] = await database.rows("SELECT number FROM writers")
    await store.flush()
    assert (after, await database.rows("SELECT number FROM writers")) == (before + 1, [(after,)])


async def refusal(url: str, **times: float) -> StoreError:
    store = PostgresStore(url, patience_s=2.0, **times)
    with pytest.raises(StoreError) as write:
        await store.create_session(SessionRecord("sess_1", 1, 1))
    with pytest.raises(StoreError) as read:
        await store.find_session("sess_1")
    await store.aclose()
    assert read.value.message == write.value.message
    assert write.value.hint
    assert PASSWORD not in write.value.message + write.value.hint
    return write.value


async def test_a_wrong_password_is_told_as_such_and_not_shown(database: Database) -> None:
    error = await refusal(database.url.replace(PASSWORD, "guess-of-mine"))
    assert "refused the login" in error.message
    assert "guess-of-mine" not in error.message


async def test_a_database_that_is_not_there_is_told_as_such(database: Database) -> None:
    error = await refusal(database.url.removesuffix("/aish") + "/nothing")
    assert "/nothing is not there" in error.message


async def test_a_server_that_is_not_there_is_told_as_such() -> None:
    port = free_port()
    error = await refusal(f"postgresql://aish:{PASSWORD}@127.0.0.1:{port}/aish")
    assert error.message.startswith(f"the store postgresql://127.0.0.1:{port}/aish cannot be reached")


async def test_while_a_server_is_known_to_be_away_each_is_told_after_one_attempt() -> None:
    attempts = 0

    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal attempts
        attempts += 1
        writer.close()

    async with await asyncio.start_server(cut, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        store = PostgresStore(f"postgresql://aish@127.0.0.1:{port}/aish?sslmode=disable", patience_s=4.0)
        made = []
        for number in range(3):
            with pytest.raises(StoreError, match="cannot be reached"):
                await store.create_session(SessionRecord(f"sess_{number}", 1, 1))
            made.append(attempts - sum(made))
        await store.aclose()
    assert made[0] > 2 and made[1:] == [1, 1]


@pytest.mark.parametrize("url", ["mysql://x/y", "", "/var/lib/aish.db"])
async def test_an_address_of_something_else_is_refused(url: str) -> None:
    error = await refusal(url)
    assert error.message == "store.url is no address of PostgreSQL"


@pytest.mark.parametrize("url", ["postgresql://u:secret@h:99999999/x", "postgresql://u:secret@[::1/x", "postgresql://"])
async def test_a_garbled_address_is_refused_without_its_login(url: str) -> None:
    store = PostgresStore(url, patience_s=0.2, connect_s=0.5)
    with pytest.raises(StoreError) as told:
        await store.find_session("sess_1")
    assert "secret" not in told.value.message
    await store.aclose()


def test_the_name_of_a_store_holds_no_login() -> None:
    assert (
        name_of("postgresql://ann:secret@db.example:6000/aish?sslmode=require") == "postgresql://db.example:6000/aish"
    )
    assert name_of("postgresql:///aish?host=/run/pg&password=secret") == "postgresql://localhost:5432/aish"


async def test_a_database_in_another_encoding_is_refused(database: Database) -> None:
    await database.rule("CREATE DATABASE old ENCODING 'SQL_ASCII' TEMPLATE template0 OWNER aish")
    try:
        error = await refusal(database.url.removesuffix("/aish") + "/old")
        assert "is encoded in SQL_ASCII" in error.message
    finally:
        await database.rule("DROP DATABASE old WITH (FORCE)")


async def test_a_store_of_a_newer_aish_is_refused_and_left_alone(database: Database, store: PostgresStore) -> None:
    await begin(store)
    await store.aclose()
    await database.rows("UPDATE migrations SET number = 9999")
    error = await refusal(database.url)
    assert error.message.endswith("was made by a newer aish")
    assert error.hint == "upgrade, or point store.url elsewhere"
    assert await database.rows("SELECT number FROM migrations") == [(9999,)]
    assert len(await database.rows("SELECT 1 FROM turns")) == 1


async def test_many_replicas_that_start_together_make_the_tables_once(database: Database) -> None:
    stores = [PostgresStore(database.url) for _ in range(6)]
    await asyncio.gather(*(store.create_session(SessionRecord(f"s{n}", 1, 1)) for n, store in enumerate(stores)))
    assert len(await stores[0].list_sessions(limit=9)) == 6
    await asyncio.gather(*(store.aclose() for store in stores))
    assert await database.rows("SELECT number FROM migrations") == [(len(migrations()),)]


SCHEMAS = "SELECT nspname FROM pg_namespace WHERE nspname = 'aish'"


async def test_a_failing_migration_leaves_the_database_as_it_was(database: Database, raw: Any) -> None:
    with pytest.raises(asyncpg.PostgresError):
        await migrate(
            SqlConnection(raw), database.url, ["CREATE TABLE a (x int);", "CREATE TABLE b (x int); nonsense;"]
        )
    assert await database.rows(SCHEMAS) == []
    await migrate(SqlConnection(raw), database.url, ["CREATE TABLE a (x int);"])
    await migrate(SqlConnection(raw), database.url, ["CREATE TABLE a (x int);", "ALTER TABLE a ADD COLUMN y int;"])
    await raw.execute("INSERT INTO a VALUES (1, 2)")
    assert await database.rows("SELECT number FROM migrations") == [(2,)]


async def test_facts_written_when_an_underscore_was_a_letter_are_found_as_they_were(
    database: Database, store: PostgresStore
) -> None:
    """An older aish may still write such ones beside this one."""
    await store.put_facts([Fact("a", "run_all_tests", 1, 1), Fact("b", "run_all_tests", 2, 2)])
    await database.rows("UPDATE facts SET words = array_to_tsvector(ARRAY['run_all_tests']) WHERE id = 'a'")
    assert [found.id for found in await store.search_facts("Run_All_Tests", limit=9)] == ["b", "a"]
    assert [found.id for found in await store.search_facts("all", limit=9)] == ["b"]


async def test_a_migration_that_is_killed_half_way_leaves_nothing_and_is_made_by_the_next(database: Database) -> None:
    dying = await asyncpg.connect(database.url, server_settings={"search_path": "aish"})
    scripts = [*migrations(), "SELECT pg_sleep(600)"]
    half = asyncio.ensure_future(migrate(SqlConnection(dying), database.url, scripts))
    sleeping = "SELECT pid FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(600)'"

    async def is_half_way() -> bool:
        return bool(await database.rows(sleeping))

    await eventually(is_half_way, 20)
    other = PostgresStore(database.url)
    waiting = asyncio.ensure_future(other.create_session(SessionRecord("sess_1", 1, 1)))
    await database.rows(f"SELECT pg_terminate_backend(pid) FROM ({sleeping}) AS found")
    with pytest.raises(LOST):
        await half
    async with asyncio.timeout(20):
        await waiting
    assert await database.rows("SELECT number FROM migrations") == [(len(migrations()),)]
    await other.aclose()


async def test_text_that_is_not_unicode_fails_its_own_write_only(store: PostgresStore) -> None:
    results = await asyncio.gather(
        store.create_session(SessionRecord("sess_2", 1, 1, title="\udc80")),
        store.create_session(SessionRecord("sess_3", 1, 1)),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [StoreError, type(None)]
    assert [found.id for found in await store.list_sessions(limit=9)] == ["sess_3"]


async def test_what_the_database_refuses_fails_alone_and_its_neighbours_are_written(store: PostgresStore) -> None:
    await begin(store)
    store.append_events("turn_1", 1, 1, line(1))
    store.append_events("\udc80", 1, 1, line(1))
    results = await asyncio.gather(
        store.put(Document("kind", "a", b"{}")),
        store.put(Document("kind", "x" * 10_000 + str(range(3_000)) * 100, b"{}", expires_ms=2**70)),
        store.put(Document("kind", "b", b"{}")),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [type(None), StoreError, type(None)]
    assert {found.id for found in await store.list_documents("kind")} == {"a", "b"}
    with pytest.raises(StoreError):
        await store.flush()
    assert await store.read_events("turn_1") == line(1)


@pytest.mark.parametrize(
    "text", ["", "plain", "nul \0 nul", "\x1f", "\x1f\x1d", "\x1f\x1e\0\x1f", "\0\x1e", "\x1d\x1f\0"]
)
def test_text_comes_back_as_it_was_and_is_packed_without_nul(text: str) -> None:
    assert "\0" not in escape(text)
    assert unescape(escape(text)) == text


async def test_events_past_what_may_wait_are_given_up_and_the_next_flush_tells(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "MAX_QUEUED_BYTES", 1_000)
    store = PostgresStore(database.url)
    await begin(store)
    for number in range(1, 11):
        store.append_events("turn_1", number, number, b"x" * 199 + b"\n")
    with pytest.raises(StoreError, match="events were lost"):
        await store.flush()
    assert (await store.read_events("turn_1")).count(b"\n") == 5
    await store.aclose()


async def test_replicas_that_wait_for_each_other_both_get_their_turn(store: PostgresStore, raw: Any) -> None:
    """The database breaks a deadlock by failing one of the two; the store tries again."""
    await begin(store, "turn_1", "turn_2")
    async with asyncio.timeout(30):
        await raw.execute("BEGIN; UPDATE sessions SET title = 'held' WHERE id = 'of_turn_2'")
        both = asyncio.gather(finish(store, "turn_1", 7), finish(store, "turn_2", 8))
        await eventually(lambda: _waits_for_a_lock(raw), 20)
        try:
            await raw.execute("UPDATE sessions SET title = 'held' WHERE id = 'of_turn_1'; COMMIT")
        except asyncpg.DeadlockDetectedError:
            await raw.execute("ROLLBACK")
        await both
    assert [found.updated_ms for found in await store.list_sessions(limit=9)] == [8, 7]


async def test_a_replica_that_froze_with_a_lock_does_not_stop_the_others_for_long(
    database: Database, store: PostgresStore
) -> None:
    await begin(store)
    frozen = await open_database(database.url, connect_s=5, statement_s=5)
    [lock] = lock_numbers([WriteOperation(None, durable=True, keys=(BUDGET,))])
    await frozen.execute(f"BEGIN; SELECT pg_advisory_xact_lock({lock})")
    wanted = Reservation("use_1", 1, 2, "", "m", Category.MAIN, 1.0)
    async with asyncio.timeout(30):
        assert await store.reserve(wanted, day_start_ms=0, day_cap=2.0, session_cap=None) is None
    with pytest.raises(LOST) as refused:
        await frozen.execute("COMMIT")
    assert is_lost(refused.value)
    frozen.terminate()


async def _waits_for_a_lock(raw: Any) -> bool:
    return bool(await raw.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"))


@pytest.mark.parametrize("late", [True, False])
async def test_a_row_of_the_feed_never_appears_below_one_that_was_read(
    store: PostgresStore,
    raw: Any,
    late: bool,  # noqa: FBT001
) -> None:
    """Another replica began before us and commits after us; `late`: it writes only after we have committed."""
    await begin(store, "turn_1", "turn_2")
    slow = raw.transaction()
    await slow.start()
    await raw.execute("SELECT pg_current_xact_id()")
    insert = (
        f"INSERT INTO events (cursor, turn, first_seq, last_seq, body) SELECT {NEXT_CURSOR} + 1, 'turn_1', $1, $1, $2"
    )
    if not late:
        await raw.execute(insert, 1, line(1))
    store.append_events("turn_2", 1, 1, line(2))
    await store.flush()
    assert list(await store.read_feed(0, 10)) == []  # the older transaction may still commit
    assert not await store.wait_feed(0, 0.0)
    if late:
        await raw.execute(insert, 1, line(1))
    await slow.commit()
    assert [row.lines for row in await store.read_feed(0, 10)] == [line(1), line(2)]


async def test_leases_are_told_by_the_clock_of_the_database(
    store: PostgresStore, raw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 0)
    made = await store.create_run(RunRecord("run_1", RunKind.PLAN, "s", "g", RunState.RUNNING, owner="me"), lease_s=60)
    now_ms = await raw.fetchval("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")
    assert now_ms < made.lease_ms <= now_ms + 60_000


async def test_two_replicas_raise_a_swap_once(database: Database, store: PostgresStore) -> None:
    other = PostgresStore(database.url)
    await store.put(Document("kind", "a", b"0"))
    swaps = [(store, other)[n % 2].swap(Document("kind", "a", b"%d" % n), old=b"0") for n in range(1, 21)]
    assert sum(await asyncio.gather(*swaps)) == 1
    news = [(store, other)[n % 2].put_new(Document("kind", "b", b"%d" % n)) for n in range(20)]
    assert sum(await asyncio.gather(*news)) == 1
    await other.aclose()


async def test_an_answer_is_found_by_what_was_said(store: PostgresStore) -> None:
    await begin(store)
    said = (AssistantMessage("the heron stands in the Straße"),)
    await store.finish_turn("turn_1", end=TurnEnd.ANSWERED, finished_ms=2, messages=said, usage=Usage())
    assert [found.id for found in await store.list_sessions(limit=9, search="HERON strasse")] == ["of_turn_1"]


async def test_a_statement_that_takes_too_long_is_told_as_such_and_not_tried_again(
    database: Database, raw: Any
) -> None:
    store = PostgresStore(database.url, statement_s=0.3)
    await store.find_session("sess_1")
    await raw.execute("BEGIN; LOCK TABLE sessions IN ACCESS EXCLUSIVE MODE")
    with pytest.raises(StoreError, match="did not answer in time"):
        await store.find_session("sess_1")
    await raw.execute("ROLLBACK")
    assert await store.find_session("sess_1") is None
    await store.aclose()


async def test_closing_while_the_database_is_away_ends_within_its_patience_and_tells(database: Database) -> None:
    store = PostgresStore(database.url, patience_s=2.0)
    await begin(store)
    database.stop()
    try:
        store.append_events("turn_1", 1, 1, line(1))
        async with asyncio.timeout(20):
            with pytest.raises(StoreError, match="cannot be reached"):
                await store.aclose()
    finally:
        database.start()
    with pytest.raises(StoreError, match="the store is closed"):
        await store.flush()
