"""SQLite, PostgreSQL and memory, given the same calls, give the same answers."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from aish.errors import AishError
from aish.ports import Store
from aish.storage.memory import MemoryStore
from aish.storage.postgres.store import PostgresStore
from aish.storage.sqlite.store import SqliteStore
from aish.types.events import TurnEnd
from aish.types.messages import AssistantMessage, user
from aish.types.records import Document, Fact, FactKind, SessionRecord, TurnRecord
from aish.types.usage import Category, Reservation, Usage, UsageRecord
from support.postgres import Database

sessions = st.sampled_from(["sess_a", "sess_b", "sess_c", ""])
turns = st.sampled_from(["turn_a", "turn_b", "turn_c", "turn_d"])
times = st.integers(0, 5)
texts = st.text(st.characters(codec="utf-8"), max_size=30)


class Twins(RuleBasedStateMachine):
    @initialize()
    def open(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.runner = asyncio.Runner()
        self.stores: tuple[Store, Store] = (self.lasting(), MemoryStore())
        self.seqs: dict[str, int] = {}

    def lasting(self) -> Store:
        return SqliteStore(Path(self.folder.name) / "aish.db")

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            self.runner.run(self.stores[0].aclose())
            self.runner.close()
            self.folder.cleanup()

    def both(self, call: Callable[[Store], Awaitable[Any]]) -> Any:
        answers = [self.runner.run(outcome(call, store)) for store in self.stores]
        assert answers[0] == answers[1]
        return answers[0]

    @rule(session=sessions, at_ms=times, title=texts)
    def create_session(self, session: str, at_ms: int, title: str) -> None:
        record = SessionRecord(session, at_ms, at_ms, title=title)
        self.both(lambda store: store.create_session(record))

    @rule(session=sessions)
    def delete_session(self, session: str) -> None:
        self.both(lambda store: store.delete_session(session))

    @rule(turn=turns, session=sessions, at_ms=times, text=texts)
    def start_turn(self, turn: str, session: str, at_ms: int, text: str) -> None:
        record = TurnRecord(turn, session, 0, text[:2], at_ms, (user(text),))
        if isinstance(self.both(lambda store: store.start_turn(record)), int):
            self.seqs[turn] = 0

    @rule(turn=turns, count=st.integers(1, 3), text=texts)
    def append(self, turn: str, count: int, text: str) -> None:
        first = self.seqs.get(turn, 0) + 1
        self.seqs[turn] = first + count - 1
        lines = (repr(text).encode() + b"\n") * count
        for store in self.stores:
            store.append_events(turn, first, first + count - 1, lines)

    @rule(turn=turns, at_ms=times, text=texts)
    def record_turn(self, turn: str, at_ms: int, text: str) -> None:
        messages = (user("q"), AssistantMessage(text))
        record = TurnRecord(
            turn, "", 0, text[:2], at_ms, (user(text),), TurnEnd.ANSWERED, at_ms, messages, Usage(at_ms), "owner"
        )
        self.both(lambda store: store.record_turn(record, 1, repr(text).encode() + b"\n"))

    @rule(session=sessions, at_ms=times)
    def delete_turns(self, session: str, at_ms: int) -> None:
        self.both(lambda store: store.delete_turns(session, before_ms=at_ms))

    @rule(id=turns, owner=sessions, at_ms=st.integers(1, 5), text=texts, how=st.sampled_from(["new", "any"]))
    def put(self, id: str, owner: str, at_ms: int, text: str, how: str) -> None:
        document = Document("kind", id, text.encode("utf-8", "replace"), owner, at_ms)
        self.both(lambda store: store.put_new(document) if how == "new" else store.put(document, wait=False))

    @rule(id=turns, old=texts, text=texts)
    def swap(self, id: str, old: str, text: str) -> None:
        document = Document("kind", id, text.encode("utf-8", "replace"))
        self.both(lambda store: store.swap(document, old=old.encode("utf-8", "replace")))

    @rule(id=turns)
    def delete_document(self, id: str) -> None:
        self.both(lambda store: store.delete("kind", id))

    @rule(id=turns, owner=sessions | st.none(), limit=st.integers(-1, 3))
    def read_documents(self, id: str, owner: str | None, limit: int) -> None:
        self.both(lambda store: store.find("kind", id))
        self.both(lambda store: store.list_documents("kind", owner=owner, limit=limit))

    @rule(id=turns, session=sessions, at_ms=times, cost=st.none() | st.integers(0, 4).map(float), estimate=times)
    def record_usage(self, id: str, session: str, at_ms: int, cost: float | None, estimate: int) -> None:
        usage = Usage(at_ms, 2, cost=cost)
        record = UsageRecord(id, at_ms, session, f"m{at_ms % 2}", Category.MAIN, usage, estimate)
        for store in self.stores:
            store.record_usage(record)

    @rule(
        id=turns, session=sessions, at_ms=times, lasts_ms=times, cost=st.integers(0, 4).map(float),
        caps=st.tuples(*[st.none() | st.integers(0, 9).map(float)] * 2),
    )  # fmt: skip
    def reserve(
        self, id: str, session: str, at_ms: int, lasts_ms: int, cost: float, caps: tuple[float | None, float | None]
    ) -> None:
        wanted = Reservation(id, at_ms, at_ms + 1 + lasts_ms, session, "m", Category.PROBE, cost)
        self.both(lambda store: store.reserve(wanted, day_start_ms=2, day_cap=caps[0], session_cap=caps[1]))

    @rule(id=turns)
    def release(self, id: str) -> None:
        for store in self.stores:
            store.release(id)

    @rule()
    def sum_up_usage(self) -> None:
        self.both(lambda store: store.sum_up_usage(before_ms=900_000))

    @rule(session=sessions | st.none(), since_ms=times)
    def read_spending(self, session: str | None, since_ms: int) -> None:
        self.both(lambda store: store.sum_spending(since_ms=since_ms, session=session))
        self.both(lambda store: listed(store.list_spent(since_ms=since_ms, session=session)))

    @rule(
        facts=st.lists(
            st.tuples(turns, times, texts, st.sampled_from(FactKind), st.lists(texts, max_size=2)), max_size=3
        )
    )
    def put_facts(self, facts: list[tuple[str, int, str, FactKind, list[str]]]) -> None:
        given = [Fact(id, text, at_ms, at_ms, kind, tuple(tags)) for id, at_ms, text, kind, tags in facts]
        self.both(lambda store: store.put_facts(given))

    @rule(id=turns)
    def delete_fact(self, id: str) -> None:
        self.both(lambda store: store.delete_fact(id))

    @rule(id=turns, limit=st.integers(-1, 3), query=texts)
    def read_facts(self, id: str, limit: int, query: str) -> None:
        self.both(lambda store: store.find_fact(id))
        self.both(lambda store: listed(store.list_facts(limit=limit)))
        self.both(lambda store: ids_of(store.search_facts(query, limit=9)))

    @rule()
    def clear_facts(self) -> None:
        self.both(lambda store: store.clear_facts())

    @rule(turn=turns, at_ms=times, text=texts)
    def finish_turn(self, turn: str, at_ms: int, text: str) -> None:
        messages = (user("q"), AssistantMessage(text))
        self.both(
            lambda store: store.finish_turn(
                turn, end=TurnEnd.ANSWERED, finished_ms=at_ms, messages=messages, usage=Usage(at_ms)
            )
        )

    @rule(turn=turns, after_seq=st.integers(0, 6))
    def read(self, turn: str, after_seq: int) -> None:
        self.both(lambda store: store.read_events(turn, after_seq=after_seq))
        self.both(lambda store: store.find_turn(turn))

    @rule(session=sessions, limit=st.integers(-1, 3), search=st.one_of(st.just(""), texts))
    def look(self, session: str, limit: int, search: str) -> None:
        self.both(lambda store: listed(store.list_sessions(limit=limit, search=search)))
        self.both(lambda store: listed(store.list_turns(session)))
        self.both(lambda store: listed(store.list_turns(session, before=limit, limit=limit)))
        self.both(lambda store: listed(store.list_turns(session, limit=limit)))
        self.both(lambda store: store.find_session(session))


async def listed(records: Awaitable[Any]) -> list[Any]:
    return list(await records)


async def ids_of(facts: Awaitable[Any]) -> set[str]:
    """Which match; the order among them is each store's own."""
    return {fact.id for fact in await facts}


async def outcome(call: Callable[[Store], Awaitable[Any]], store: Store) -> Any:
    try:
        return await call(store)
    except AishError as exc:
        return type(exc), exc.message


class PostgresTwins(Twins):
    def __init__(self, database: Database) -> None:
        super().__init__()
        self.database = database

    def lasting(self) -> Store:
        self.database.empty()
        return PostgresStore(self.database.url)


SETTINGS = settings(max_examples=25, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck))
TestTwins = Twins.TestCase
TestTwins.settings = SETTINGS


def test_postgres_is_a_twin_of_memory(database: Database) -> None:
    run_state_machine_as_test(lambda: PostgresTwins(database), settings=SETTINGS)
