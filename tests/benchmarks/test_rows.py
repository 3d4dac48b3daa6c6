"""Rows of the benchmark: bars, ratios, who is behind whom, and how costs grow."""

from __future__ import annotations

import json

import pytest
from bench.rows import Bar, Row, exponent, median, rounded, row
from hypothesis import given
from hypothesis import strategies as st


def test_a_bar_in_numbers_is_met_up_to_and_with_its_number() -> None:
    assert row("p", "w", "ms", 5.0, bar=Bar(most=5)).met is True
    assert row("p", "w", "ms", 5.01, bar=Bar(most=5)).met is False
    assert row("p", "w", "/s", 5.0, bar=Bar(least=5), better="more").met is True
    assert row("p", "w", "/s", 4.99, bar=Bar(least=5), better="more").met is False


def test_a_bar_may_be_times_a_limit_or_above_it() -> None:
    limits = {"bare": 10.0}
    assert row("p", "w", "ms", 15.0, limits=limits, bar=Bar(most=1.5, of="bare")).met is True
    assert row("p", "w", "ms", 15.1, limits=limits, bar=Bar(most=1.5, of="bare")).met is False
    assert row("p", "w", "ms", 11.0, limits=limits, bar=Bar(most=1, of="bare", over=True)).met is True
    assert row("p", "w", "ms", 11.1, limits=limits, bar=Bar(most=1, of="bare", over=True)).met is False


@pytest.mark.parametrize("ours", [None, float("inf")])
def test_what_has_no_figure_is_neither_met_nor_missed(ours: float | None) -> None:
    assert row("p", "w", "ms", ours, bar=Bar(most=5)).met is None


def test_a_bar_of_somebody_who_has_no_figure_is_not_judged() -> None:
    assert row("p", "w", "ms", 1.0, peers={"them": None}, bar=Bar(most=2, of="them")).met is None
    assert row("p", "w", "ms", 1.0, bar=Bar(most=2, of="them")).met is None


def test_better_is_above_one_whichever_way_the_figure_points() -> None:
    assert row("p", "w", "ms", 2.0, peers={"them": 8.0}).times("them") == 4
    assert row("p", "w", "/s", 8.0, peers={"them": 2.0}, better="more").times("them") == 4


def test_behind_are_peers_that_do_better_and_never_limits() -> None:
    found = row("p", "w", "ms", 4.0, peers={"fast": 2.0, "slow": 8.0, "gone": None}, limits={"bare": 1.0})
    assert found.behind() == {"fast": 2.0}


def test_a_row_comes_back_from_json_as_it_was() -> None:
    before = row(
        "p", "w", "ms", 4.0, peers={"a": 2.0}, limits={"b": 1.0}, bar=Bar(most=5), rounds=3, notes={"c": "why"}
    )
    assert Row.of_json(json.loads(json.dumps(before.to_json()))) == before


def test_a_median_is_of_those_that_have_a_figure() -> None:
    assert median([3.0, None, 1.0, 2.0]) == 2.0
    assert median([None]) is None


@given(st.floats(0.2, 2.5), st.floats(0.01, 1e6))
def test_the_exponent_of_a_power_is_found_whatever_it_is_measured_in(power: float, unit: float) -> None:
    sizes = (10.0, 100.0, 1000.0)
    assert exponent(sizes, [unit * size**power for size in sizes]) == pytest.approx(power, abs=1e-6)


@given(st.floats(1e-9, 1e12))
def test_rounding_keeps_four_digits_that_count(figure: float) -> None:
    found = rounded(figure)
    assert found is not None
    assert found == pytest.approx(figure, rel=1e-3)
