"""The Store port over one SQLite file. One thread writes (see `writer`), another one reads; the event loop does
neither.

Several processes may use one file. The file opens at the first use, not before. `aclose` writes everything queued and
ends both threads.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from aish.errors import AishError
from aish.storage.sqlite import documents_sql, runs_sql, sessions_sql, spending_sql
from aish.storage.sqlite.database import open_reader, open_writer, translate
from aish.storage.sqlite.writer import SqliteWriter
from aish.storage.store_rules import plain, store_closed, words_of
from aish.storage.write_queue import Append, CommitSignal
from aish.types.events import TurnEnd
from aish.types.messages import Message
from aish.types.records import Document, Fact, FeedRow, SessionRecord, TurnRecord
from aish.types.runs import RunRecord, RunState, StepRecord
from aish.types.usage import Reservation, SpendingTotal, SpentRow, Usage, UsageRecord

T = TypeVar("T")


class SqliteStore:
    def __init__(self, path: Path, *, busy_timeout_s: float = 5.0) -> None:
        self.path = path
        self._busy_timeout_s = busy_timeout_s
        # The writer's connection closes last: only it can fold the WAL into the file and remove it.
        opening = partial(open_writer, path, busy_timeout_s=busy_timeout_s)
        self._commit_signal = CommitSignal()
        self._writer = SqliteWriter(path, opening, self._end_reading, after_commit=self._commit_signal.tell)
        self._reading = ThreadPoolExecutor(1, thread_name_prefix="aish-store-read")
        self._reader: sqlite3.Connection | None = None  # only touched in the reading thread
        self._opened = False
        self._closing: asyncio.Task[None] | None = None

    async def create_session(self, session: SessionRecord) -> None:
        await self._write(partial(sessions_sql.insert_session, session=session))

    async def find_session(self, session: str) -> SessionRecord | None:
        return await self._read(lambda db: sessions_sql.select_session(db, plain(session)))

    async def list_sessions(
        self,
        *,
        limit: int,
        search: str = "",
        under: str = "",
        before: tuple[int, str] | None = None,
        parent: str | None = "",
    ) -> Sequence[SessionRecord]:
        return await self._read(
            lambda db: sessions_sql.select_sessions(db, limit, words_of(search), plain(under), before, parent)
        )

    async def delete_session(self, session: str) -> bool:
        return bool(await self._write(lambda db: sessions_sql.delete_session(db, plain(session))))

    async def start_turn(self, turn: TurnRecord) -> int:
        return await self._write(lambda db: sessions_sql.insert_turn(db, turn)) or 0

    def begin_turn(self, turn: TurnRecord) -> None:
        self._writer.post(lambda db: sessions_sql.insert_turn(db, turn))

    async def record_turn(self, turn: TurnRecord, last_seq: int, lines: bytes) -> None:
        self._writer.insert(
            sessions_sql.insert_ended_turns, sessions_sql.EndedTurn(turn, last_seq, lines), size=len(lines)
        )
        if self._writer.is_behind:
            await self._keep_up()

    async def stored_bytes(self, owner: str) -> int:
        await self._write_queued()
        return await self._read(lambda db: sessions_sql.select_stored_bytes(db, owner))

    def append_events(self, turn: str, first_seq: int, last_seq: int, lines: bytes) -> None:
        """Drops events of a turn that does not exist: deleting a session does not break its running turn."""
        self._writer.append(Append(turn, first_seq, last_seq, lines))

    async def flush(self, *, durable: bool = True) -> None:
        await asyncio.wrap_future(self._writer.submit(None, durable=durable))
        self._opened = True

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
        await self._write(lambda db: sessions_sql.finish_turn(db, turn, end, finished_ms, messages, usage), wait=wait)

    async def find_turn(self, turn: str) -> TurnRecord | None:
        await self._write_queued()
        return await self._read(lambda db: sessions_sql.select_turn(db, plain(turn)))

    async def list_turns(
        self, session: str, *, before: int | None = None, limit: int | None = None
    ) -> Sequence[TurnRecord]:
        if not session:
            return ()
        return await self._read(lambda db: sessions_sql.select_turns(db, plain(session), before, limit))

    async def read_events(self, turn: str, *, after_seq: int = 0) -> bytes:
        """Also sees events that this store appended and that are not durable yet."""
        await self._write_queued()
        return await self._read(lambda db: sessions_sql.select_events(db, plain(turn), after_seq))

    async def delete_turns(self, session: str, *, before_ms: int) -> int:
        return await self._write(lambda db: sessions_sql.delete_turns(db, plain(session), before_ms)) or 0

    async def trim_traces(self, max_bytes: int) -> int:
        await self._write_queued()
        before_ms = await self._read(lambda db: sessions_sql.select_trace_cutoff(db, max_bytes))
        return await self.delete_turns("", before_ms=before_ms) if before_ms else 0

    async def read_feed(self, after: int, limit: int) -> Sequence[FeedRow]:
        return await self._read(lambda db: sessions_sql.select_feed(db, after, limit))

    async def feed_end(self) -> int:
        return await self._read(sessions_sql.select_feed_end)

    async def wait_feed(self, after: int, timeout_s: float) -> bool:
        return await self._commit_signal.wait_past(after, timeout_s, self.feed_end)

    async def put(self, document: Document, *, wait: bool = True) -> None:
        await self._write(lambda db: documents_sql.put(db, document), wait=wait)

    async def put_new(self, document: Document) -> bool:
        return bool(await self._write(lambda db: documents_sql.put_new(db, document)))

    async def swap(self, document: Document, *, old: bytes) -> bool:
        return bool(await self._write(lambda db: documents_sql.swap(db, document, old)))

    async def find(self, kind: str, id: str) -> Document | None:
        return next(iter(await self.find_many(kind, [id])), None)

    async def find_many(self, kind: str, ids: Collection[str]) -> Sequence[Document]:
        """Also sees documents that this store put without waiting."""
        await self._write_queued()
        return await self._read(lambda db: documents_sql.select_many(db, kind, [plain(id) for id in ids]))

    async def list_documents(self, kind: str, *, owner: str | None = None, limit: int = 1000) -> Sequence[Document]:
        await self._write_queued()
        return await self._read(lambda db: documents_sql.select_newest(db, kind, owner, limit))

    async def delete(self, kind: str, id: str) -> bool:
        return bool(await self._write(lambda db: documents_sql.delete(db, kind, plain(id))))

    def record_usage(self, record: UsageRecord) -> None:
        self._writer.insert(spending_sql.insert_usage, record, size=0)

    async def reserve(
        self, wanted: Reservation, *, day_start_ms: int, day_cap: float | None, session_cap: float | None
    ) -> tuple[float, float] | None:
        return await self._write(
            lambda db: spending_sql.reserve(
                db, wanted, day_start_ms=day_start_ms, day_cap=day_cap, session_cap=session_cap
            )
        )

    def release(self, id: str) -> None:
        self._writer.post(lambda db: spending_sql.release(db, id))

    async def sum_spending(self, *, since_ms: int = 0, session: str | None = None) -> SpendingTotal:
        await self._write_queued()
        return await self._read(lambda db: spending_sql.select_spent(db, since_ms, session))

    async def list_spent(self, *, since_ms: int = 0, session: str | None = None) -> Sequence[SpentRow]:
        await self._write_queued()
        return await self._read(lambda db: spending_sql.select_rows(db, since_ms, session))

    async def sum_up_usage(self, *, before_ms: int) -> bool:
        return bool(await self._write(lambda db: spending_sql.sum_up(db, before_ms)))

    async def put_facts(self, given: Sequence[Fact]) -> None:
        await self._write(lambda db: documents_sql.put_facts(db, given))

    async def find_fact(self, id: str) -> Fact | None:
        return await self._read(lambda db: documents_sql.select_fact(db, plain(id)))

    async def delete_fact(self, id: str) -> bool:
        return bool(await self._write(lambda db: documents_sql.delete_fact(db, plain(id))))

    async def clear_facts(self) -> int:
        return await self._write(documents_sql.clear_facts) or 0

    async def list_facts(self, *, limit: int) -> Sequence[Fact]:
        return await self._read(lambda db: documents_sql.select_newest_facts(db, limit))

    async def search_facts(self, query: str, *, limit: int) -> Sequence[Fact]:
        return await self._read(lambda db: documents_sql.search_facts(db, query, limit))

    async def create_run(self, run: RunRecord, *, lease_s: float) -> RunRecord:
        made = await self._write(lambda db: runs_sql.insert(db, run, lease_s))
        assert made is not None
        return made

    async def claim_run(self, id: str, owner: str, *, lease_s: float, dead: str = "") -> RunRecord | None:
        return await self._write(lambda db: runs_sql.claim(db, id, owner, lease_s, dead))

    async def update_run(self, run: RunRecord, *, lease_s: float) -> bool:
        return bool(await self._write(lambda db: runs_sql.update(db, run, lease_s)))

    async def renew_run(self, id: str, fence: int, *, lease_s: float) -> bool:
        return bool(await self._write(lambda db: runs_sql.renew(db, id, fence, lease_s)))

    async def find_run(self, id: str) -> RunRecord | None:
        return await self._read(lambda db: runs_sql.select_one(db, id))

    async def list_runs(self, *, limit: int, states: Sequence[RunState] = ()) -> Sequence[RunRecord]:
        return await self._read(lambda db: runs_sql.select_newest(db, limit, states))

    async def put_step(self, step: StepRecord, *, fence: int) -> bool:
        return bool(await self._write(lambda db: runs_sql.put_step(db, step, fence)))

    async def list_steps(self, run: str) -> Sequence[StepRecord]:
        return await self._read(lambda db: runs_sql.select_steps(db, run))

    async def release_memory(self) -> None:
        await self._writer.release_memory()
        if self._closing is None:
            await asyncio.wrap_future(self._reading.submit(self._drop_reader))

    async def aclose(self) -> None:
        """Idempotent. Raises StoreError if appended events could not be written; the threads end either way."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _write(self, run: Callable[[sqlite3.Connection], T], *, wait: bool = True) -> T | None:
        if not wait:
            self._writer.post(run)
            if self._writer.is_behind:
                await self._keep_up()
            return None
        result: T = await asyncio.wrap_future(self._writer.submit(run))
        self._opened = True
        return result

    async def _keep_up(self) -> None:
        """Slows down callers that produce more than the disk can take. Their data is queued already, so cancelling
        them loses nothing. The next flush reports errors."""
        with suppress(AishError):
            await asyncio.wrap_future(self._writer.submit(lambda db: None, durable=False))

    async def _write_queued(self) -> None:
        """Makes queued writes visible to reads."""
        if not self._writer.idle:
            await asyncio.wrap_future(self._writer.submit(None, durable=False))

    async def _read(self, run: Callable[[sqlite3.Connection], T]) -> T:
        if not self._opened:
            # Creates the file and brings it to the newest schema: a reader may do neither.
            await asyncio.wrap_future(self._writer.submit(None, durable=False))
            self._opened = True
        if self._closing is not None:
            raise store_closed()
        return await asyncio.wrap_future(self._reading.submit(self._run_read, run))

    def _run_read(self, run: Callable[[sqlite3.Connection], T]) -> T:
        try:
            if self._reader is None:
                self._reader = open_reader(self.path, busy_timeout_s=self._busy_timeout_s)
            return run(self._reader)
        except (sqlite3.Error, OSError, msgspec.MsgspecError, ValueError) as exc:
            self._drop_reader()
            raise translate(exc, self.path) from exc

    def _drop_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._reader = None

    async def _close(self) -> None:
        ended = self._writer.close()
        try:
            if ended is not None:
                await asyncio.wrap_future(ended)
        finally:
            self._writer.join()

    def _end_reading(self) -> None:
        self._reading.submit(self._drop_reader)
        self._reading.shutdown(wait=True)
