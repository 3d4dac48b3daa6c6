"""What a key may spend in a day: reserved before each call, shared by processes."""

from __future__ import annotations

import asyncio
import time

import pytest

from aish.engine.model.key_spending import KeySpending
from aish.errors import BudgetExceeded
from aish.storage.memory import MemoryStore
from aish.types.usage import KeyBudget, Price, Usage

FREE = Price(0.0, 0.0)
UNTIL_MS = 2**60


class ManualClock:
    """Begins today at noon, and goes on when it is told to."""

    def __init__(self) -> None:
        day_ms = 86_400_000
        self._now_ms = time.time_ns() // 1_000_000 // day_ms * day_ms + day_ms // 2

    def now_ms(self) -> int:
        return self._now_ms

    def now_ns(self) -> int:
        return self._now_ms * 1_000_000

    def monotonic_s(self) -> float:
        return self._now_ms / 1000

    def advance(self, seconds: float) -> None:
        self._now_ms += int(seconds * 1000)


def spending(store: MemoryStore, clock: ManualClock | None = None) -> KeySpending:
    return KeySpending(store, clock or ManualClock())


async def test_many_calls_at_once_reserve_no_more_than_the_budget():
    keys, payer, spent = spending(MemoryStore()), KeyBudget("key_a", tokens_per_day=1000), []

    async def call() -> None:
        try:
            reserved, answer = await keys.reserve(payer, 10, 90, FREE, UNTIL_MS)
        except BudgetExceeded:
            return
        await asyncio.sleep(0)
        keys.book("key_a", Usage(10, answer), reserved)
        spent.append(10 + answer)

    await asyncio.gather(*[call() for _ in range(40)])
    assert sum(spent) <= 1000
    assert (await keys.today("key_a")).tokens == sum(spent)
    assert len(spent) >= 10


async def test_processes_at_the_same_time_reserve_no_more_than_the_budget():
    store, payer = MemoryStore(), KeyBudget("key_a", tokens_per_day=200)
    granted = []

    async def call(keys: KeySpending) -> None:
        try:
            reserved, _ = await keys.reserve(payer, 10, 90, FREE, UNTIL_MS)
        except BudgetExceeded:
            return
        granted.append(reserved.tokens)

    await asyncio.gather(*[call(spending(store)) for _ in range(8)])
    assert sum(granted) <= 200


async def test_a_budget_that_is_nearly_used_up_pays_for_a_shorter_answer_and_then_for_none():
    keys, payer = spending(MemoryStore()), KeyBudget("key_a", tokens_per_day=100)
    reserved, answer = await keys.reserve(payer, 20, 4000, FREE, UNTIL_MS)
    assert answer == 80
    keys.book("key_a", Usage(20, 70), reserved)
    with pytest.raises(BudgetExceeded, match="90 of 100 tokens"):
        await keys.reserve(payer, 5, 4000, FREE, UNTIL_MS)


async def test_dollars_are_reserved_like_tokens():
    keys, payer = spending(MemoryStore()), KeyBudget("key_a", dollars_per_day=1.0)
    price = Price(1000.0, 1000.0)  # a tenth of a cent for each token
    _, answer = await keys.reserve(payer, 100, 4000, price, UNTIL_MS)
    assert answer == 900
    with pytest.raises(BudgetExceeded, match=r"\$1\.0000 of \$1\.0000"):
        await keys.reserve(payer, 1, 4000, price, UNTIL_MS)


async def test_a_call_that_was_not_made_gives_its_tokens_back():
    keys, payer = spending(MemoryStore()), KeyBudget("key_a", tokens_per_day=100)
    reserved, _ = await keys.reserve(payer, 20, 80, FREE, UNTIL_MS)
    keys.release(reserved)
    assert (await keys.today("key_a")).tokens == 0
    assert (await keys.reserve(payer, 20, 80, FREE, UNTIL_MS))[1] == 80


async def test_what_is_only_reserved_does_not_count_as_spent_and_saving_ends_it_for_other_processes():
    store, payer = MemoryStore(), KeyBudget("key_a", tokens_per_day=100)
    keys, others = spending(store), spending(store)
    reserved, _ = await keys.reserve(payer, 20, 80, FREE, UNTIL_MS)
    assert (await others.today("key_a")).tokens == 0
    with pytest.raises(BudgetExceeded, match="100 of 100 tokens"):
        await others.reserve(payer, 20, 80, FREE, UNTIL_MS)
    keys.book("key_a", Usage(20, 10), reserved)
    await keys.save("key_a")
    assert (await others.reserve(payer, 20, 80, FREE, UNTIL_MS))[1] == 50


async def test_what_a_dead_process_has_reserved_counts_until_its_deadline():
    store, clock, payer = MemoryStore(), ManualClock(), KeyBudget("key_a", tokens_per_day=100)
    await spending(store, clock).reserve(payer, 20, 80, FREE, clock.now_ms() + 60_000)
    later = spending(store, clock)
    with pytest.raises(BudgetExceeded):
        await later.reserve(payer, 20, 80, FREE, clock.now_ms() + 60_000)
    clock.advance(61.0)
    assert (await later.reserve(payer, 20, 80, FREE, clock.now_ms() + 60_000))[1] == 80
