"""Spending, facts, runs and the feed in PostgreSQL. Parts of `store`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from aish.storage.postgres import cursors
from aish.storage.postgres.groups import BUDGET
from aish.storage.postgres.link import Link
from aish.storage.postgres.sql import facts, runs, spending
from aish.storage.sqlite.feed import Wakes
from aish.types.facts import Fact
from aish.types.records import FeedRow
from aish.types.runs import RunRecord, RunState, StepRecord
from aish.types.usage import Reservation, Spent, SpentRow, UsageRecord

T = TypeVar("T")

_FACTS = ("facts",)


class Part:
    """What the parts need of the whole."""

    async def _write(self, run: Callable[[Link], Awaitable[T]], *, keys: Sequence[str] = (), turn: str = "") -> T:
        raise NotImplementedError

    def _post(self, run: Callable[[Link], Awaitable[T]], *, keys: Sequence[str] = (), turn: str = "") -> None:
        raise NotImplementedError

    async def _read(self, run: Callable[[Link], Awaitable[T]], *, settled: bool = False) -> T:
        raise NotImplementedError


class PostgresSpending(Part):
    def record_usage(self, record: UsageRecord) -> None:
        self._post(lambda link: spending.record(link, record))

    async def reserve(
        self, wanted: Reservation, *, day_start_ms: int, day_cap: float | None, session_cap: float | None
    ) -> tuple[float, float] | None:
        caps = {"day_cap": day_cap, "session_cap": session_cap}
        return await self._write(
            lambda link: spending.reserve(link, wanted, day_start_ms=day_start_ms, **caps), keys=(BUDGET,)
        )

    def release(self, id: str) -> None:
        self._post(lambda link: spending.release(link, id))

    async def spent(self, *, since_ms: int = 0, session: str | None = None) -> Spent:
        return await self._read(lambda link: spending.select_spent(link, since_ms, session), settled=True)

    async def list_spent(self, *, since_ms: int = 0, session: str | None = None) -> Sequence[SpentRow]:
        return await self._read(lambda link: spending.select_rows(link, since_ms, session), settled=True)

    async def sum_up_usage(self, *, before_ms: int) -> bool:
        return await self._write(lambda link: spending.sum_up(link, before_ms), keys=(BUDGET,))


class PostgresFacts(Part):
    async def put_facts(self, given: Sequence[Fact]) -> None:
        await self._write(lambda link: facts.put(link, given), keys=_FACTS)

    async def find_fact(self, id: str) -> Fact | None:
        return await self._read(lambda link: facts.select_one(link, plain(id)))

    async def delete_fact(self, id: str) -> bool:
        return await self._write(lambda link: facts.delete(link, plain(id)), keys=_FACTS)

    async def clear_facts(self) -> int:
        return await self._write(facts.clear, keys=_FACTS)

    async def list_facts(self, *, limit: int) -> Sequence[Fact]:
        return await self._read(lambda link: facts.select_newest(link, limit))

    async def search_facts(self, query: str, *, limit: int) -> Sequence[Fact]:
        return await self._read(lambda link: facts.search(link, query, limit))


class PostgresRuns(Part):
    async def create_run(self, run: RunRecord, *, lease_s: float) -> RunRecord:
        return await self._write(lambda link: runs.insert(link, run, lease_s), keys=(runs.key_of(run.id),))

    async def claim_run(self, id: str, owner: str, *, lease_s: float, dead: str = "") -> RunRecord | None:
        return await self._write(
            lambda link: runs.claim(link, plain(id), owner, lease_s, dead), keys=(runs.key_of(id),)
        )

    async def update_run(self, run: RunRecord, *, lease_s: float) -> bool:
        return await self._write(lambda link: runs.update(link, run, lease_s), keys=(runs.key_of(run.id),))

    async def renew_run(self, id: str, fence: int, *, lease_s: float) -> bool:
        return await self._write(lambda link: runs.renew(link, plain(id), fence, lease_s), keys=(runs.key_of(id),))

    async def find_run(self, id: str) -> RunRecord | None:
        return await self._read(lambda link: runs.select_one(link, plain(id)))

    async def list_runs(self, *, limit: int, states: Sequence[RunState] = ()) -> Sequence[RunRecord]:
        return await self._read(lambda link: runs.select_newest(link, limit, states))

    async def put_step(self, step: StepRecord, *, fence: int) -> bool:
        return await self._write(lambda link: runs.put_step(link, step, fence), keys=(runs.key_of(step.run),))

    async def list_steps(self, run: str) -> Sequence[StepRecord]:
        return await self._read(lambda link: runs.select_steps(link, plain(run)))


class PostgresFeed(Part):
    def __init__(self) -> None:
        self._wakes = Wakes()

    async def read_feed(self, after: int, limit: int) -> Sequence[FeedRow]:
        return await self._read(lambda link: cursors.select_rows(link, after, limit))

    async def feed_end(self) -> int:
        return await self._read(cursors.select_end)

    async def wait_feed(self, after: int, timeout_s: float) -> bool:
        return await self._wakes.wait_past(after, timeout_s, self.feed_end)


def plain(name: str) -> str:
    """An id typed on a command line may hold what is not text; it then names nothing."""
    return name.encode("utf-8", "replace").decode()
