"""The Store port without a disk: for runs that keep nothing, and for tests."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

import msgspec

from aish.errors import StoreError
from aish.storage.memory.facts import MemoryFacts
from aish.storage.memory.feed import MemoryFeed
from aish.storage.memory.runs import MemoryRuns
from aish.storage.memory.spending import MemorySpending
from aish.storage.semantics import SUMMARY, already_there, events_after, no_session, no_turn, session_with_turn
from aish.storage.texts import fold, fold_messages, words_of
from aish.types.events import TurnEnd
from aish.types.messages import Message
from aish.types.records import Document, SessionRecord, TurnRecord
from aish.types.usage import Usage


class MemoryStore(MemorySpending, MemoryFacts, MemoryRuns, MemoryFeed):
    def __init__(self) -> None:
        self._sessions: dict[str, SessionRecord] = {}
        self._turns: dict[str, TurnRecord] = {}
        self._events: dict[str, list[tuple[int, int, bytes]]] = {}
        self._documents: dict[tuple[str, str], Document] = {}
        self._closed = False
        MemorySpending.__init__(self)
        MemoryFacts.__init__(self)
        MemoryRuns.__init__(self)
        MemoryFeed.__init__(self, self._turns)

    async def create_session(self, session: SessionRecord) -> None:
        self._check_open()
        if session.id in self._sessions:
            raise already_there("session", session.id)
        self._sessions[session.id] = session

    async def find_session(self, session: str) -> SessionRecord | None:
        self._check_open()
        return self._sessions.get(session)

    async def list_sessions(
        self, *, limit: int, search: str = "", under: str = "", before: tuple[int, str] | None = None
    ) -> Sequence[SessionRecord]:
        self._check_open()
        words = words_of(search)
        found = [session for session in self._sessions.values() if self._matches(session, words)]
        found = [session for session in found if session.id.startswith(under)]
        found = [session for session in found if before is None or (session.updated_ms, session.id) < before]
        found.sort(key=lambda session: (session.updated_ms, session.id), reverse=True)
        return found[: max(limit, 0)]

    async def delete_session(self, session: str) -> bool:
        self._check_open()
        turns = self._turns_of(session)
        for turn in turns:
            del self._turns[turn.id]
            self._events.pop(turn.id, None)
        self._unfeed({turn.id for turn in turns})
        self._documents.pop((SUMMARY, session), None)
        self._delete_runs_of(session)
        return self._sessions.pop(session, None) is not None

    async def start_turn(self, turn: TurnRecord) -> int:
        self._check_open()
        session = self._sessions.get(turn.session)
        if session is None and turn.session:
            raise no_session(turn.session)
        if turn.id in self._turns:
            raise already_there("turn", turn.id)
        if session is None or not turn.session:
            self.begin_turn(turn)
            return 0
        number = max((other.number for other in self._turns_of(turn.session)), default=0) + 1
        self._turns[turn.id] = TurnRecord(
            turn.id, turn.session, number, turn.model, turn.started_ms, turn.input, owner=turn.owner
        )
        self._sessions[turn.session] = session_with_turn(session, turn, number)
        return number

    def begin_turn(self, turn: TurnRecord) -> None:
        self._check_open()
        self._turns.setdefault(turn.id, msgspec.structs.replace(turn, session="", number=0))

    async def record_turn(self, turn: TurnRecord, last_seq: int, lines: bytes) -> None:
        self._check_open()
        if turn.id not in self._turns:
            self._turns[turn.id] = msgspec.structs.replace(turn, session="", number=0)
            self._events[turn.id] = [(1, last_seq, lines)]
            self._feed(turn.id, 1, lines)

    def append_events(self, turn: str, first_seq: int, last_seq: int, lines: bytes) -> None:
        self._check_open()
        if turn in self._turns:
            self._events.setdefault(turn, []).append((first_seq, last_seq, lines))
            self._feed(turn, first_seq, lines)

    async def flush(self, *, durable: bool = True) -> None:
        self._check_open()

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
        self._check_open()
        record = self._turns.get(turn)
        if record is None:
            raise no_turn(turn)
        self._turns[turn] = msgspec.structs.replace(
            record, end=end, finished_ms=finished_ms, messages=tuple(messages), usage=usage
        )
        if not record.session:
            return
        session = self._sessions[record.session]
        self._sessions[session.id] = msgspec.structs.replace(session, updated_ms=max(session.updated_ms, finished_ms))

    async def find_turn(self, turn: str) -> TurnRecord | None:
        self._check_open()
        return self._turns.get(turn)

    async def list_turns(
        self, session: str, *, before: int | None = None, limit: int | None = None
    ) -> Sequence[TurnRecord]:
        self._check_open()
        turns = self._turns_of(session) if session else []
        wanted = [turn for turn in turns if before is None or turn.number < before]
        return wanted if limit is None else wanted[max(0, len(wanted) - max(limit, 0)) :]

    async def read_events(self, turn: str, *, after_seq: int = 0) -> bytes:
        self._check_open()
        rows = sorted(self._events.get(turn, ()), key=lambda row: row[0])
        return events_after([(first, lines) for first, last, lines in rows if last > after_seq], after_seq)

    async def delete_turns(self, session: str, *, before_ms: int) -> int:
        self._check_open()
        old = [turn for turn in self._turns_of(session) if turn.started_ms < before_ms]
        for turn in old:
            del self._turns[turn.id]
            self._events.pop(turn.id, None)
        self._unfeed({turn.id for turn in old})
        return len(old)

    async def put(self, document: Document, *, wait: bool = True) -> None:
        self._check_open()
        self._documents[document.kind, document.id] = _dated(document)

    async def put_new(self, document: Document) -> bool:
        if await self.find(document.kind, document.id) is not None:
            return False
        await self.put(document)
        return True

    async def swap(self, document: Document, *, old: bytes) -> bool:
        found = await self.find(document.kind, document.id)
        if found is None or found.body != old:
            return False
        changed = msgspec.structs.replace(found, body=document.body, expires_ms=document.expires_ms)
        self._documents[document.kind, document.id] = changed
        return True

    async def find(self, kind: str, id: str) -> Document | None:
        self._check_open()
        found = self._documents.get((kind, id))
        return found if found is not None and _is_alive(found) else None

    async def find_many(self, kind: str, ids: Collection[str]) -> Sequence[Document]:
        return [found for id in ids if (found := await self.find(kind, id)) is not None]

    async def list_documents(self, kind: str, *, owner: str | None = None, limit: int = 1000) -> Sequence[Document]:
        self._check_open()
        alive = [document for document in self._documents.values() if document.kind == kind and _is_alive(document)]
        wanted = [document for document in alive if owner is None or document.owner == owner]
        wanted.sort(key=lambda document: (document.created_ms, document.id), reverse=True)
        return wanted[: max(limit, 0)]

    async def delete(self, kind: str, id: str) -> bool:
        found = await self.find(kind, id)
        self._documents.pop((kind, id), None)
        return found is not None

    async def aclose(self) -> None:
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("the store is closed", hint="open a new one")

    def _turns_of(self, session: str) -> list[TurnRecord]:
        return sorted((turn for turn in self._turns.values() if turn.session == session), key=lambda turn: turn.number)

    def _matches(self, session: SessionRecord, words: Sequence[str]) -> bool:
        if not words:
            return True
        texts = [fold(session.title)]
        texts += [fold_messages((*turn.input, *turn.messages)) for turn in self._turns_of(session.id)]
        return all(any(word in text for text in texts) for word in words)


def _dated(document: Document) -> Document:
    return document if document.created_ms else msgspec.structs.replace(document, created_ms=_now_ms())


def _is_alive(document: Document) -> bool:
    return document.expires_ms == 0 or document.expires_ms > _now_ms()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
