"""What calls cost, and the caps that are checked before one is made."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aish.config.schema.config import PriceConfig
from aish.config.toml_file import price_table, shipped_prices
from aish.engine.engine import flatten
from aish.engine.model.ledger import Caps, Prices, day_start_ms
from aish.errors import StoreError
from aish.providers.openai.response import read_usage
from aish.storage.memory import MemoryStore
from aish.storage.sqlite.store import SqliteStore
from aish.types.chunks import StepEnd, StepFinished, UsageChunk
from aish.types.events import Status, TextDelta, TurnEnd, UsageReported
from aish.types.requests import Sampling
from aish.types.usage import Category, Price, Reservation, Usage, UsageRecord
from support.engines import Bench, Tools, bodies, call, finish

DEAR = Price(prompt=1_000.0, completion=10_000.0)  # a tenth of a cent a token in, a cent out


def bench(*steps: Any, caps: Caps = Caps(), prices: dict[str, Price] | None = None, **more: Any) -> Bench:  # noqa: B008
    table = {"scripted:model": DEAR} if prices is None else prices
    return Bench(*steps, settings={"caps": caps, "prices": Prices(table)}, **more)


def answered(usage: Usage | None = None, text: str = "four words of answer") -> list[Any]:
    reported = [UsageChunk(usage)] if usage else []
    return [TextDelta(text), *reported, StepFinished(StepEnd.STOP)]


async def test_a_call_is_priced_by_the_table_and_recorded():
    made = bench(answered(Usage(100, 10)))
    events = await made.run("hello")
    spent = await made.store.sum_spending()
    assert (spent.calls, spent.prompt_tokens, spent.completion_tokens) == (1, 100, 10)
    assert spent.cost == pytest.approx(0.2)
    assert finish(events).usage.cost == pytest.approx(0.2)


async def test_what_the_provider_says_it_cost_comes_first():
    made = bench(answered(Usage(100, 10, cost=0.07)))
    await made.run("hello")
    assert (await made.store.sum_spending()).cost == pytest.approx(0.07)


async def test_a_model_without_a_price_costs_unknown_and_not_nothing():
    made = bench(answered(Usage(100, 10)), prices={})
    events = await made.run("hello")
    spent = await made.store.sum_spending()
    assert (spent.cost, spent.unknown) == (0.0, 1)
    assert finish(events).usage.cost is None


async def test_a_price_of_zero_is_a_price():
    made = bench(answered(Usage(100, 10)), prices={"model": Price(0, 0)}, caps=Caps(day=0.0))
    events = await made.run("hello")
    assert finish(events).reason is TurnEnd.ANSWERED
    assert finish(events).usage.cost == 0.0


async def test_usage_that_is_not_told_is_estimated_and_marked():
    made = bench(answered(None))
    events = await made.run("hello " * 100)
    reported = bodies(events, UsageReported)[0]
    assert reported.usage.estimated and reported.usage.prompt_tokens > 100
    assert (await made.store.sum_spending()).calls == 1


async def test_cached_tokens_have_their_own_price():
    assert Price(10.0, 20.0, 1.0).of(Usage(1_000_000, 0, cached_tokens=500_000)) == pytest.approx(5.5)
    assert Price(10.0, 20.0).of(Usage(1_000_000, 0, cached_tokens=500_000)) == pytest.approx(10.0)


async def test_a_call_that_could_break_the_cap_is_refused_with_the_numbers_before_it_is_made():
    made = bench(answered(), caps=Caps(day=1.0))
    events = await made.run("hello", sampling=Sampling(max_tokens=200))
    end = finish(events)
    assert end.reason is TurnEnd.COST
    assert "up to $2.0" in end.detail and "up to 200 out" in end.detail and "$1.00" in end.detail
    assert made.scripted.requests == []
    assert (await made.store.sum_spending()).calls == 0


async def test_the_limit_of_a_turn_bounds_the_answer_before_it_is_asked_for():
    made = bench(answered(Usage(10, 50)))
    events = await made.run("hello", limits={"max_cost": 2.0})
    assert finish(events).reason is TurnEnd.ANSWERED
    bound = made.scripted.requests[0].sampling.max_tokens
    assert bound is not None
    assert 128 <= bound < 200  # a cent each, and something for the question
    free = bench(answered(Usage(10, 50)), prices={})
    await free.run("hello", limits={"max_cost": 2.0})
    assert free.scripted.requests[0].sampling.max_tokens is None


async def test_a_call_that_would_pass_the_limit_of_a_turn_is_not_started():
    made = bench(answered(), answered())
    events = await made.run("hello", limits={"max_cost": 1.0})
    assert finish(events).reason is TurnEnd.COST
    assert "$1.00 are left" in finish(events).detail
    assert made.scripted.requests == []
    step = [call("a__b"), UsageChunk(Usage(100, 140)), StepFinished(StepEnd.TOOL_CALLS)]
    two_steps = bench(step, answered(), tools=Tools().add("a__b"))
    events = await two_steps.run("hello", limits={"max_cost": 2.0})
    assert finish(events).reason is TurnEnd.COST
    assert len(two_steps.scripted.requests) == 1
    assert (await two_steps.store.sum_spending()).cost == pytest.approx(1.5)


async def test_a_cap_for_the_session_leaves_other_sessions_alone():
    made = bench(*[answered(Usage(10, 50))] * 4, caps=Caps(session=1.0))
    small = Sampling(max_tokens=60)
    events = await made.run("hello", sampling=small)
    session = events[0].session
    events = await made.run("hello", session=session, sampling=small)
    assert finish(events).reason is TurnEnd.COST and "this session's $1.00" in finish(events).detail
    assert finish(await made.run("hello", sampling=small)).reason is TurnEnd.ANSWERED


async def test_the_answer_is_bounded_where_a_cap_holds_so_that_the_worst_case_is_real():
    made = bench(answered(), caps=Caps(day=1_000.0))
    await made.run("hello")
    assert made.scripted.requests[0].sampling.max_tokens == 4096
    uncapped = bench(answered())
    await uncapped.run("hello")
    assert uncapped.scripted.requests[0].sampling.max_tokens is None


async def test_each_step_of_a_turn_is_checked():
    tools = Tools().add("a__b")
    steps = [[call("a__b"), UsageChunk(Usage(10, 60))], answered(Usage(10, 60))]
    made = bench(*steps, caps=Caps(day=1.0), tools=tools)
    events = await made.run("go", sampling=Sampling(max_tokens=60))
    assert finish(events).reason is TurnEnd.COST
    assert len(made.scripted.requests) == 1 and tools.calls


async def test_a_model_no_cap_can_hold_is_named_once():
    made = bench(*[answered()] * 2, prices={}, caps=Caps(day=1.0))
    said = [bodies(await made.run("hello"), Status) for _ in range(2)]
    assert ["price" in status.text for status in said[0]] == [True]
    assert said[1] == []


async def test_two_processes_share_the_cap_of_the_day(tmp_path):
    path = tmp_path / "aish.db"
    caps = Caps(day=1.0)
    benches = [bench(*[answered(Usage(1, 20))] * 20, caps=caps, store=SqliteStore(path)) for _ in range(2)]
    turns = [benches[n % 2].run(f"hello {n}", sampling=Sampling(max_tokens=20)) for n in range(20)]
    ends = [finish(events).reason for events in await asyncio.gather(*turns)]
    spent = await benches[0].store.sum_spending()
    assert spent.cost <= 1.0
    assert ends.count(TurnEnd.ANSWERED) == spent.calls >= 3
    assert ends.count(TurnEnd.COST) == 20 - spent.calls
    for made in benches:
        await made.store.aclose()


async def test_a_turn_that_is_left_is_paid_for_as_far_as_it_came():
    made = bench([TextDelta("some words "), 60.0, TextDelta("never")], caps=Caps(day=100.0))
    async with made.engine.turn(made.request("hello")) as batches:
        async for event in flatten(batches):
            if isinstance(event.body, TextDelta):
                break
    spent = await made.store.sum_spending()
    assert spent.calls == 1 and spent.completion_tokens > 0
    wanted = Reservation("use_x", made.clock.now_ms(), 10**15, "", "m", Category.MAIN, 99.0)
    assert await made.store.reserve(wanted, day_start_ms=0, day_cap=100.0, session_cap=None) is None


async def test_warnings_are_said_once_in_a_session():
    made = bench(*[answered(Usage(100, 10))] * 3, caps=Caps(warn_dollars=0.3, warn_tokens=300))
    session, said = "", []
    for _ in range(3):
        events = await made.run("hello", session=session)
        session = events[0].session
        said.append([status.text for status in bodies(events, Status)])
    assert said[0] == [] and "has cost $0.4000" in said[1][0] and "330 tokens" in said[2][0]


async def test_a_clock_that_jumps_back_does_not_free_what_was_spent():
    made = bench(*[answered(Usage(1, 50))] * 3, caps=Caps(day=1.0))
    await made.run("hello", sampling=Sampling(max_tokens=50))
    made.clock.now_ms = lambda: 1_700_000_000_000  # type: ignore[method-assign]
    made.engine.ledger._now_ms = made.clock.now_ms
    events = await made.run("hello", sampling=Sampling(max_tokens=60))
    assert finish(events).reason is TurnEnd.COST


def test_the_shipped_table_is_dated_and_names_its_source():
    table = shipped_prices()
    assert table.date >= "2026-01-01" and table.source
    assert all(price.prompt >= 0 and price.completion > 0 for price in table.prices.values())


def test_prices_are_found_by_name_date_or_not_and_the_users_own_come_first():
    prices = Prices(price_table({"gpt-4o": PriceConfig(prompt=1, completion=2), "lab:*": PriceConfig()}))
    assert prices.find("openai:gpt-4o") == Price(1, 2)
    assert prices.find("openai:gpt-4o-2024-08-06") == Price(1, 2)
    assert prices.find("router:openai/gpt-4o-mini") == Price(0.15, 0.6, 0.075)
    assert prices.find("lab:anything") == Price(0, 0)
    assert prices.find("lab2:llama-3") is None


def test_what_is_free_costs_only_what_the_user_says():
    def read() -> dict[str, Price]:
        raise AssertionError("the shipped table is not for this")

    prices = Prices(read, lambda provider: provider == "here", {"here:dear-*": Price(1, 2)})
    assert prices.find("here:gpt-4o") == Price(0, 0)
    assert prices.find("here:dear-one") == Price(1, 2)


def test_a_day_begins_at_local_midnight():
    now_ms = 1_800_000_000_000
    start_ms = day_start_ms(now_ms)
    assert 0 <= now_ms - start_ms < 25 * 3600 * 1000
    assert day_start_ms(start_ms) == start_ms


async def test_usage_of_zeros_for_an_answer_is_our_own_count():
    made = bench(answered(Usage(0, 0)))
    events = await made.run("hello " * 100)
    reported = bodies(events, UsageReported)[0].usage
    assert reported.estimated and reported.prompt_tokens > 100 and (reported.cost or 0) > 0


async def test_another_models_answer_is_charged_to_the_session_that_asked():
    made = bench(*[answered(Usage(10, 60))] * 3, caps=Caps(session=1.0))
    session = (await made.run("hello", sampling=Sampling(max_tokens=60)))[0].session
    aside = {"kept": False, "context": (), "charged_to": session, "category": Category.DELEGATE}
    events = await made.run("hello", sampling=Sampling(max_tokens=60), **aside)
    assert finish(events).reason is TurnEnd.COST
    assert (await made.store.sum_spending(session=session)).calls == 1


@pytest.mark.parametrize("cost", [-100, 1e308, float("inf"), float("nan"), True, "1"])
def test_a_cost_nobody_can_have_paid_is_unknown(cost):
    assert read_usage({"prompt_tokens": 5, "completion_tokens": 1, "cost": cost}).cost is None


@pytest.mark.parametrize("count", [-5, 10**30, "many", True])
def test_a_count_nobody_can_have_used_is_none(count):
    assert read_usage({"prompt_tokens": count, "completion_tokens": 1}).prompt_tokens == 0


class Forgetful(MemoryStore):
    """A store that cannot be read any more when `is_gone`."""

    is_gone = False

    async def sum_spending(self, **which: Any) -> Any:
        if self.is_gone:
            raise StoreError("the disk is gone")
        return await super().sum_spending(**which)


async def test_what_is_known_of_today_counts_when_the_store_cannot_be_read():
    store = Forgetful()
    made = bench(answered(Usage(100, 10)), answered(Usage(100, 10)), caps=Caps(day=1_000.0), store=store)
    store.record_usage(UsageRecord("use_a", made.clock.now_ms(), "", "m", Category.MAIN, Usage(cost=0.5), 0))
    await made.run("hello")
    store.is_gone = True
    await made.run("hello")
    assert await made.engine.ledger.spent_today() == pytest.approx(0.9)
    store.is_gone = False
    assert await made.engine.ledger.spent_today() == pytest.approx(0.9)


async def test_what_was_spent_in_another_store_counts_for_the_cap_of_the_day():
    made = bench(answered(Usage(100, 10)), caps=Caps(day=60.0))
    made.engine.ledger.carry_over(59.99)
    assert finish(await made.run("hello")).reason is TurnEnd.COST
    free = bench(answered(Usage(100, 10)), caps=Caps(day=60.0))
    free.engine.ledger.carry_over(1.0)
    assert finish(await free.run("hello")).reason is TurnEnd.ANSWERED


async def test_a_cap_for_a_day_that_nothing_is_stored_for_says_so_once():
    made = bench(*[answered(Usage(100, 10))] * 2, caps=Caps(day=1_000.0, is_shared=False))
    said = [[status.text for status in bodies(await made.run("hello"), Status)] for _ in range(2)]
    assert said == [["nothing is stored, so the cap for a day counts only what this aish spends"], []]
