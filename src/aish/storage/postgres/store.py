"""The Store port over PostgreSQL, for several replicas that share nothing else.

One task writes (see `writer`); reads use a pool (see `connections`). Nothing opens before the first use, not even the
driver. `aclose` writes everything queued and closes every connection. A store belongs to one event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TypeVar

from aish.storage.postgres.connections import Connections
from aish.storage.postgres.database import SqlConnection
from aish.storage.postgres.sql import documents, runs, sessions, spending
from aish.storage.postgres.sql.documents import key_of
from aish.storage.postgres.transaction import ANY, BUDGET
from aish.storage.postgres.writer import PostgresWriter
from aish.storage.store_rules import plain, store_closed, words_of
from aish.storage.write_queue import Append, CommitSignal
from aish.types.events import TurnEnd
from aish.types.messages import Message
from aish.types.records import Document, Fact, FeedRow, SessionRecord, TurnRecord
from aish.types.runs import RunRecord, RunState, StepRecord
from aish.types.usage import Reservation, SpendingTotal, SpentRow, Usage, UsageRecord

T = TypeVar("T")

_FACTS = ("facts",)
CONNECT_S = 5.0
STATEMENT_S = 10.0
# How long a write waits for a database that is away. A restart takes a second or two, a failover longer.
PATIENCE_S = 15.0


class PostgresStore:
    def __init__(
        self,
        url: str,
        *,
        connect_s: float = CONNECT_S,
        statement_s: float = STATEMENT_S,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._connections = Connections(url, connect_s=connect_s, statement_s=statement_s)
        self._commit_signal = CommitSignal()
        self._writer = PostgresWriter(self._connections, patience_s=patience_s, after_commit=self._commit_signal.tell)
        self._closing: asyncio.Task[None] | None = None

    async def create_session(self, session: SessionRecord) -> None:
        await self._write(lambda connection: sessions.insert_session(connection, session), keys=_of_session(session.id))

    async def find_session(self, session: str) -> SessionRecord | None:
        return await self._read(lambda connection: sessions.select_session(connection, plain(session)))

    async def list_sessions(
        self,
        *,
        limit: int,
        search: str = "",
        under: str = "",
        before: tuple[int, str] | None = None,
        parent: str | None = "",
    ) -> Sequence[SessionRecord]:
        words = words_of(search)
        return await self._read(
            lambda connection: sessions.select_sessions(connection, limit, words, plain(under), before, parent)
        )

    async def delete_session(self, session: str) -> bool:
        return await self._write(
            lambda connection: sessions.delete_session(connection, plain(session)), keys=_of_session(session), turn=ANY
        )

    async def start_turn(self, turn: TurnRecord) -> int:
        keys = _of_session(turn.session)
        return await self._write(lambda connection: sessions.insert_turn(connection, turn), keys=keys, turn=turn.id)

    def begin_turn(self, turn: TurnRecord) -> None:
        self._post(
            lambda connection: sessions.insert_turn(connection, turn), keys=_of_session(turn.session), turn=turn.id
        )

    async def record_turn(self, turn: TurnRecord, last_seq: int, lines: bytes) -> None:
        # It writes events itself, so ANY: earlier events have to come first in the feed.
        self._post(lambda connection: sessions.insert_ended_turn(connection, turn, last_seq, lines), turn=ANY)

    def append_events(self, turn: str, first_seq: int, last_seq: int, lines: bytes) -> None:
        """Drops events of a turn that does not exist: deleting a session does not break its running turn."""
        self._writer.append(Append(turn, first_seq, last_seq, lines))

    async def flush(self, *, durable: bool = True) -> None:
        await self._writer.submit(None, durable=durable)

    async def finish_turn(
        self,
        turn: str,
        *,
        end: TurnEnd,
        finished_ms: int,
        messages: Sequence[Message],
        usage: Usage,
        wait: bool = True,
    ) -> None:
        def run(connection: SqlConnection) -> Awaitable[None]:
            return sessions.finish_turn(connection, turn, end, finished_ms, messages, usage)

        if wait:
            await self._write(run)
        else:
            self._post(run)

    async def find_turn(self, turn: str) -> TurnRecord | None:
        return await self._read(lambda connection: sessions.select_turn(connection, plain(turn)), after_writes=True)

    async def list_turns(
        self, session: str, *, before: int | None = None, limit: int | None = None
    ) -> Sequence[TurnRecord]:
        return await self._read(lambda connection: sessions.select_turns(connection, plain(session), before, limit))

    async def read_events(self, turn: str, *, after_seq: int = 0) -> bytes:
        """Also sees events that this store appended and that are not durable yet."""
        return await self._read(
            lambda connection: sessions.select_events(connection, plain(turn), after_seq), after_writes=True
        )

    async def delete_turns(self, session: str, *, before_ms: int) -> int:
        return await self._write(
            lambda connection: sessions.delete_turns(connection, plain(session), before_ms),
            keys=_of_session(session),
            turn=ANY,
        )

    async def trim_traces(self, max_bytes: int) -> int:
        before_ms = await self._read(
            lambda connection: sessions.select_trace_cutoff(connection, max_bytes), after_writes=True
        )
        return await self.delete_turns("", before_ms=before_ms) if before_ms else 0

    async def put(self, document: Document, *, wait: bool = True) -> None:
        keys = (key_of(document.kind, document.id),)
        if wait:
            await self._write(lambda connection: documents.put(connection, document), keys=keys)
        else:
            self._post(lambda connection: documents.put(connection, document), keys=keys)

    async def put_new(self, document: Document) -> bool:
        keys = (key_of(document.kind, document.id),)
        return await self._write(lambda connection: documents.put_new(connection, document), keys=keys)

    async def swap(self, document: Document, *, old: bytes) -> bool:
        keys = (key_of(document.kind, document.id),)
        return await self._write(lambda connection: documents.swap(connection, document, old), keys=keys)

    async def find(self, kind: str, id: str) -> Document | None:
        return next(iter(await self.find_many(kind, [id])), None)

    async def find_many(self, kind: str, ids: Collection[str]) -> Sequence[Document]:
        """Also sees documents that this store put without waiting."""
        wanted = [plain(id) for id in ids]
        return await self._read(lambda connection: documents.select_many(connection, kind, wanted), after_writes=True)

    async def list_documents(self, kind: str, *, owner: str | None = None, limit: int = 1000) -> Sequence[Document]:
        return await self._read(
            lambda connection: documents.select_newest(connection, kind, owner, limit), after_writes=True
        )

    async def delete(self, kind: str, id: str) -> bool:
        return await self._write(
            lambda connection: documents.delete(connection, kind, plain(id)), keys=(key_of(kind, id),)
        )

    async def stored_bytes(self, owner: str) -> int:
        return await self._read(
            lambda connection: sessions.select_stored_bytes(connection, plain(owner)), after_writes=True
        )

    async def read_feed(self, after: int, limit: int) -> Sequence[FeedRow]:
        return await self._read(lambda connection: sessions.select_feed(connection, after, limit))

    async def feed_end(self) -> int:
        return await self._read(sessions.select_feed_end)

    async def wait_feed(self, after: int, timeout_s: float) -> bool:
        return await self._commit_signal.wait_past(after, timeout_s, self.feed_end)

    def record_usage(self, record: UsageRecord) -> None:
        self._post(lambda connection: spending.record(connection, record))

    async def reserve(
        self, wanted: Reservation, *, day_start_ms: int, day_cap: float | None, session_cap: float | None
    ) -> tuple[float, float] | None:
        caps = {"day_cap": day_cap, "session_cap": session_cap}
        return await self._write(
            lambda connection: spending.reserve(connection, wanted, day_start_ms=day_start_ms, **caps), keys=(BUDGET,)
        )

    def release(self, id: str) -> None:
        self._post(lambda connection: spending.release(connection, id))

    async def sum_spending(self, *, since_ms: int = 0, session: str | None = None) -> SpendingTotal:
        return await self._read(
            lambda connection: spending.select_spent(connection, since_ms, session), after_writes=True
        )

    async def list_spent(self, *, since_ms: int = 0, session: str | None = None) -> Sequence[SpentRow]:
        return await self._read(
            lambda connection: spending.select_rows(connection, since_ms, session), after_writes=True
        )

    async def sum_up_usage(self, *, before_ms: int) -> bool:
        return await self._write(lambda connection: spending.sum_up(connection, before_ms), keys=(BUDGET,))

    async def put_facts(self, given: Sequence[Fact]) -> None:
        await self._write(lambda connection: documents.put_facts(connection, given), keys=_FACTS)

    async def find_fact(self, id: str) -> Fact | None:
        return await self._read(lambda connection: documents.select_fact(connection, plain(id)))

    async def delete_fact(self, id: str) -> bool:
        return await self._write(lambda connection: documents.delete_fact(connection, plain(id)), keys=_FACTS)

    async def clear_facts(self) -> int:
        return await self._write(documents.clear_facts, keys=_FACTS)

    async def list_facts(self, *, limit: int) -> Sequence[Fact]:
        return await self._read(lambda connection: documents.select_newest_facts(connection, limit))

    async def search_facts(self, query: str, *, limit: int) -> Sequence[Fact]:
        return await self._read(lambda connection: documents.search_facts(connection, query, limit))

    async def create_run(self, run: RunRecord, *, lease_s: float) -> RunRecord:
        return await self._write(lambda connection: runs.insert(connection, run, lease_s), keys=(runs.key_of(run.id),))

    async def claim_run(self, id: str, owner: str, *, lease_s: float, dead: str = "") -> RunRecord | None:
        return await self._write(
            lambda connection: runs.claim(connection, plain(id), owner, lease_s, dead), keys=(runs.key_of(id),)
        )

    async def update_run(self, run: RunRecord, *, lease_s: float) -> bool:
        return await self._write(lambda connection: runs.update(connection, run, lease_s), keys=(runs.key_of(run.id),))

    async def renew_run(self, id: str, fence: int, *, lease_s: float) -> bool:
        return await self._write(
            lambda connection: runs.renew(connection, plain(id), fence, lease_s), keys=(runs.key_of(id),)
        )

    async def find_run(self, id: str) -> RunRecord | None:
        return await self._read(lambda connection: runs.select_one(connection, plain(id)))

    async def list_runs(self, *, limit: int, states: Sequence[RunState] = ()) -> Sequence[RunRecord]:
        return await self._read(lambda connection: runs.select_newest(connection, limit, states))

    async def put_step(self, step: StepRecord, *, fence: int) -> bool:
        return await self._write(
            lambda connection: runs.put_step(connection, step, fence), keys=(runs.key_of(step.run),)
        )

    async def list_steps(self, run: str) -> Sequence[StepRecord]:
        return await self._read(lambda connection: runs.select_steps(connection, plain(run)))

    async def release_memory(self) -> None:
        """Nothing is held."""

    async def aclose(self) -> None:
        """Idempotent. Raises StoreError if appended events could not be written; all connections end either way."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _write(
        self, run: Callable[[SqlConnection], Awaitable[T]], *, keys: Sequence[str] = (), turn: str = ""
    ) -> T:
        result: T = await self._writer.submit(run, keys=keys, turn=turn)
        return result

    def _post(self, run: Callable[[SqlConnection], Awaitable[T]], *, keys: Sequence[str] = (), turn: str = "") -> None:
        self._writer.post(run, keys=keys, turn=turn)

    async def _read(self, run: Callable[[SqlConnection], Awaitable[T]], *, after_writes: bool = False) -> T:
        """`after_writes`: queued writes are made visible first."""
        if self._closing is not None:
            raise store_closed()
        if after_writes and not self._writer.idle:
            await self._writer.submit(None, durable=False)
        return await self._connections.read(run)

    async def _close(self) -> None:
        try:
            await self._writer.close()
        finally:
            await self._connections.aclose()


def _of_session(session: str) -> tuple[str, ...]:
    """The lock key of a session. Turns without a session share none."""
    return (f"session/{session}",) if session else ()
