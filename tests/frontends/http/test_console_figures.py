"""What the console draws: the last hour in points, and spending with its caps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish.engine.model.ledger import Caps, Prices
from aish.frontends.http.auth.keys import create_key
from aish.frontends.http.metrics.accumulators import POINTS, STEP_MS, Series
from aish.types.chunks import UsageChunk
from aish.types.events import TextDelta
from aish.types.usage import Price, Usage
from support.engines import Bench, Tools, call
from support.http_face import face, function

ANSWER = [TextDelta("x"), UsageChunk(Usage(1_000_000, 500_000))]


async def test_a_turn_shows_in_the_points_and_the_totals():
    bench = Bench(
        [call("t__x"), UsageChunk(Usage(10, 5))], [TextDelta("x"), UsageChunk(Usage(20, 7))], tools=Tools().add("t__x")
    )
    async with face(bench) as http:
        await http.chat(tools=[function("t__x")])
        await http.chat(model="none:such")
        shown = (await http.ask("GET", "/v1/metrics.json")).json
    assert shown["step_ms"] == STEP_MS
    totals = shown["totals"]
    assert (totals["requests"], totals["turns"], totals["tool_calls"]) == (2, 1, 1)
    assert (totals["tokens_in"], totals["tokens_out"], totals["errors"]) == (30, 12, 0)
    assert totals["cost"] == 0 and totals["unknown"] > 0  # an unknown cost is told from none
    for field in ("requests", "turns", "tool_calls", "tokens_in", "tokens_out", "cost", "unknown", "errors"):
        assert sum(point[field] for point in shown["points"]) == totals[field]
    assert any(point["first_token_ms_p50"] is not None for point in shown["points"])


@given(jumps=st.lists(st.integers(0, 3 * POINTS * STEP_MS), max_size=20))
def test_the_points_are_an_hour_without_gaps_whatever_the_clock_does(jumps):
    now = [1_700_000_000_000]
    series = Series(lambda: now[0] * 1_000_000)
    for jump in jumps:
        now[0] += jump
        series.now().turns += 1
    points = series.to_object()["points"]
    assert 1 <= len(points) <= POINTS
    assert [point["at_ms"] for point in points] == [points[0]["at_ms"] + n * STEP_MS for n in range(len(points))]
    assert points[-1]["at_ms"] == now[0] // STEP_MS * STEP_MS
    assert sum(point["turns"] for point in points) <= series.to_object()["totals"]["turns"] == len(jumps)


def test_a_clock_that_goes_back_breaks_nothing():
    now = [1_700_000_000_000]
    series = Series(lambda: now[0] * 1_000_000)
    for step in (0, 50_000, -120_000, 10_000):
        now[0] += step
        series.now().errors += 1
    shown = series.to_object()
    assert shown["totals"]["errors"] == 4
    assert 1 <= len(shown["points"]) <= POINTS


async def test_spending_is_told_by_model_and_day_with_the_caps():
    settings = {"prices": Prices({"scripted:model": Price(1.0, 2.0)}), "caps": Caps(day=50.0, session=20.0)}
    async with face(Bench(ANSWER, ANSWER, settings=settings)) as http:
        assert (await http.chat()).status == 200
        assert (await http.chat()).status == 200
        shown = (await http.ask("GET", "/v1/spending?by=model&days=7")).json
        assert [(row["model"], row["calls"], row["tokens_in"]) for row in shown["rows"]] == [
            ("scripted:model", 2, 2_000_000)
        ]
        assert shown["rows"][0]["cost"] == pytest.approx(4.0)
        assert (shown["cap_day"], shown["cap_session"]) == (50.0, 20.0)
        days = (await http.ask("GET", "/v1/spending")).json["rows"]
        assert len(days) == 1
        assert days[0]["day"][:2] == "20"


async def test_what_nobody_knows_the_price_of_costs_null():
    async with face(Bench(ANSWER)) as http:
        await http.chat()
        (row,) = (await http.ask("GET", "/v1/spending?by=category")).json["rows"]
    assert (row["category"], row["cost"], row["unknown"]) == ("main", None, 1)


async def test_a_key_is_told_its_own_day_and_nobody_elses():
    bench = Bench(ANSWER, ANSWER)
    ann, _ = await create_key(bench.store, "ann", dollars_per_day=5.0)
    bob, _ = await create_key(bench.store, "bob")
    async with face(bench) as http:
        body = {"model": "scripted:model", "messages": [{"role": "user", "content": "x"}]}
        assert (await http.ask("POST", "/v1/chat/completions", body, x_api_key=bob)).status == 200
        anns = (await http.ask("GET", "/v1/spending", x_api_key=ann)).json
        bobs = (await http.ask("GET", "/v1/spending", x_api_key=bob)).json
        assert (anns["rows"], anns["today"]["tokens"], anns["cap_day"]) == ([], 0, 5.0)
        assert (bobs["rows"], bobs["today"]["tokens"], bobs["cap_day"]) == ([], 1_500_000, None)
        assert (await http.ask("GET", "/v1/metrics.json", x_api_key=ann)).status == 403


@pytest.mark.parametrize("query", ["by=weekday", "days=0", "days=x", "days=99999", "days=²"])
async def test_a_wrong_question_is_a_clear_refusal(query):
    async with face(Bench()) as http:
        reply = await http.ask("GET", f"/v1/spending?{query}")
        assert (reply.status, reply.json["error"]["param"]) == (400, query.partition("=")[0])
