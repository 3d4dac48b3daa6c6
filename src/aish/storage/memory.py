"""The Store port in memory: for runs that store nothing, and for tests."""

from __future__ import annotations

import asyncio
import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from itertools import groupby

import msgspec

from aish.storage.store_rules import (
    OF_SESSIONS,
    already_there,
    clock_ms,
    events_after,
    fold,
    fold_messages,
    index_words,
    is_over_cap,
    lease_is_over,
    no_session,
    no_turn,
    quarter_of,
    session_with_turn,
    store_closed,
    words_of,
)
from aish.types.events import TurnEnd
from aish.types.messages import Message
from aish.types.records import Document, Fact, FeedRow, SessionRecord, TurnRecord
from aish.types.runs import RunRecord, RunState, StepRecord
from aish.types.usage import Category, Reservation, SpendingTotal, SpentRow, Usage, UsageRecord


class MemoryStore:
    def __init__(self) -> None:
        self._sessions: dict[str, SessionRecord] = {}
        self._turns: dict[str, TurnRecord] = {}
        self._events: dict[str, list[tuple[int, int, bytes]]] = {}
        self._documents: dict[tuple[str, str], Document] = {}
        self._closed = False
        self._feed_rows: list[FeedRow] = []
        self._feed_end = 0
        self._feed_changed = asyncio.Event()
        self._usage: dict[str, UsageRecord] = {}
        self._calls: dict[str, int] = {}  # of records that are sums
        self._reserved: dict[str, Reservation] = {}
        self._facts: dict[str, Fact] = {}
        self._runs: dict[str, RunRecord] = {}
        self._steps: dict[str, dict[int, StepRecord]] = {}

    async def create_session(self, session: SessionRecord) -> None:
        self._check_open()
        if session.id in self._sessions:
            raise already_there("session", session.id)
        self._sessions[session.id] = session

    async def find_session(self, session: str) -> SessionRecord | None:
        self._check_open()
        return self._sessions.get(session)

    async def list_sessions(
        self,
        *,
        limit: int,
        search: str = "",
        under: str = "",
        before: tuple[int, str] | None = None,
        parent: str | None = "",
    ) -> Sequence[SessionRecord]:
        self._check_open()
        of_parent = [one for one in self._sessions.values() if parent in (None, one.parent)]
        found = [one for one in of_parent if one.id.startswith(under) and self._matches(one, words_of(search))]
        found = [one for one in found if before is None or (one.updated_ms, one.id) < before]
        return sorted(found, key=lambda one: (one.updated_ms, one.id), reverse=True)[: max(limit, 0)]

    async def delete_session(self, session: str) -> bool:
        self._check_open()
        turns = {turn.id for turn in self._turns_of(session)}
        for child in [one.id for one in self._sessions.values() if one.parent in (session, *turns)]:
            await self.delete_session(child)
        for turn in turns:
            del self._turns[turn]
            self._events.pop(turn, None)
        self._remove_from_feed(turns)
        for kind in OF_SESSIONS:
            self._documents.pop((kind, session), None)
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
            self._add_to_feed(turn.id, 1, lines)

    async def stored_bytes(self, owner: str) -> int:
        own = [turn for turn in self._turns.values() if turn.session.startswith(f"{owner}/")]
        documents = [document for document in self._documents.values() if owner and document.owner == owner]
        return (
            sum(len(document.body) for document in documents)
            + sum(len(msgspec.json.encode((turn.input, turn.messages))) for turn in own)
            + sum(len(lines) for turn in own for _, _, lines in self._events.get(turn.id, ()))
        )

    def append_events(self, turn: str, first_seq: int, last_seq: int, lines: bytes) -> None:
        self._check_open()
        if turn in self._turns:
            self._events.setdefault(turn, []).append((first_seq, last_seq, lines))
            self._add_to_feed(turn, first_seq, lines)

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
        self._remove_from_feed({turn.id for turn in old})
        return len(old)

    async def trim_traces(self, max_bytes: int) -> int:
        left = max_bytes
        for turn in sorted(self._turns_of(""), key=lambda turn: turn.started_ms, reverse=True):
            left -= sum(len(lines) for _, _, lines in self._events.get(turn.id, ()))
            if left < 0:
                return await self.delete_turns("", before_ms=turn.started_ms + 1)
        return 0

    async def put(self, document: Document, *, wait: bool = True) -> None:
        self._check_open()
        self._documents[document.kind, document.id] = _with_date(document)

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

    async def read_feed(self, after: int, limit: int) -> Sequence[FeedRow]:
        self._check_open()
        start = bisect_right(self._feed_rows, after, key=lambda row: row.cursor)
        return self._feed_rows[start : start + max(limit, 0)]

    async def feed_end(self) -> int:
        self._check_open()
        return self._feed_end

    async def wait_feed(self, after: int, timeout_s: float) -> bool:
        self._check_open()
        changed = self._feed_changed
        if self._feed_end <= after and timeout_s > 0:
            try:
                async with asyncio.timeout(timeout_s):
                    await changed.wait()
            except TimeoutError:
                pass
        return self._feed_end > after

    def record_usage(self, record: UsageRecord) -> None:
        self._check_open()
        self._reserved.pop(record.id, None)
        self._calls.pop(record.id, None)
        self._usage[record.id] = record

    async def reserve(
        self, wanted: Reservation, *, day_start_ms: int, day_cap: float | None, session_cap: float | None
    ) -> tuple[float, float] | None:
        self._check_open()
        self._reserved = {
            id: reservation for id, reservation in self._reserved.items() if reservation.expires_ms > wanted.at_ms
        }
        day = self._cost(lambda at_ms, session: at_ms >= day_start_ms)
        session = self._cost(lambda at_ms, session: session == wanted.session) if wanted.session else 0.0
        if is_over_cap(day + wanted.cost, day_cap) or (
            wanted.session and is_over_cap(session + wanted.cost, session_cap)
        ):
            return day, session
        self._calls.pop(wanted.id, None)
        self._usage.pop(wanted.id, None)
        self._reserved[wanted.id] = wanted
        return None

    def release(self, id: str) -> None:
        self._check_open()
        self._reserved.pop(id, None)

    async def sum_spending(self, *, since_ms: int = 0, session: str | None = None) -> SpendingTotal:
        self._check_open()
        return self._sum(self._since(since_ms, session))

    async def list_spent(self, *, since_ms: int = 0, session: str | None = None) -> Sequence[SpentRow]:
        self._check_open()
        records = sorted(self._since(since_ms, session), key=_key)
        groups = [(key, list(group)) for key, group in groupby(records, key=_key)]
        return [SpentRow(day, model, Category(category), self._sum(group)) for (day, model, category), group in groups]

    async def sum_up_usage(self, *, before_ms: int) -> bool:
        self._check_open()
        done_ms = max((self._usage[id].at_ms for id in self._calls), default=-1)
        first_ms = min((r.at_ms for r in self._usage.values() if r.at_ms > done_ms), default=before_ms)
        start_ms, end_ms = quarter_of(first_ms)
        if end_ms > before_ms:
            return False
        records = sorted((r for r in self._usage.values() if start_ms <= r.at_ms < end_ms), key=_kind)
        for _, group in groupby(records, key=_kind):
            self._join(list(group))
        return True

    async def put_facts(self, given: Sequence[Fact]) -> None:
        self._check_open()
        for fact in given:
            before = self._facts.get(fact.id)
            created_ms = before.created_ms if before else fact.created_ms
            self._facts[fact.id] = msgspec.structs.replace(fact, created_ms=created_ms)

    async def find_fact(self, id: str) -> Fact | None:
        self._check_open()
        return self._facts.get(id)

    async def delete_fact(self, id: str) -> bool:
        self._check_open()
        return self._facts.pop(id, None) is not None

    async def clear_facts(self) -> int:
        self._check_open()
        count = len(self._facts)
        self._facts.clear()
        return count

    async def list_facts(self, *, limit: int) -> Sequence[Fact]:
        self._check_open()
        return self._newest()[: max(limit, 0)]

    async def search_facts(self, query: str, *, limit: int) -> Sequence[Fact]:
        """Rare words count more, as in the index of the SQLite store."""
        self._check_open()
        texts = [(fact, set(index_words(f"{fact.text} {' '.join(fact.tags)}"))) for fact in self._newest()]
        holding = Counter(word for _, words in texts for word in words)
        wanted = set(index_words(query))
        scored = [(sum(math.log(1 + len(texts) / holding[w]) for w in wanted & words), f) for f, words in texts]
        scored.sort(key=lambda pair: -pair[0])
        return [fact for score, fact in scored if score > 0][: max(limit, 0)]

    async def create_run(self, run: RunRecord, *, lease_s: float) -> RunRecord:
        self._check_open()
        if run.id in self._runs:
            raise already_there("run", run.id)
        now_ms = clock_ms()
        made = msgspec.structs.replace(
            run, created_ms=now_ms, updated_ms=now_ms, fence=1, lease_ms=now_ms + int(lease_s * 1000)
        )
        self._runs[run.id] = made
        return made

    async def claim_run(self, id: str, owner: str, *, lease_s: float, dead: str = "") -> RunRecord | None:
        self._check_open()
        run, now_ms = self._runs.get(id), clock_ms()
        if run is None or not lease_is_over(run, now_ms, dead):
            return None
        until_ms = now_ms + int(lease_s * 1000)
        self._runs[id] = msgspec.structs.replace(
            run, owner=owner, fence=run.fence + 1, lease_ms=until_ms, updated_ms=now_ms
        )
        return self._runs[id]

    async def update_run(self, run: RunRecord, *, lease_s: float) -> bool:
        self._check_open()
        stored, now_ms = self._runs.get(run.id), clock_ms()
        if stored is None or stored.fence != run.fence:
            return False
        self._runs[run.id] = msgspec.structs.replace(
            stored,
            session=run.session,
            state=run.state,
            body=run.body,
            reason=run.reason,
            owner=run.owner,
            updated_ms=now_ms,
            lease_ms=now_ms + int(lease_s * 1000),
        )
        return True

    async def renew_run(self, id: str, fence: int, *, lease_s: float) -> bool:
        self._check_open()
        stored = self._runs.get(id)
        if stored is None or stored.fence != fence:
            return False
        self._runs[id] = msgspec.structs.replace(stored, lease_ms=clock_ms() + int(lease_s * 1000))
        return True

    async def find_run(self, id: str) -> RunRecord | None:
        self._check_open()
        return self._runs.get(id)

    async def list_runs(self, *, limit: int, states: Sequence[RunState] = ()) -> Sequence[RunRecord]:
        self._check_open()
        found = [run for run in self._runs.values() if not states or run.state in states]
        return sorted(found, key=lambda run: (run.created_ms, run.id), reverse=True)[: max(limit, 0)]

    async def put_step(self, step: StepRecord, *, fence: int) -> bool:
        self._check_open()
        run = self._runs.get(step.run)
        if run is None or run.fence != fence:
            return False
        self._steps.setdefault(step.run, {})[step.number] = step
        return True

    async def list_steps(self, run: str) -> Sequence[StepRecord]:
        self._check_open()
        return [step for _, step in sorted(self._steps.get(run, {}).items())]

    async def release_memory(self) -> None:
        """Nothing is held."""

    async def aclose(self) -> None:
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise store_closed()

    def _turns_of(self, session: str) -> list[TurnRecord]:
        return sorted((turn for turn in self._turns.values() if turn.session == session), key=lambda turn: turn.number)

    def _matches(self, session: SessionRecord, words: Sequence[str]) -> bool:
        if not words:
            return True
        texts = [fold(session.title)]
        texts += [fold_messages((*turn.input, *turn.messages)) for turn in self._turns_of(session.id)]
        return all(any(word in text for text in texts) for word in words)

    def _add_to_feed(self, turn: str, first_seq: int, lines: bytes) -> None:
        self._feed_end += 1
        self._feed_rows.append(FeedRow(self._feed_end, self._turns[turn].session, turn, first_seq, lines))
        changed, self._feed_changed = self._feed_changed, asyncio.Event()
        changed.set()

    def _remove_from_feed(self, turns: Collection[str]) -> None:
        self._feed_rows = [row for row in self._feed_rows if row.turn not in turns]

    def _join(self, records: list[UsageRecord]) -> None:
        summed, first = self._sum(records), min(records, key=lambda r: r.id)
        for record in records:
            del self._usage[record.id]
            self._calls.pop(record.id, None)
        self._calls[first.id] = summed.calls
        self._usage[first.id] = UsageRecord(
            first.id,
            max(r.at_ms for r in records),
            first.session,
            first.model,
            first.category,
            Usage(summed.prompt_tokens, summed.completion_tokens, cost=None if summed.unknown else summed.cost),
            summed.estimates,
        )

    def _since(self, since_ms: int, session: str | None) -> list[UsageRecord]:
        records = self._usage.values()
        return [r for r in records if r.at_ms >= since_ms and (session is None or r.session == session)]

    def _sum(self, records: Iterable[UsageRecord]) -> SpendingTotal:
        records = list(records)
        return SpendingTotal(
            calls=sum(self._calls.get(r.id, 1) for r in records),
            prompt_tokens=sum(r.usage.prompt_tokens for r in records),
            completion_tokens=sum(r.usage.completion_tokens for r in records),
            cost=sum((r.usage.cost or 0.0 for r in records), 0.0),
            unknown=sum(self._calls.get(r.id, 1) for r in records if r.usage.cost is None),
            estimates=sum(r.estimate for r in records),
            estimated_of=sum(r.usage.prompt_tokens for r in records if r.estimate),
        )

    def _cost(self, counts: Callable[[int, str], bool]) -> float:
        spent = sum(r.usage.cost or 0.0 for r in self._usage.values() if counts(r.at_ms, r.session))
        return spent + sum(
            reservation.cost
            for reservation in self._reserved.values()
            if counts(reservation.at_ms, reservation.session)
        )

    def _newest(self) -> list[Fact]:
        return sorted(self._facts.values(), key=lambda fact: (fact.updated_ms, fact.id), reverse=True)

    def _delete_runs_of(self, session: str) -> None:
        for id in [run.id for run in self._runs.values() if run.session == session]:
            del self._runs[id]
            self._steps.pop(id, None)


def _with_date(document: Document) -> Document:
    return document if document.created_ms else msgspec.structs.replace(document, created_ms=clock_ms())


def _is_alive(document: Document) -> bool:
    return document.expires_ms == 0 or document.expires_ms > clock_ms()


def _key(record: UsageRecord) -> tuple[str, str, str]:
    return datetime.fromtimestamp(record.at_ms / 1000).strftime("%Y-%m-%d"), record.model, record.category.value


def _kind(record: UsageRecord) -> tuple[str, str, str, bool, bool]:
    """Records with the same key are summed up together."""
    return record.session, record.model, record.category.value, record.usage.cost is None, record.estimate > 0
