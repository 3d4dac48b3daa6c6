"""What calls cost, without a disk. A part of `memory`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from itertools import groupby

from aish.storage.semantics import is_over_cap, quarter_of
from aish.types.usage import Category, Reservation, Spent, SpentRow, Usage, UsageRecord


class MemorySpending:
    def __init__(self) -> None:
        self._usage: dict[str, UsageRecord] = {}
        self._calls: dict[str, int] = {}  # of those that are sums
        self._reserved: dict[str, Reservation] = {}

    def _check_open(self) -> None:
        raise NotImplementedError

    def record_usage(self, record: UsageRecord) -> None:
        self._check_open()
        self._reserved.pop(record.id, None)
        self._calls.pop(record.id, None)
        self._usage[record.id] = record

    async def reserve(
        self, wanted: Reservation, *, day_start_ms: int, day_cap: float | None, session_cap: float | None
    ) -> tuple[float, float] | None:
        self._check_open()
        self._reserved = {id: held for id, held in self._reserved.items() if held.expires_ms > wanted.at_ms}
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

    async def spent(self, *, since_ms: int = 0, session: str | None = None) -> Spent:
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

    def _sum(self, records: Iterable[UsageRecord]) -> Spent:
        records = list(records)
        return Spent(
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
        return spent + sum(held.cost for held in self._reserved.values() if counts(held.at_ms, held.session))


def _key(record: UsageRecord) -> tuple[str, str, str]:
    return datetime.fromtimestamp(record.at_ms / 1000).strftime("%Y-%m-%d"), record.model, record.category.value


def _kind(record: UsageRecord) -> tuple[str, str, str, bool, bool]:
    """What is summed up together."""
    return record.session, record.model, record.category.value, record.usage.cost is None, record.estimate > 0
