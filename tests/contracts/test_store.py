"""The Store port's contract: every adapter passes this one suite."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from aish.errors import SessionNotFound, StoreError
from aish.ports import Store
from aish.storage.memory import MemoryStore
from aish.storage.postgres.store import PostgresStore
from aish.storage.sqlite.store import SqliteStore
from aish.types.events import TurnEnd
from aish.types.messages import AssistantMessage, ImagePart, Message, TextPart, ToolCall, ToolMessage, UserMessage, user
from aish.types.records import Document, Fact, SessionRecord, TurnRecord
from aish.types.usage import Category, Reservation, SpendingTotal, Usage, UsageRecord


@pytest.fixture(params=["sqlite", "memory", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    opened = opened_store(request, tmp_path)
    yield opened
    await opened.aclose()


@pytest.fixture(params=["sqlite", "postgres"])
async def pair(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Store, Store]]:
    """Two instances over the same data, as two processes would have them."""
    first = opened_store(request, tmp_path)
    second: Store = SqliteStore(first.path) if isinstance(first, SqliteStore) else PostgresStore(database_url(request))
    yield first, second
    await first.aclose()
    await second.aclose()


def opened_store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    match request.param:
        case "sqlite":
            return SqliteStore(tmp_path / "data" / "aish.db")
        case "postgres":
            return PostgresStore(database_url(request))
        case _:
            return MemoryStore()


def database_url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue("database").url)


def session(name: str = "sess_1", at_ms: int = 1_000, title: str = "") -> SessionRecord:
    return SessionRecord(name, created_ms=at_ms, updated_ms=at_ms, title=title)


def turn(
    name: str = "turn_1", of: str = "sess_1", text: str = "hello", at_ms: int = 2_000, model: str = "m"
) -> TurnRecord:
    return TurnRecord(name, of, number=99, model=model, started_ms=at_ms, input=(user(text),), owner="host/1/2")


def lines(first: int, last: int, text: str = "x") -> bytes:
    return b"".join(b'{"seq":%d,"text":"%s"}\n' % (number, text.encode()) for number in range(first, last + 1))


async def finish(store: Store, name: str = "turn_1", *messages: Message, at_ms: int = 3_000) -> None:
    await store.finish_turn(name, end=TurnEnd.ANSWERED, finished_ms=at_ms, messages=messages, usage=Usage())


async def begin(store: Store, name: str = "turn_1", of: str = "sess_1", text: str = "hello") -> None:
    await store.create_session(session(of))
    await store.start_turn(turn(name, of, text))


async def test_a_created_session_is_found_as_it_was_given(store: Store) -> None:
    record = SessionRecord("sess_1", created_ms=5, updated_ms=7, title="a title", model="m")
    await store.create_session(record)
    assert await store.find_session("sess_1") == record


async def test_creating_a_session_twice_is_an_error_and_keeps_the_first(store: Store) -> None:
    await store.create_session(session(title="first"))
    with pytest.raises(StoreError, match="already a session sess_1"):
        await store.create_session(session(title="second"))
    found = await store.find_session("sess_1")
    assert found is not None
    assert found.title == "first"


@pytest.mark.parametrize("name", ["sess_none", "", "'; DROP TABLE sessions; --", "\0", "\udc80", "é" * 10_000])
async def test_an_unknown_id_finds_nothing(store: Store, name: str) -> None:
    await begin(store)
    assert await store.find_session(name) is None
    assert await store.find_turn(name) is None
    assert list(await store.list_turns(name)) == []
    assert await store.read_events(name) == b""
    assert await store.delete_session(name) is False


async def test_turns_are_numbered_from_one_in_the_order_they_start(store: Store) -> None:
    await store.create_session(session())
    await store.create_session(session("sess_2"))
    assert [await store.start_turn(turn(f"turn_{n}")) for n in range(3)] == [1, 2, 3]
    assert await store.start_turn(turn("turn_other", "sess_2")) == 1
    assert [(record.id, record.number) for record in await store.list_turns("sess_1")] == [
        ("turn_0", 1),
        ("turn_1", 2),
        ("turn_2", 3),
    ]


async def test_a_turn_of_an_unknown_session_cannot_start(store: Store) -> None:
    with pytest.raises(SessionNotFound, match="there is no session sess_1"):
        await store.start_turn(turn())
    assert await store.find_turn("turn_1") is None


async def test_a_turn_cannot_start_twice(store: Store) -> None:
    await begin(store)
    with pytest.raises(StoreError, match="already a turn turn_1"):
        await store.start_turn(turn())
    assert len(await store.list_turns("sess_1")) == 1


async def test_a_running_turn_has_no_end(store: Store) -> None:
    await begin(store)
    assert await store.find_turn("turn_1") == TurnRecord(
        "turn_1", "sess_1", 1, "m", 2_000, (user("hello"),), owner="host/1/2"
    )


async def test_a_finished_turn_keeps_its_messages_and_usage_exactly(store: Store) -> None:
    await begin(store)
    messages: tuple[Message, ...] = (
        UserMessage((TextPart("look"), ImagePart(data="aGk="))),
        AssistantMessage("I see", (ToolCall("call_1", "files__read", '{"path": "a'),), reasoning="hm"),
        ToolMessage("call_1", "files__read", (TextPart("nul \0 and snowman ☃ and astral 🎈"),)),
    )
    usage = Usage(prompt_tokens=3, completion_tokens=4, cost=0.25, estimated=True)
    await store.finish_turn("turn_1", end=TurnEnd.CANCELLED, finished_ms=9, messages=messages, usage=usage)
    found = await store.find_turn("turn_1")
    assert found is not None
    assert (found.end, found.finished_ms, found.messages, found.usage) == (TurnEnd.CANCELLED, 9, messages, usage)
    assert list(await store.list_turns("sess_1")) == [found]


@pytest.mark.parametrize("end", list(TurnEnd))
async def test_every_reason_to_end_is_kept(store: Store, end: TurnEnd) -> None:
    await begin(store)
    await store.finish_turn("turn_1", end=end, finished_ms=1, messages=(), usage=Usage())
    found = await store.find_turn("turn_1")
    assert found is not None
    assert found.end is end


async def test_finishing_an_unknown_turn_is_an_error(store: Store) -> None:
    with pytest.raises(SessionNotFound, match="there is no turn turn_1"):
        await finish(store)


async def test_a_session_takes_title_model_count_and_time_from_its_turns(store: Store) -> None:
    await begin(store, text="\n  how   do I\texit vim?\nplease")
    await finish(store, at_ms=3_000)
    await store.start_turn(turn("turn_2", text="another", at_ms=4_000, model="bigger"))
    await finish(store, "turn_2", at_ms=5_000)
    assert await store.find_session("sess_1") == SessionRecord(
        "sess_1", created_ms=1_000, updated_ms=5_000, title="how do I exit vim?", model="bigger", turns=2
    )


async def test_a_title_is_cut_at_eighty_characters(store: Store) -> None:
    await begin(store, text="☃" * 200)
    found = await store.find_session("sess_1")
    assert found is not None
    assert found.title == "☃" * 80


async def test_a_title_that_was_given_stays(store: Store) -> None:
    await store.create_session(session(title="given"))
    await store.start_turn(turn())
    found = await store.find_session("sess_1")
    assert found is not None
    assert found.title == "given"


async def test_sessions_are_listed_newest_first_up_to_the_limit(store: Store) -> None:
    for name, at_ms in (("sess_a", 10), ("sess_b", 30), ("sess_c", 20), ("sess_d", 20)):
        await store.create_session(session(name, at_ms))

    async def names(limit: int) -> list[str]:
        return [record.id for record in await store.list_sessions(limit=limit)]

    assert await names(10) == ["sess_b", "sess_d", "sess_c", "sess_a"]
    assert await names(2) == ["sess_b", "sess_d"]
    assert await names(0) == []
    assert await names(-1) == []


async def test_a_finished_turn_moves_its_session_to_the_front(store: Store) -> None:
    await begin(store)
    await store.create_session(session("sess_2", at_ms=2_500))
    await finish(store, at_ms=3_000)
    assert [record.id for record in await store.list_sessions(limit=9)] == ["sess_1", "sess_2"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", True),
        ("   ", True),
        ("vim", True),
        ("VIM exit", True),
        ("escape colon", True),
        ("vim colon", True),
        ("straße", True),
        ("STRASSE", True),
        ("日本", True),
        ("100%", True),
        ("vim emacs", False),
        ("%", True),
        ("_", False),
        ('"foo" OR (', False),
        ("' OR 1=1 --", False),
        ("NEAR(", False),
        ("*", False),
        ("\0", True),
        ("\udc80", False),
        ("z" * 100_000, False),
        ("vim " * 10_000, True),
    ],
)
async def test_search_finds_sessions_that_hold_every_word(store: Store, query: str, found: bool) -> None:  # noqa: FBT001
    await begin(store, text="how do I exit vim")
    await finish(
        store, "turn_1", user("how do I exit vim"), AssistantMessage("Press escape, colon, q. 100% Straße 日本語")
    )
    await store.create_session(session("sess_2", title="something else"))
    assert ("sess_1" in [record.id for record in await store.list_sessions(limit=9, search=query)]) is found


async def test_search_finds_titles_and_the_questions_of_unfinished_turns(store: Store) -> None:
    await store.create_session(session("sess_1", title="Holiday plans"))
    await begin(store, "turn_2", "sess_2", "weather\nin Lisbon")

    async def names(search: str) -> list[str]:
        return [record.id for record in await store.list_sessions(limit=9, search=search)]

    assert await names("holiday") == ["sess_1"]
    assert await names("lisbon") == ["sess_2"]


async def test_sessions_are_listed_on_from_where_a_list_ended_and_by_how_their_ids_begin(store: Store) -> None:
    for number, name in enumerate(["a/1", "b/1", "a/2", "a/3", "b/2", "a_4"]):
        await store.create_session(session(name, at_ms=1_000 + number // 2))
    pages: list[SessionRecord] = []
    before: tuple[int, str] | None = None
    while page := await store.list_sessions(limit=2, before=before):
        pages += page
        before = (page[-1].updated_ms, page[-1].id)
    assert pages == list(await store.list_sessions(limit=9))
    assert len(pages) == 6
    assert [record.id for record in await store.list_sessions(limit=9, under="a/")] == ["a/3", "a/2", "a/1"]
    before = (1_001, "a/3")
    assert [record.id for record in await store.list_sessions(limit=9, under="a/", before=before)] == ["a/2", "a/1"]


async def test_sessions_of_agents_are_listed_only_where_they_are_asked_for(store: Store) -> None:
    await begin(store)
    for name, parent in (("sess_2", "turn_1"), ("sess_3", "sess_1"), ("sess_4", "turn_9")):
        await store.create_session(msgspec.structs.replace(session(name, at_ms=2_000), parent=parent))

    async def names(parent: str | None) -> list[str]:
        return [record.id for record in await store.list_sessions(limit=9, parent=parent)]

    assert [record.id for record in await store.list_sessions(limit=9)] == ["sess_1"]
    assert await names("turn_1") == ["sess_2"]
    assert await names(None) == ["sess_4", "sess_3", "sess_2", "sess_1"]
    found = await store.find_session("sess_3")
    assert found is not None and found.parent == "sess_1"


async def test_deleting_a_session_takes_the_sessions_of_its_agents_along(store: Store) -> None:
    await begin(store, "turn_1", "sess_1")
    await store.create_session(SessionRecord("sess_2", 1, 1, parent="turn_1"))
    await store.start_turn(TurnRecord("turn_2", "sess_2", 0, "m", 1, (user("x"),)))
    await store.create_session(SessionRecord("sess_3", 1, 1, parent="turn_2"))
    await store.create_session(SessionRecord("sess_4", 1, 1, parent="sess_1"))
    await store.create_session(SessionRecord("sess_5", 1, 1, parent="turn_9"))
    assert await store.delete_session("sess_1") is True
    assert [record.id for record in await store.list_sessions(limit=9, parent=None)] == ["sess_5"]
    assert await store.find_turn("turn_2") is None


async def test_events_come_back_byte_for_byte(store: Store) -> None:
    await begin(store)
    parts = [lines(1, 1), lines(2, 5, "\\u0000 ☃ é"), '{"odd":  "spacing\u2028"}\r\n'.encode(), lines(7, 9)]
    for (first, last), part in zip(((1, 1), (2, 5), (6, 6), (7, 9)), parts, strict=True):
        store.append_events("turn_1", first, last, part)
    await store.flush()
    assert await store.read_events("turn_1") == b"".join(parts)


@pytest.mark.parametrize("after_seq", range(12))
async def test_events_can_be_read_from_any_point(store: Store, after_seq: int) -> None:
    await begin(store)
    for first, last in ((1, 3), (4, 4), (5, 8)):
        store.append_events("turn_1", first, last, lines(first, last))
    await store.flush()
    store.append_events("turn_1", 9, 10, lines(9, 10))
    await store.flush()
    assert await store.read_events("turn_1", after_seq=after_seq) == lines(after_seq + 1, 10)


async def test_events_appended_just_before_are_read(store: Store) -> None:
    await begin(store)
    store.append_events("turn_1", 1, 2, lines(1, 2))
    assert await store.read_events("turn_1") == lines(1, 2)


async def test_events_of_turns_that_run_at_once_do_not_mix(store: Store) -> None:
    await begin(store)
    await store.start_turn(turn("turn_2"))
    for number in range(1, 200):
        store.append_events("turn_1", number, number, lines(number, number, "one"))
        store.append_events("turn_2", number, number, lines(number, number, "two"))
    await finish(store)
    await store.flush()
    assert await store.read_events("turn_1") == lines(1, 199, "one")
    assert await store.read_events("turn_2") == lines(1, 199, "two")


async def test_the_feed_tells_what_every_turn_says_in_the_order_it_was_written(store: Store) -> None:
    await begin(store)
    await store.start_turn(turn("turn_2", of=""))
    store.append_events("turn_1", 1, 2, lines(1, 2, "a"))
    await store.flush()
    store.append_events("turn_2", 1, 1, lines(1, 1, "b"))
    await store.flush()
    await store.record_turn(turn("turn_3", of=""), 2, lines(1, 2, "c"))
    store.append_events("turn_1", 3, 3, lines(3, 3, "d"))
    await store.flush()
    rows = await store.read_feed(0, 10)
    assert [(row.session, row.turn, row.first_seq, row.lines) for row in rows] == [
        ("sess_1", "turn_1", 1, lines(1, 2, "a")),
        ("", "turn_2", 1, lines(1, 1, "b")),
        ("", "turn_3", 1, lines(1, 2, "c")),
        ("sess_1", "turn_1", 3, lines(3, 3, "d")),
    ]
    assert [row.cursor for row in rows] == sorted({row.cursor for row in rows})
    assert await store.feed_end() == rows[-1].cursor


async def test_the_feed_goes_on_from_any_cursor(store: Store) -> None:
    await begin(store)
    for number in range(1, 8):
        store.append_events("turn_1", number, number, lines(number, number))
        await store.flush(durable=False)
    whole = list(await store.read_feed(0, 100))
    assert len(whole) == 7
    read, cursor = [], 0
    while page := await store.read_feed(cursor, 3):
        assert len(page) <= 3
        read += page
        cursor = page[-1].cursor
    assert read == whole
    assert list(await store.read_feed(cursor + 5, 3)) == []


@pytest.mark.parametrize("whole_session", [True, False])
async def test_a_reader_of_the_feed_misses_nothing_after_the_newest_was_deleted(
    store: Store,
    whole_session: bool,  # noqa: FBT001
) -> None:
    await begin(store, "turn_1", "sess_1")
    await begin(store, "turn_2", "sess_2")
    for name in ("turn_1", "turn_2", "turn_2"):
        store.append_events(name, 1, 1, lines(1, 1))
        await store.flush(durable=False)
    cursor = (await store.read_feed(0, 10))[-1].cursor
    for _ in range(2):
        if whole_session:
            await store.delete_session("sess_2")
        else:
            await store.delete_turns("sess_2", before_ms=10_000)
        assert await store.feed_end() >= cursor
    assert {row.turn for row in await store.read_feed(0, 10)} == {"turn_1"}
    store.append_events("turn_1", 2, 2, lines(2, 2, "after"))
    await store.flush(durable=False)
    assert [row.lines for row in await store.read_feed(cursor, 10)] == [lines(2, 2, "after")]


async def test_whoever_waits_for_the_feed_is_woken_by_what_is_written(store: Store) -> None:
    await begin(store)
    end = await store.feed_end()
    assert not await store.wait_feed(end, 0.0)
    waiting = [asyncio.create_task(store.wait_feed(end, 30.0)) for _ in range(3)]
    await asyncio.sleep(0)
    store.append_events("turn_1", 1, 1, lines(1, 1))
    async with asyncio.timeout(10):
        assert await asyncio.gather(*waiting) == [True, True, True]
    assert await store.wait_feed(end, 30.0)
    assert not await store.wait_feed(await store.feed_end(), 0.01)


async def test_the_feed_of_one_store_tells_what_another_wrote(pair: tuple[Store, Store]) -> None:
    first, second = pair
    await begin(first)
    end = await second.feed_end()
    waiting = asyncio.create_task(second.wait_feed(end, 30.0))
    first.append_events("turn_1", 1, 1, lines(1, 1, "from the first"))
    async with asyncio.timeout(10):
        assert await waiting
    assert [row.lines for row in await second.read_feed(end, 10)] == [lines(1, 1, "from the first")]


async def test_ten_megabyte_events_are_kept(store: Store) -> None:
    await begin(store)
    big = lines(2, 2, "y" * 10_000_000)
    store.append_events("turn_1", 1, 1, lines(1, 1))
    store.append_events("turn_1", 2, 2, big)
    store.append_events("turn_1", 3, 3, lines(3, 3))
    await store.flush()
    assert await store.read_events("turn_1") == lines(1, 1) + big + lines(3, 3)
    assert await store.read_events("turn_1", after_seq=2) == lines(3, 3)


async def test_deleting_a_session_takes_its_turns_and_events_and_no_others(store: Store) -> None:
    await begin(store, "turn_1", "sess_1")
    await begin(store, "turn_2", "sess_2")
    for name in ("turn_1", "turn_2"):
        store.append_events(name, 1, 3, lines(1, 3))
    assert await store.delete_session("sess_1") is True
    assert await store.delete_session("sess_1") is False
    assert await store.find_session("sess_1") is None
    assert await store.find_turn("turn_1") is None
    assert await store.read_events("turn_1") == b""
    assert await store.find_turn("turn_2") is not None
    assert await store.read_events("turn_2") == lines(1, 3)


@pytest.mark.parametrize("kind", ["summary", "rewind"])
async def test_a_deleted_session_takes_its_documents_along(store: Store, kind: str) -> None:
    await begin(store)
    for id in ("sess_1", "sess_2"):
        await store.put(Document(kind, id, b"{}"))
    await store.delete_session("sess_1")
    assert await store.find(kind, "sess_1") is None
    assert await store.find(kind, "sess_2") is not None


async def test_events_of_a_deleted_turn_are_dropped_and_break_nothing(store: Store) -> None:
    await begin(store)
    await store.delete_session("sess_1")
    store.append_events("turn_1", 1, 1, lines(1, 1))
    await store.flush()
    assert await store.read_events("turn_1") == b""


async def test_sixty_four_callers_at_once_each_get_their_own_answer(store: Store) -> None:
    await store.create_session(session())

    async def one_turn(index: int) -> int:
        name = f"turn_{index}"
        number = await store.start_turn(turn(name))
        store.append_events(name, 1, 2, lines(1, 2, name))
        await store.flush()
        await finish(store, name, AssistantMessage(name))
        assert await store.read_events(name) == lines(1, 2, name)
        return number

    numbers = await asyncio.gather(*(one_turn(index) for index in range(64)))
    assert sorted(numbers) == list(range(1, 65))
    turns = await store.list_turns("sess_1")
    assert [record.number for record in turns] == list(range(1, 65))
    assert all(record.messages == (AssistantMessage(record.id),) for record in turns)


async def test_one_failing_operation_leaves_its_neighbours_alone(store: Store) -> None:
    await begin(store)
    results = await asyncio.gather(
        store.create_session(session("sess_2")),
        store.create_session(session("sess_1")),
        store.start_turn(turn("turn_x", "sess_none")),
        store.start_turn(turn("turn_2")),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [type(None), StoreError, SessionNotFound, int]


async def test_a_cancelled_waiter_does_not_undo_its_write(store: Store) -> None:
    await begin(store)
    waiter = asyncio.ensure_future(finish(store))
    await asyncio.sleep(0)
    waiter.cancel()
    await asyncio.gather(waiter, return_exceptions=True)
    await store.flush()
    found = await store.find_turn("turn_1")
    assert found is not None
    assert found.end is TurnEnd.ANSWERED


def used(name: str = "use_1", cost: float | None = 0.5, at_ms: int = 1_000, of: str = "sess_1") -> UsageRecord:
    return UsageRecord(name, at_ms, of, "up:m", Category.MAIN, Usage(100, 10, cost=cost), estimate=90)


async def reserved(
    store: Store, cost: float, name: str = "use_9", *, at_ms: int = 1_000, day: float | None = 2.0
) -> tuple[float, float] | None:
    wanted = Reservation(name, at_ms, at_ms + 500, "sess_1", "up:m", Category.MAIN, cost)
    return await store.reserve(wanted, day_start_ms=0, day_cap=day, session_cap=None)


def fact(text: str, name: str = "", at_ms: int = 1_000, tags: tuple[str, ...] = ()) -> Fact:
    return Fact(name or f"fact_{text[:8]}", text, at_ms, at_ms, tags=tags)


async def test_what_calls_cost_is_summed_and_unknown_prices_are_told(store: Store) -> None:
    store.record_usage(used("a", 0.5))
    store.record_usage(used("b", None))
    store.record_usage(used("c", 1.0, of="sess_2", at_ms=5_000))
    assert await store.sum_spending() == SpendingTotal(3, 300, 30, 1.5, 1, 270, 300)
    assert (await store.sum_spending(session="sess_1")).cost == 0.5
    assert (await store.sum_spending(since_ms=2_000)).calls == 1
    rows = await store.list_spent()
    assert {(row.model, row.category) for row in rows} == {("up:m", Category.MAIN)}


async def test_a_reservation_holds_its_place_until_the_call_is_settled(store: Store) -> None:
    assert await reserved(store, 1.5, "first") is None
    assert await reserved(store, 1.0, "second") == (1.5, 1.5)
    store.record_usage(used("first", 0.25))
    assert await reserved(store, 1.0, "second") is None
    assert (await store.sum_spending()).cost == 0.25


async def test_a_reservation_that_was_released_or_has_expired_counts_for_nothing(store: Store) -> None:
    assert await reserved(store, 2.0, "first") is None
    store.release("first")
    assert await reserved(store, 2.0, "second") is None
    assert await reserved(store, 2.0, "third", at_ms=1_499) is not None
    assert await reserved(store, 2.0, "third", at_ms=1_500) is None


QUARTER_MS = 900_000


async def test_what_is_summed_up_says_what_it_said_before(store: Store) -> None:
    for number in range(40):
        at_ms = 1 + number * 50_000  # more than two quarters
        of = ("", "sess_1", "sess_2")[number % 3]
        record = used(f"use_{number}", (None, 0.25)[number % 2], at_ms, of)
        store.record_usage(msgspec.structs.replace(record, estimate=number % 5))
    assert await reserved(store, 0.5, "held", at_ms=5_000, day=None) is None

    async def said() -> list[object]:
        wholes = [await store.sum_spending(session=of) for of in (None, "", "sess_1", "sess_2")]
        since = [await store.sum_spending(since_ms=QUARTER_MS * number) for number in range(4)]
        return [wholes, since, list(await store.list_spent()), await reserved(store, 1.0, "new", at_ms=5_000, day=0.0)]

    before = await said()
    assert not await store.sum_up_usage(before_ms=QUARTER_MS - 1)
    assert [await store.sum_up_usage(before_ms=QUARTER_MS * 2) for _ in range(3)] == [True, True, False]
    assert await said() == before
    assert await store.sum_up_usage(before_ms=QUARTER_MS * 9)
    assert not await store.sum_up_usage(before_ms=QUARTER_MS * 9)
    assert await said() == before
    store.record_usage(used("late", 0.25, 40 * 50_000))
    assert await store.sum_up_usage(before_ms=QUARTER_MS * 9)  # a sum may become part of another
    assert (await store.sum_spending()).calls == 41


async def test_two_instances_share_a_cap(pair: tuple[Store, Store]) -> None:
    wanted = [reserved(pair[index % 2], 0.25, f"use_{index}") for index in range(40)]
    answers = await asyncio.gather(*wanted)
    assert sum(answer is None for answer in answers) == 8


async def test_facts_are_found_by_any_word_the_best_match_first(store: Store) -> None:
    await store.put_facts([
        fact("prefers tabs over spaces", "fact_1"),
        fact("the deploy server is called heron", "fact_2", tags=("Ops",)),
        fact("likes the colour of herons over the server room", "fact_3"),
        fact("喜欢喝绿茶", "fact_4"),
        fact("Café Müller schließt früh", "fact_5"),
        fact("tests are run by run_all_tests, 〈x〉 and the x\u1d2c of chapter one", "fact_6"),
    ])  # fmt: skip
    assert (await store.search_facts("which server is heron?", limit=5))[0].id == "fact_2"
    assert [found.id for found in await store.search_facts("ops", limit=5)] == ["fact_2"]
    assert [found.id for found in await store.search_facts("绿茶", limit=5)] == ["fact_4"]
    assert [found.id for found in await store.search_facts("CAFE muller", limit=5)] == ["fact_5"]
    assert [found.id for found in await store.search_facts("all_", limit=5)] == ["fact_6"]
    assert [found.id for found in await store.search_facts("XA", limit=5)] == ["fact_6"]
    assert list(await store.search_facts('" OR * NEAR( - _ 〈〉', limit=5)) == []
    assert list(await store.search_facts("", limit=5)) == []


async def test_a_fact_that_was_changed_is_found_by_its_new_words_only(store: Store) -> None:
    await store.put_facts([fact("lives in Oslo", "fact_1")])
    await store.put_facts([fact("lives in Bergen", "fact_1", at_ms=9_000)])
    assert list(await store.search_facts("Oslo", limit=5)) == []
    found = await store.find_fact("fact_1")
    assert found is not None
    assert (found.text, found.created_ms, found.updated_ms) == ("lives in Bergen", 1_000, 9_000)
    assert await store.delete_fact("fact_1") and not await store.delete_fact("fact_1")
    assert list(await store.search_facts("Bergen", limit=5)) == []


async def test_the_last_turns_can_be_read_without_the_first(store: Store) -> None:
    await store.create_session(session())
    for number in range(1, 8):
        await store.start_turn(turn(f"turn_{number}"))
    assert [t.number for t in await store.list_turns("sess_1", limit=3)] == [5, 6, 7]
    assert [t.number for t in await store.list_turns("sess_1", before=5, limit=3)] == [2, 3, 4]
    assert [t.number for t in await store.list_turns("sess_1", before=3)] == [1, 2]


CALLS: dict[str, Callable[[Store], Awaitable[object]]] = {
    "create_session": lambda store: store.create_session(session()),
    "find_session": lambda store: store.find_session("sess_1"),
    "list_sessions": lambda store: store.list_sessions(limit=1),
    "delete_session": lambda store: store.delete_session("sess_1"),
    "start_turn": lambda store: store.start_turn(turn()),
    "flush": lambda store: store.flush(),
    "finish_turn": finish,
    "find_turn": lambda store: store.find_turn("turn_1"),
    "list_turns": lambda store: store.list_turns("sess_1"),
    "read_events": lambda store: store.read_events("turn_1"),
    "read_feed": lambda store: store.read_feed(0, 1),
    "feed_end": lambda store: store.feed_end(),
    "wait_feed": lambda store: store.wait_feed(0, 0.0),
    "reserve": lambda store: reserved(store, 1.0),
    "sum_spending": lambda store: store.sum_spending(),
    "list_spent": lambda store: store.list_spent(),
    "sum_up_usage": lambda store: store.sum_up_usage(before_ms=1),
    "put_facts": lambda store: store.put_facts([fact("one")]),
    "list_facts": lambda store: store.list_facts(limit=1),
    "search_facts": lambda store: store.search_facts("one", limit=1),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("used", [True, False])
async def test_a_closed_store_refuses_every_call(store: Store, call: str, used: bool) -> None:  # noqa: FBT001
    if used:
        await begin(store)
        await store.find_turn("turn_1")
    await store.aclose()
    await store.aclose()
    with pytest.raises(StoreError, match="the store is closed"):
        await CALLS[call](store)
    with pytest.raises(StoreError, match="the store is closed"):
        store.append_events("turn_1", 1, 1, b"{}\n")
    with pytest.raises(StoreError, match="the store is closed"):
        store.record_usage(UsageRecord("use_1", 1, "", "m", Category.MAIN, Usage()))


async def test_two_instances_see_each_others_acknowledged_writes(pair: tuple[Store, Store]) -> None:
    first, second = pair
    assert list(await second.list_sessions(limit=9)) == []
    await begin(first)
    first.append_events("turn_1", 1, 2, lines(1, 2))
    await first.flush()
    assert await second.find_turn("turn_1") is not None
    assert await second.read_events("turn_1") == lines(1, 2)
    await second.delete_session("sess_1")
    assert await first.find_turn("turn_1") is None


async def test_two_instances_never_give_a_number_twice(pair: tuple[Store, Store]) -> None:
    await pair[0].create_session(session())
    starts = [pair[index % 2].start_turn(turn(f"turn_{index}")) for index in range(100)]
    assert sorted(await asyncio.gather(*starts)) == list(range(1, 101))


async def test_a_turn_of_no_session_is_begun_before_its_events_without_waiting(store: Store) -> None:
    begun = turn("turn_1", of="")
    store.begin_turn(begun)
    store.append_events("turn_1", 1, 2, lines(1, 2))
    assert await store.read_events("turn_1") == lines(1, 2)
    found = await store.find_turn("turn_1")
    assert found is not None
    assert (found.input, found.number, found.end, found.owner) == (begun.input, 0, None, begun.owner)
    await finish(store)
    assert (await store.find_turn("turn_1")).end is TurnEnd.ANSWERED  # type: ignore[union-attr]


async def test_releasing_memory_loses_nothing_that_is_queued(store: Store) -> None:
    await store.release_memory()
    await begin(store)
    store.append_events("turn_1", 1, 2, lines(1, 2))
    await asyncio.gather(store.release_memory(), store.release_memory())
    store.append_events("turn_1", 3, 3, lines(3, 3))
    assert await store.read_events("turn_1") == lines(1, 2) + lines(3, 3)
    await store.aclose()
    await store.release_memory()


async def test_what_a_key_has_stored_is_counted_until_it_is_deleted(store: Store) -> None:
    assert await store.stored_bytes("key_1") == 0
    await begin(store, "turn_1", "key_1/a", "x" * 1000)
    store.append_events("turn_1", 1, 1, lines(1, 1, "y" * 500))
    await finish(store, "turn_1", user("z" * 300))
    one = await store.stored_bytes("key_1")
    assert 1800 < one < 2500
    await store.put(Document("response", "r", b"b" * 700, owner="key_1"))
    assert await store.stored_bytes("key_1") == one + 700
    await begin(store, "turn_2", "key_10/a", "x" * 1000)
    await begin(store, "turn_3", "mine", "x" * 1000)
    await store.put(Document("response", "all", b"b" * 700))
    assert await store.stored_bytes("key_1") == one + 700
    assert await store.stored_bytes("") == 0
    await store.delete("response", "r")
    await store.delete_session("key_1/a")
    assert await store.stored_bytes("key_1") == 0


async def test_of_turns_without_a_session_the_oldest_go_when_there_are_too_many(store: Store) -> None:
    await begin(store, "turn_kept", "sess_1")
    for number in range(5):
        await store.record_turn(
            msgspec.structs.replace(turn(f"turn_{number}", "", at_ms=1000 + number), end=TurnEnd.ANSWERED),
            1,
            b"x" * 40_000,
        )
    assert await store.trim_traces(1_000_000) == 0
    assert await store.trim_traces(100_000) == 3
    found = [number for number in range(5) if await store.find_turn(f"turn_{number}") is not None]
    assert found == [3, 4]
    assert await store.find_turn("turn_kept") is not None
