"""Lists that went wrong while they were copied are taken from the request whole; others stay."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish.providers.toolmode.aftercheck import checked
from aish.providers.toolmode.asked import Asked
from aish.providers.toolmode.lists import completed
from aish.types.messages import user
from aish.types.tools import Effect, RepairKind, ToolSpec


@pytest.mark.parametrize(
    ("request_text", "items", "right"),
    [
        ("compare them in size, price and weight", ["size", "price"], ["size", "price", "weight"]),
        ("rice, green beans and eggs for dinner", ["rice", "beans curry", "eggs"], ["rice", "green beans", "eggs"]),
        ("for clownfish and blue tangs", ["coralfish", "blue tangs"], ["clownfish", "blue tangs"]),
        ("invite Ada, Bo, and Cy to lunch", ["Ada", "Bo"], ["Ada", "Bo", "Cy"]),
        ("how far are Oslo and the Hague from here", ["Oslo", "Lahague"], ["Oslo", "Hague"]),
        ("the mean of 3, 7.5, 9 and 12", [3, 7.5, 12], [3, 7.5, 9, 12]),
        ("sort [4, -2, 8]", [4, 8], [4, -2, 8]),
    ],
)
def test_a_list_that_was_cut_or_went_astray_is_taken_from_the_request(request_text, items, right):
    assert completed(items, request_text) == right


@pytest.mark.parametrize(
    ("request_text", "items"),
    [
        ("compare them in size, price and weight", ["size", "price", "weight"]),
        ("rice and eggs, and also some tea", ["rice", "eggs", "tea"]),
        ("rice and eggs", ["tea", "milk"]),
        ("buy rice", ["rice"]),
        ("buy rice and a newspaper", ["rice"]),
        ("delete a.txt, b.txt and keep c.txt", ["a.txt", "b.txt"]),
        ("rice today and rice tomorrow", ["rice"]),
        ("Battery and weight of the phone", ["battery", "weight"]),
        ("how far is 59.3, 18.1 from 60.2, 24.9", [59.3, 18.1]),
        ("between 59.3, 18.1 and 60.2, 24.9", [59.3, 18.1]),
        ("zone 2, 8 min", [2]),
        ("walk from Chur over Davos to Klosters", ["Chur", "Davos"]),
        ("the mean of 3 and 4, and of 5 and 6", [3, 4]),
        ("1,200 and 3,400 people", [1200, 3400]),
        ("", ["rice"]),
        ("rice, and then I want you to call my brother and ask him", ["rice"]),
    ],
)
def test_a_list_that_may_be_meant_as_it_is_stays(request_text, items):
    assert completed(items, request_text) == items


def test_a_list_of_choices_is_completed_with_choices_only():
    items = {"type": "string", "enum": ["opening_hours", "prices", "access"]}
    schema = {"type": "object", "properties": {"facts": {"type": "array", "items": items}}}
    spec = ToolSpec("t", "Does it.", schema, Effect.READ, "test")
    text, _ = checked(
        spec, '{"facts": ["opening_hours", "prices"]}', Asked([user("opening hours, prices, and access")])
    )
    assert json.loads(text) == {"facts": ["opening_hours", "prices", "access"]}
    call = '{"facts": ["prices"]}'
    assert checked(spec, call, Asked([user("prices and toilets there")])) == (call, ())


def test_an_item_that_nobody_spoke_of_is_left_out_and_that_is_told():
    schema = {"type": "object", "properties": {"foods": {"type": "array", "items": {"type": "string"}}}}
    spec = ToolSpec("t", "Does it.", {**schema, "required": ["foods"]}, Effect.READ, "test")
    text, repairs = checked(spec, '{"foods": ["rice", "cabbage"]}', Asked([user("how much iron is in rice?")]))
    assert json.loads(text) == {"foods": ["rice"]}
    assert [(repair.kind, repair.path) for repair in repairs] == [(RepairKind.UNASKED, "/foods")]
    alone = Asked([user("how much iron is in it?")])
    assert checked(spec, '{"foods": ["rice", "cabbage"]}', alone) == ('{"foods": ["rice", "cabbage"]}', ())


@given(st.lists(st.text(max_size=12) | st.integers(-50, 50), max_size=5), st.text(max_size=120))
def test_any_list_beside_any_text_keeps_its_kind_and_loses_nothing(items, request_text):
    made = completed(items, request_text)
    assert len(made) >= len(items)
    assert all(isinstance(item, str) for item in made) == all(isinstance(item, str) for item in items)
