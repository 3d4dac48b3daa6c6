"""Counts that are handed on by the sum read the same as counts that are made one by one."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from aish.frontends.http.metrics.accumulators import CounterBatch, HistogramBatch
from aish.frontends.http.metrics.counters import Metrics, TurnMeter
from aish.frontends.http.server.service import Service
from aish.types.events import Event, StepStarted, TextDelta, TurnEnd, TurnFinished, TurnStarted
from aish.types.usage import Usage
from support.engines import Bench
from support.eventually import eventually
from support.http_face import FakeRuntime

BOUNDS = (0.125, 0.5, 1.0, 8.0)
values = st.lists(st.sampled_from([0.0, 0.125, 0.25, 0.5, 0.75, 1.0, 5.0, 8.0, 11.0, 1000.0]), max_size=30)


def counted() -> tuple[CollectorRegistry, Counter, Histogram]:
    registry = CollectorRegistry()
    return (
        registry,
        Counter("c", "Counted.", registry=registry),
        Histogram("h", "HistogramBatch.", buckets=BOUNDS, registry=registry),
    )


def without_times(page: bytes) -> list[str]:
    return [line for line in page.decode().splitlines() if "_created" not in line]


@given(st.lists(values, max_size=4))
def test_what_is_handed_on_by_the_sum_reads_as_if_it_were_counted_one_by_one(batches):
    registry, counter, histogram = counted()
    tally, spread = CounterBatch(counter), HistogramBatch(histogram, BOUNDS)
    plain_registry, plain_counter, plain_histogram = counted()
    for batch in batches:
        for value in batch:
            tally.count += value + 1
            spread.observe(value)
            plain_counter.inc(value + 1)
            plain_histogram.observe(value)
        tally.flush()
        spread.flush()
        assert without_times(generate_latest(registry)) == without_times(generate_latest(plain_registry))


def turn(metrics: Metrics) -> None:
    bodies = [
        TurnStarted("up:m", ()),
        StepStarted("up:m"),
        TextDelta("hi"),
        TurnFinished(TurnEnd.ANSWERED, Usage(3, 4)),
    ]
    TurnMeter(metrics).observe([Event("", "turn_1", n, 0, body) for n, body in enumerate(bodies, 1)])


def test_a_page_holds_everything_that_was_counted_before_it():
    metrics = Metrics()
    for number in (1, 2):
        turn(metrics)
        metrics.count_request("POST", "/v1/chat/completions", 200, 0)
        page = metrics.page().decode()
        assert f'aish_turns_total{{end="answered",model="up:m"}} {number}.0' in page
        assert f'aish_tokens_total{{direction="out",model="up:m"}} {4.0 * number}' in page
        assert f'aish_first_token_seconds_count{{model="up:m"}} {number}.0' in page
        assert f'aish_requests_total{{route="/v1/chat/completions",status="200"}} {number}.0' in page


async def test_where_others_answer_for_us_what_was_counted_is_handed_on_soon(monkeypatch):
    monkeypatch.setattr("aish.frontends.http.server.engine_host._PUBLISH_INTERVAL_S", 0.01)
    service = Service(FakeRuntime(Bench()))
    service.metrics.together = True
    async with asyncio.TaskGroup() as tasks:
        telling = tasks.create_task(service._publish_metrics())
        for number in (1, 2):
            turn(service.metrics)
            await eventually(
                lambda n=number: (
                    f'end="answered",model="up:m"}} {n}.0' in generate_latest(service.metrics.registry).decode()
                )
            )
        telling.cancel()
