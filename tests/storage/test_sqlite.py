"""What is particular to the SQLite adapter: the file, its faults, its threads and its rows."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from aish.errors import AishError, StoreError
from aish.storage.sqlite.database import APPLICATION_ID, migrate, migrations, open_writer, translate
from aish.storage.sqlite.store import SqliteStore
from aish.storage.sqlite.writer import QUEUED_BYTES, SqliteWriter
from aish.types.events import TurnEnd
from aish.types.messages import user
from aish.types.records import SessionRecord, TurnRecord
from aish.types.usage import Category, Usage, UsageRecord


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "aish.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    opened = SqliteStore(path, busy_timeout_s=0.05)
    yield opened
    await opened.aclose()


async def begin(store: SqliteStore) -> None:
    await store.create_session(SessionRecord("sess_1", 1, 1))
    await store.start_turn(TurnRecord("turn_1", "sess_1", 0, "m", 1, (user("hello"),)))


def alone(id: str, *, model: str = "m") -> TurnRecord:
    """A turn of no session."""
    return TurnRecord(id, "", 0, model, 1, (user("hello"),), end=TurnEnd.ANSWERED, finished_ms=2)


def line(number: int) -> bytes:
    return b'{"seq":%d}\n' % number


def query(path: Path, sql: str) -> Sequence[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(sql).fetchall()


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    path.write_bytes(content)


async def test_nothing_is_touched_before_the_first_use(path: Path) -> None:
    before = threading.active_count()
    store = SqliteStore(path)
    assert not path.parent.exists()
    assert threading.active_count() == before
    await store.aclose()
    assert not path.parent.exists()


async def test_file_and_directory_are_private(store: SqliteStore, path: Path) -> None:
    await begin(store)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


async def test_closing_ends_both_threads_and_leaves_one_whole_file(store: SqliteStore, path: Path) -> None:
    before = threading.active_count()
    await begin(store)
    await store.find_turn("turn_1")
    store.append_events("turn_1", 1, 1, line(1))
    await store.aclose()
    names = {thread.name for thread in threading.enumerate()}
    assert not any(name.startswith("aish-store") for name in names)
    assert threading.active_count() == before
    assert [file.name for file in path.parent.iterdir()] == ["aish.db"]
    assert query(path, "SELECT body FROM events") == [(line(1),)]


async def test_events_appended_together_become_one_row(store: SqliteStore, path: Path) -> None:
    await begin(store)
    for number in range(1, 101):
        store.append_events("turn_1", number, number, line(number))
    await store.flush()
    rows = query(path, "SELECT first_seq, last_seq FROM events ORDER BY first_seq")
    assert rows[-1][1] == 100
    assert len(rows) <= 5


async def test_whoever_makes_more_than_the_disk_takes_waits_for_it(store: SqliteStore, path: Path) -> None:
    await begin(store)
    piece = b'{"text":"%s"}\n' % (b"x" * 1024 * 1024)
    for number in range(1, 13):
        store.append_events("turn_1", number, number, piece)
    await store.record_turn(alone("turn_2"), 1, line(1))
    assert query(path, "SELECT max(last_seq) FROM events WHERE turn = 'turn_1'") == [(12,)]


async def test_a_gap_in_the_numbers_starts_a_new_row(store: SqliteStore, path: Path) -> None:
    await begin(store)
    store.append_events("turn_1", 1, 1, line(1))
    store.append_events("turn_1", 5, 5, line(5))
    await store.flush()
    assert query(path, "SELECT first_seq, last_seq FROM events ORDER BY first_seq") == [(1, 1), (5, 5)]
    assert await store.read_events("turn_1", after_seq=3) == line(5)


async def test_events_reach_the_file_without_being_flushed(store: SqliteStore, path: Path) -> None:
    await begin(store)
    store.append_events("turn_1", 1, 1, line(1))
    async with asyncio.timeout(10):
        while not query(path, "SELECT 1 FROM events"):  # noqa: ASYNC110 - a file has no event to wait for
            await asyncio.sleep(0.01)


async def test_a_flush_after_the_events_were_written_still_syncs(store: SqliteStore, path: Path) -> None:
    await begin(store)
    store.append_events("turn_1", 1, 1, line(1))
    await store.read_events("turn_1")
    await store.flush()
    assert query(path, "SELECT count FROM barrier") == [(1,)]
    await store.flush()
    assert query(path, "SELECT count FROM barrier") == [(1,)]


async def test_a_store_is_found_again(path: Path) -> None:
    first = SqliteStore(path)
    await begin(first)
    await first.finish_turn("turn_1", end=TurnEnd.ANSWERED, finished_ms=2, messages=(user("x"),), usage=Usage())
    await first.aclose()
    second = SqliteStore(path)
    found = await second.find_turn("turn_1")
    await second.aclose()
    assert found is not None
    assert found.messages == (user("x"),)


async def refusal(path: Path) -> StoreError:
    store = SqliteStore(path, busy_timeout_s=0.05)
    with pytest.raises(StoreError) as write:
        await store.create_session(SessionRecord("sess_1", 1, 1))
    with pytest.raises(StoreError) as read:
        await store.find_session("sess_1")
    assert read.value.message == write.value.message
    await store.aclose()
    assert write.value.hint
    return write.value


async def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("these are my notes\n" * 100)
    error = await refusal(path)
    assert error.message == f"the store {path} is not a database"
    assert path.read_text() == "these are my notes\n" * 100


async def test_a_directory_is_refused(tmp_path: Path) -> None:
    assert "cannot be opened" in (await refusal(tmp_path)).message


async def test_a_file_in_the_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    assert "cannot be opened" in (await refusal(tmp_path / "data" / "aish.db")).message


async def test_the_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE bookmarks (url)")
        db.execute("PRAGMA user_version = 79")
    content = path.read_bytes()
    error = await refusal(path)
    assert error.message == f"{path} is a database of another program"
    assert path.read_bytes() == content


async def test_a_store_of_a_newer_aish_is_refused(store: SqliteStore, path: Path) -> None:
    await begin(store)
    await store.aclose()
    query(path, "PRAGMA user_version = 9999")
    error = await refusal(path)
    assert error.message == f"the store {path} was made by a newer aish"
    assert error.hint == "upgrade, or point store.path elsewhere"


async def test_a_damaged_store_is_told_as_such(store: SqliteStore, path: Path) -> None:
    await begin(store)
    await store.aclose()
    damage(path)
    damaged = SqliteStore(path)
    with pytest.raises(StoreError, match="is damaged"):
        await damaged.find_session("sess_1")
    await damaged.aclose()


async def test_a_locked_store_fails_the_write_and_then_recovers(store: SqliteStore, path: Path) -> None:
    await begin(store)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        store.append_events("turn_1", 1, 1, line(1))
        with pytest.raises(StoreError, match="is locked by another process"):
            await store.flush()
        with pytest.raises(StoreError, match="is locked by another process"):
            await store.create_session(SessionRecord("sess_2", 1, 1))
        assert await store.find_session("sess_1") is not None
        other.execute("ROLLBACK")
    await store.create_session(SessionRecord("sess_2", 1, 1))
    assert await store.read_events("turn_1") == line(1)


async def test_closing_tells_of_events_that_could_not_be_written(path: Path) -> None:
    store = SqliteStore(path, busy_timeout_s=0.05)
    await begin(store)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        store.append_events("turn_1", 1, 1, line(1))
        with pytest.raises(StoreError, match="is locked by another process"):
            await store.aclose()
    assert not any(thread.name.startswith("aish-store") for thread in threading.enumerate())


async def test_text_that_is_not_unicode_fails_its_own_write_only(store: SqliteStore) -> None:
    await begin(store)
    results = await asyncio.gather(
        store.create_session(SessionRecord("sess_2", 1, 1, title="\udc80")),
        store.create_session(SessionRecord("sess_3", 1, 1)),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [StoreError, type(None)]


async def test_a_locked_store_loses_nothing_that_nobody_waits_for(store: SqliteStore, path: Path) -> None:
    await begin(store)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        await store.record_turn(alone("turn_2"), 1, line(1))
        store.record_usage(UsageRecord("use_1", 1, "", "m", Category.MAIN, Usage(prompt_tokens=7)))
        store.begin_turn(alone("turn_3"))
        store.append_events("turn_3", 1, 1, line(1))
        with pytest.raises(StoreError, match="is locked by another process"):
            await store.flush()
        other.execute("ROLLBACK")
    await store.flush()
    assert [await store.read_events(turn) for turn in ("turn_2", "turn_3")] == [line(1)] * 2
    assert (await store.sum_spending()).prompt_tokens == 7


async def test_old_usage_takes_a_row_for_each_model_and_quarter_of_an_hour(store: SqliteStore, path: Path) -> None:
    for number in range(30):
        store.record_usage(UsageRecord(f"use_{number}", number * 60_000, "", "m", Category.MAIN, Usage(7)))
    while await store.sum_up_usage(before_ms=900_000):
        pass
    with closing(sqlite3.connect(path)) as other:
        rows = other.execute("SELECT calls, prompt_tokens FROM usage ORDER BY at_ms").fetchall()
    assert rows == [(15, 105)] + [(0, 7)] * 15


async def test_a_record_that_cannot_be_written_is_told_by_the_flush_after_it_and_alone_lost(store: SqliteStore) -> None:
    await begin(store)
    for turn in (alone("turn_2"), alone("turn_3", model="\udc80"), alone("turn_4")):
        await store.record_turn(turn, 1, line(1))
    with pytest.raises(StoreError, match="refused an operation"):
        await store.flush()
    await store.flush()
    found = [await store.find_turn(turn) for turn in ("turn_2", "turn_3", "turn_4")]
    assert [turn is not None for turn in found] == [True, False, True]


async def test_a_turn_is_not_lost_with_whoever_waits_for_the_disk(store: SqliteStore) -> None:
    await begin(store)
    large = line(1) + b'{"seq":2,"text":"' + b"x" * QUEUED_BYTES + b'"}\n'
    recording = asyncio.create_task(store.record_turn(alone("turn_2"), 2, large))
    await asyncio.sleep(0)
    recording.cancel()
    await asyncio.wait({recording}, timeout=10)
    assert recording.cancelled()
    await store.flush()
    assert await store.find_turn("turn_2") is not None
    assert await store.read_events("turn_2") == large


@pytest.mark.parametrize("most_variables", [999, 32_766], ids=["before SQLite 3.32", "since"])
@pytest.mark.parametrize("count", [1, 4, 5, 32, 33, 255, 256, 257, 513])
async def test_as_many_rows_are_written_as_there_are_records(
    store: SqliteStore, path: Path, count: int, most_variables: int
) -> None:
    def limit(db: sqlite3.Connection) -> None:
        db.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, most_variables)

    await store._write(limit)
    for number in range(count):
        await store.record_turn(alone(f"turn_{number:03}"), 1, line(number))
        cost = None if number % 2 else 0.0
        store.record_usage(UsageRecord(f"use_{number}", number, "", "m", Category.MAIN, Usage(7, cost=cost)))
    await store.flush()
    turns = query(path, "SELECT id, number FROM turns ORDER BY number")
    assert turns == [(f"turn_{number:03}", number + 1) for number in range(count)]
    assert query(path, "SELECT turn, body FROM events ORDER BY rowid") == [
        (f"turn_{number:03}", line(number)) for number in range(count)
    ]
    assert query(path, "SELECT count(*), count(cost), sum(prompt_tokens), min(id) > '' FROM usage") == [
        (count, (count + 1) // 2, 7 * count, 1)
    ]
    assert query(path, "SELECT DISTINCT typeof(cost) FROM usage ORDER BY 1") == (
        [("null",), ("real",)] if count > 1 else [("real",)]
    )


async def test_a_turn_recorded_twice_does_not_take_the_place_of_a_later_one(store: SqliteStore) -> None:
    for group in (["turn_1"], ["turn_1", "turn_2"], ["turn_3", "turn_4"]):
        for turn in group:
            await store.record_turn(alone(turn), 1, line(1))
        await store.flush()
    assert all([await store.find_turn(f"turn_{number}") for number in range(1, 5)])


async def test_a_turn_of_another_session_under_way_is_not_blocked_by_a_reader(store: SqliteStore, path: Path) -> None:
    await begin(store)
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM sessions").fetchone() == (1,)
        await store.create_session(SessionRecord("sess_2", 1, 1))
        assert reader.execute("SELECT count(*) FROM sessions").fetchone() == (1,)


async def test_an_operation_that_fails_halfway_leaves_nothing_of_itself(store: SqliteStore, path: Path) -> None:
    await begin(store)
    writer = SqliteWriter(path, partial(open_writer, path, busy_timeout_s=1), lambda: None)

    def half(db: sqlite3.Connection) -> None:
        db.execute("DELETE FROM turns")
        raise ValueError("halfway")

    failing, fine = writer.submit(half), writer.submit(lambda db: db.execute("DELETE FROM events").rowcount)
    with pytest.raises(StoreError, match="halfway"):
        await asyncio.wrap_future(failing)
    assert await asyncio.wrap_future(fine) == 0
    writer.close()
    writer.join()
    assert await store.find_turn("turn_1") is not None


def fault(action: str) -> sqlite3.Error:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.execute("PRAGMA max_page_count = 2")
        with pytest.raises(sqlite3.Error) as caught:
            db.execute(action)
        return caught.value


def test_a_full_disk_is_told_as_such() -> None:
    error = translate(fault("CREATE TABLE t AS SELECT zeroblob(100000)"), Path("/x.db"))
    assert error.message == "the store /x.db cannot grow: the disk is full"
    assert error.hint == "free some space, or point store.path elsewhere, or keep nothing (AISH_STORE__ENABLED=false)"


def test_an_error_of_ours_passes_unchanged() -> None:
    error = AishError("as it was")
    assert translate(error, Path("/x.db")) is error


def test_what_nobody_foresaw_keeps_its_text() -> None:
    assert "no such table: t" in translate(fault("SELECT * FROM t"), Path("/x.db")).message


def test_migrations_apply_in_order_and_only_once() -> None:
    scripts = ["CREATE TABLE a (x);\nINSERT INTO a VALUES (';');", "-- second\nALTER TABLE a ADD COLUMN y;"]
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        migrate(db, Path("x"), scripts[:1])
        migrate(db, Path("x"), scripts)
        migrate(db, Path("x"), scripts)
        assert db.execute("SELECT x, y FROM a").fetchall() == [(";", None)]
        assert db.execute("PRAGMA user_version").fetchone() == (2,)
        assert db.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)


def test_a_failing_migration_leaves_the_database_as_it_was() -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        with pytest.raises(sqlite3.OperationalError):
            migrate(db, Path("x"), ["CREATE TABLE a (x);", "CREATE TABLE b (x);\nnonsense;"])
        assert db.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
        assert db.execute("PRAGMA user_version").fetchone() == (0,)


def test_the_packaged_migrations_make_the_tables() -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        migrate(db, Path("x"), migrations())
        tables = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert {"sessions", "turns", "events"} <= tables


@pytest.mark.skipif(sys.platform != "linux", reason="looks at open files as Linux lists them")
def test_what_may_be_taken_back_is_not_copied_to_files_elsewhere(path: Path) -> None:
    connection = open_writer(path, busy_timeout_s=1)
    fill = "INSERT INTO events (turn, first_seq, last_seq, body) VALUES ('turn', ?, ?, zeroblob(3000))"
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(fill, [(number, number) for number in range(400)])
        connection.execute("SAVEPOINT operation")
        connection.execute("UPDATE events SET body = zeroblob(2999)")
        fds = Path("/proc/self/fd")
        opened = [str(path.readlink()) for path in fds.iterdir() if path.is_symlink()]
        assert any("aish.db" in name for name in opened)
        assert [name for name in opened if "etilqs" in name] == []
    finally:
        connection.execute("ROLLBACK")
        connection.close()
