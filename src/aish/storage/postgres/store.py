"""The Store port over PostgreSQL, for several replicas that share nothing else. One task writes (see `writer`), reads
go over a pool (see `connections`).

Life: constructing touches nothing, not even the driver; the database opens at the first use; `aclose` writes
everything queued and ends every connection. A store belongs to one event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TypeVar

from aish.storage.postgres.connections import Connections, closed
from aish.storage.postgres.groups import ANY
from aish.storage.postgres.link import Link
from aish.storage.postgres.parts import PostgresFacts, PostgresFeed, PostgresRuns, PostgresSpending, plain
from aish.storage.postgres.sql import documents, sessions
from aish.storage.postgres.sql.documents import key_of
from aish.storage.postgres.writer import Writer
from aish.storage.sqlite.write_group import Append
from aish.storage.texts import words_of
from aish.types.events import TurnEnd
from aish.types.messages import Message
from aish.types.records import Document, SessionRecord, TurnRecord
from aish.types.usage import Usage

T = TypeVar("T")

CONNECT_S = 5.0
STATEMENT_S = 10.0
# How long a write waits for a database that has gone away. A restart takes a second or two, a failover longer.
PATIENCE_S = 15.0


class PostgresStore(PostgresSpending, PostgresFacts, PostgresRuns, PostgresFeed):
    def __init__(
        self,
        url: str,
        *,
        connect_s: float = CONNECT_S,
        statement_s: float = STATEMENT_S,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._connections = Connections(url, connect_s=connect_s, statement_s=statement_s)
        PostgresFeed.__init__(self)
        self._writer = Writer(self._connections, patience_s=patience_s, after_commit=self._wakes.tell)
        self._closing: asyncio.Task[None] | None = None

    async def create_session(self, session: SessionRecord) -> None:
        await self._write(lambda link: sessions.insert_session(link, session), keys=_of_session(session.id))

    async def find_session(self, session: str) -> SessionRecord | None:
        return await self._read(lambda link: sessions.select_session(link, plain(session)))

    async def list_sessions(
        self, *, limit: int, search: str = "", under: str = "", before: tuple[int, str] | None = None
    ) -> Sequence[SessionRecord]:
        words = words_of(search)
        return await self._read(lambda link: sessions.select_sessions(link, limit, words, plain(under), before))

    async def delete_session(self, session: str) -> bool:
        return await self._write(
            lambda link: sessions.delete_session(link, plain(session)), keys=_of_session(session), turn=ANY
        )

    async def start_turn(self, turn: TurnRecord) -> int:
        keys = _of_session(turn.session)
        return await self._write(lambda link: sessions.insert_turn(link, turn), keys=keys, turn=turn.id)

    def begin_turn(self, turn: TurnRecord) -> None:
        self._post(lambda link: sessions.insert_turn(link, turn), keys=_of_session(turn.session), turn=turn.id)

    async def record_turn(self, turn: TurnRecord, last_seq: int, lines: bytes) -> None:
        # It writes events itself: for the order of the feed, those before it come first.
        self._post(lambda link: sessions.insert_ended_turn(link, turn, last_seq, lines), turn=ANY)

    def append_events(self, turn: str, first_seq: int, last_seq: int, lines: bytes) -> None:
        """Events of a turn that is not there, or no longer, are dropped: deleting a session does not break its turn."""
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
        def run(link: Link) -> Awaitable[None]:
            return sessions.finish_turn(link, turn, end, finished_ms, messages, usage)

        if wait:
            await self._write(run)
        else:
            self._post(run)

    async def find_turn(self, turn: str) -> TurnRecord | None:
        return await self._read(lambda link: sessions.select_turn(link, plain(turn)), settled=True)

    async def list_turns(
        self, session: str, *, before: int | None = None, limit: int | None = None
    ) -> Sequence[TurnRecord]:
        return await self._read(lambda link: sessions.select_turns(link, plain(session), before, limit))

    async def read_events(self, turn: str, *, after_seq: int = 0) -> bytes:
        """Also sees what this store appended before, though that may not be durable yet."""
        return await self._read(lambda link: sessions.select_events(link, plain(turn), after_seq), settled=True)

    async def delete_turns(self, session: str, *, before_ms: int) -> int:
        return await self._write(
            lambda link: sessions.delete_turns(link, plain(session), before_ms), keys=_of_session(session), turn=ANY
        )

    async def put(self, document: Document, *, wait: bool = True) -> None:
        keys = (key_of(document.kind, document.id),)
        if wait:
            await self._write(lambda link: documents.put(link, document), keys=keys)
        else:
            self._post(lambda link: documents.put(link, document), keys=keys)

    async def put_new(self, document: Document) -> bool:
        keys = (key_of(document.kind, document.id),)
        return await self._write(lambda link: documents.put_new(link, document), keys=keys)

    async def swap(self, document: Document, *, old: bytes) -> bool:
        keys = (key_of(document.kind, document.id),)
        return await self._write(lambda link: documents.swap(link, document, old), keys=keys)

    async def find(self, kind: str, id: str) -> Document | None:
        return next(iter(await self.find_many(kind, [id])), None)

    async def find_many(self, kind: str, ids: Collection[str]) -> Sequence[Document]:
        """Sees what this store put without waiting, too."""
        wanted = [plain(id) for id in ids]
        return await self._read(lambda link: documents.select_many(link, kind, wanted), settled=True)

    async def list_documents(self, kind: str, *, owner: str | None = None, limit: int = 1000) -> Sequence[Document]:
        return await self._read(lambda link: documents.select_newest(link, kind, owner, limit), settled=True)

    async def delete(self, kind: str, id: str) -> bool:
        return await self._write(lambda link: documents.delete(link, kind, plain(id)), keys=(key_of(kind, id),))

    async def aclose(self) -> None:
        """Idempotent. Raises StoreError if something appended could not be written; all connections end either way."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _write(self, run: Callable[[Link], Awaitable[T]], *, keys: Sequence[str] = (), turn: str = "") -> T:
        result: T = await self._writer.submit(run, keys=keys, turn=turn)
        return result

    def _post(self, run: Callable[[Link], Awaitable[T]], *, keys: Sequence[str] = (), turn: str = "") -> None:
        self._writer.post(run, keys=keys, turn=turn)

    async def _read(self, run: Callable[[Link], Awaitable[T]], *, settled: bool = False) -> T:
        """`settled`: what was queued before is written first, so that it is seen."""
        if self._closing is not None:
            raise closed()
        if settled and not self._writer.idle:
            await self._writer.submit(None, durable=False)
        return await self._connections.read(run)

    async def _close(self) -> None:
        try:
            await self._writer.close()
        finally:
            await self._connections.aclose()


def _of_session(session: str) -> tuple[str, ...]:
    """The key of a session; turns of none have none in common."""
    return (f"session/{session}",) if session else ()
