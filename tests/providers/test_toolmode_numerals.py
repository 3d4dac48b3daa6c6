"""Digits of the request with their point in the wrong place are put right; what may be meant stays."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish.providers.toolmode.aftercheck import checked
from aish.providers.toolmode.asked import Asked
from aish.providers.toolmode.numerals import placed, signed
from aish.types.messages import user
from aish.types.tools import Effect, RepairKind, ToolSpec


@pytest.mark.parametrize(
    ("request_text", "value", "right"),
    [
        ("3.2 gigabytes over 80 megabits", 32000, 3.2),
        ("Rechne 49,90 Euro um", 4990, 49.9),
        ("pay 12,000 dollars", 120000, 12000),
        ("minus 4.5 degrees", -45, -4.5),
        ("3.2 gigabytes", 3.2, 3.2),
        ("3 km from here", 3000, 3000),
        ("1.5 meters", 150, 150),
        ("5k runs", 5000, 5000),
        ("12 thousand", 120, 120),
        ("either 3.2 or 320", 32000, 32000),
        ("100 or 1000", 10, 10),
        ("no number", 7, 7),
        ("version 1.2.3", 12, 12),
        ("0", 0, 0),
        ("213 million people on 8.5 million km", 21300000, 213000000),
        ("213 million people", 213, 213),
        ("213 million people", 213000000, 213000000),
        ("50 million and 5 million", 500000, 500000),
        ("equity of $10,000,000 and $200,000", 1000000, 10000000),
        ("10,000,000 grams", 10000, 10000),  # may be kilograms
    ],
)
def test_only_the_place_of_the_point_is_mended(request_text, value, right):
    assert placed(value, request_text) == right


def test_the_mended_number_fits_its_schema_and_is_told_of():
    schema = {
        "type": "object",
        "properties": {"size": {"type": "number"}, "count": {"type": "integer"}},
        "required": ["size", "count"],
    }
    spec = ToolSpec("t", "Does it.", schema, Effect.READ, "test")
    text, repairs = checked(spec, '{"size": 32000, "count": 45}', Asked([user("3.2 gigabytes, 4.5 times")]))
    assert json.loads(text) == {"size": 3.2, "count": 45}
    assert [(repair.kind, repair.path) for repair in repairs] == [(RepairKind.DIGITS, "/size")]


def test_a_percentage_may_be_a_fraction_and_other_numbers_beside_it_are_looked_at():
    schema = {"type": "object", "properties": {"rate": {"type": "number"}}, "required": ["rate"]}
    spec = ToolSpec("t", "Does it.", schema, Effect.READ, "test")
    assert checked(spec, '{"rate": 0.015}', Asked([user("15% of 1.5")])) == ('{"rate": 0.015}', ())
    assert checked(spec, '{"rate": 32000}', Asked([user("15% of 3.2")]))[0] == '{"rate":3.2}'


@pytest.mark.parametrize(
    ("request_text", "value", "right"),
    [
        ("from -3 to 8", 3, -3),
        ("add minus 7 and 2", 7, -7),
        ("at 51.5° N, 0.12° W", 0.12, -0.12),
        ("33.9 degrees south", 33.9, -33.9),
        ("from 3 to -3", 3, 3),
        ("pages 3-5", 5, 5),
        ("model A-4", 4, 4),
        ("5 - 3", 3, 3),
        ("-3", -3, -3),
        ("12 swans", 12, 12),
    ],
)
def test_a_number_that_is_only_said_with_a_minus_gets_it(request_text, value, right):
    assert signed(value, request_text) == right


@given(st.floats(allow_nan=False, allow_infinity=False, width=32), st.text(max_size=100))
def test_any_number_beside_any_text_stays_or_becomes_one_of_the_text(value, request_text):
    assert placed(value, request_text) == value or any(char.isdigit() for char in request_text)
