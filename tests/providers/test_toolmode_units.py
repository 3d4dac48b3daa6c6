"""A number gets the unit that its argument asks for, where the request has it in one other unit."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish.providers.toolmode.aftercheck import checked
from aish.providers.toolmode.asked import Asked
from aish.providers.toolmode.units import in_unit, is_in_unit
from aish.types.messages import user
from aish.types.tools import Effect, RepairKind, ToolSpec


@pytest.mark.parametrize(
    ("name", "said", "request_text", "value", "right"),
    [
        ("duration", "Length in seconds", "a timer for 5 minutes", 5, 300),
        ("seconds", "", "wait 2 hours", 2, 7200),
        ("days", "", "for 3 weeks", 3, 21),
        ("inductance", "in henries (H)", "given 50mH", 50, 0.05),
        ("c_uf", "C in microfarads", "a 47 nF capacitor", 47, 0.047),
        ("r1_k", "R1 in kilo-ohms", "220 kiloohm", 220, 220),
        ("L_uH", "Inductance in µH", "220 µH", 220, 220),
        ("thickness_mm", "", "salmon 2.5 cm", 2.5, 25),
        ("height", "Height, mm", "a 4 cm pulley", 4, 40),
        ("weight", "Weight in kg", "500 g of flour", 500, 0.5),
        ("duration", "Length in seconds", "5 minutes, or 5 hours", 5, 5),  # which?
        ("duration", "Length in seconds", "5 minutes, 5 times", 5, 5),
        ("duration", "Length in seconds", "3 minutes", 180, 180),  # converted already
        ("speed", "in meters per second", "at 3 km", 3, 3),
        ("length", "in meters or feet, by seconds", "3 km", 3, 3),
        ("count", "How many", "3 km", 3, 3),
        ("distance", "in meters", "3 minutes", 3, 3),  # another thing
        ("distance", "in meters", "no amount", 3, 3),
    ],
)
def test_an_amount_is_converted(name, said, request_text, value, right):
    assert in_unit(value, name, said, request_text) == pytest.approx(right)


def test_what_was_converted_is_known_as_said():
    assert is_in_unit(175, "radius_mm", "", "r 17.5 cm")
    assert not is_in_unit(176, "radius_mm", "", "r 17.5 cm")
    assert not is_in_unit(175, "radius", "", "r 17.5 cm")


def _spec(kind: str) -> ToolSpec:
    properties = {"length_m": {"type": kind}, "thickness_cm": {"type": kind}}
    return ToolSpec("t", "Does it.", {"type": "object", "properties": properties}, Effect.READ, "test")


def test_a_conversion_is_told_of_and_fits_the_schema():
    text, repairs = checked(_spec("number"), '{"thickness_cm": 7}', Asked([user("a slab of 7 mm")]))
    assert json.loads(text) == {"thickness_cm": 0.7}
    assert [(repair.kind, repair.path) for repair in repairs] == [(RepairKind.UNIT, "/thickness_cm")]
    assert checked(_spec("integer"), '{"thickness_cm": 7}', Asked([user("a slab of 7 mm")]))[1] == ()


def test_a_number_that_two_arguments_have_is_left_alone():
    call = '{"length_m": 20, "thickness_cm": 20}'
    assert checked(_spec("number"), call, Asked([user("slab 20 m long, 0.2m thick")])) == (call, ())


@given(st.floats(-1e9, 1e9), st.text(max_size=30), st.text(max_size=30), st.text(max_size=60))
def test_any_words_give_a_number(value, name, said, request_text):
    assert isinstance(in_unit(value, name, said, request_text), int | float)
    assert is_in_unit(value, name, said, request_text) in (True, False)
