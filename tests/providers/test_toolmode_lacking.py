"""Options that a request names word for word are put in; all that may mean something else is left alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish.providers.toolmode.aftercheck import checked
from aish.providers.toolmode.asked import Asked
from aish.providers.toolmode.lacking import named_options
from aish.types.messages import AssistantMessage, user
from aish.types.tools import Effect, Repair, RepairKind, ToolSpec

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "fuel": {"type": "string", "enum": ["oil", "gas", "wood_pellets", "none"]},
        "sort_by": {"type": "string", "enum": ["price", "rating"]},
        "finish": {"type": "string", "description": "One of matte, satin or gloss. Default is matte."},
        "reply_language": {"type": "string"},
        "include_history": {"type": "boolean"},
        "open_only": {"type": "boolean"},
        "max_trees": {"type": "integer"},
        "slope": {"type": "number"},
    },
    "required": ["city"],
}
SPEC = ToolSpec("find_stoves", "Find stoves and what they cost.", SCHEMA, Effect.READ, "test")


@pytest.mark.parametrize(
    ("request_text", "found"),
    [
        ("stoves for gas in Rome", {"fuel": "gas"}),
        ("stoves for wood pellets in Rome", {"fuel": "wood_pellets"}),
        ("stoves in Rome, sorted by price", {"sort_by": "price"}),
        ("a satin stove in Rome", {"finish": "satin"}),
        ("stoves in Rome, in Spanish please", {"reply_language": "Spanish"}),
        ("stoves in Rome with their history", {"include_history": True}),
        ("stoves in Rome without any history", {"include_history": False}),
        ("only open stoves in Rome", {"open_only": True}),
        ("stoves in Rome for 60 trees", {"max_trees": 60}),
        ("stoves in Rome for three trees", {"max_trees": 3}),
        ("stoves in Rome on a slope of 2.5 percent or 2.5", {}),
        ("stoves in Rome at a slope of 2.5", {"slope": 2.5}),
        ("gas stoves in Rome, gloss, with history", {"fuel": "gas", "finish": "gloss", "include_history": True}),
    ],
)
def test_what_the_request_names_is_put_in(request_text, found):
    assert named_options(SPEC, {"city": "Rome"}, request_text) == found


@pytest.mark.parametrize(
    "request_text",
    [
        "stoves in Rome",
        "gas or oil stoves in Rome",
        "stoves in Rome, but not gas",
        "what is the price of stoves in Rome",
        "none of the stoves in Rome",
        "is it open in Rome?",
        "stoves in Rome for 3 or 4 trees",
        "stoves in Rome in French or in Spanish",
        "Öfen mit gas in Rom",
    ],
)
def test_what_may_mean_something_else_is_left_alone(request_text):
    assert named_options(SPEC, {"city": "Rome"}, request_text) == {}


@pytest.mark.parametrize(
    ("request_text", "found"),
    [
        ("a field 9 meters by 4 meters", {"unit": "meters"}),
        ("3.5 cm and 2 cm", {"unit": "cm"}),
        ("9 meters by 4 feet", {}),
        ("9 meters by 4", {}),
        ("9 by 4", {}),
        ("insured at 2,000,000 for 3 days", {"insured_value": 2_000_000}),
    ],
)
def test_a_unit_that_all_numbers_have_and_a_sum_with_commas_are_put_in(request_text, found):
    properties = {"unit": {"type": "string"}, "insured_value": {"type": "number"}, "x": {"type": "number"}}
    spec = ToolSpec("area", "Area.", {"type": "object", "properties": properties}, Effect.READ, "test")
    assert named_options(spec, {"x": 9}, request_text) == found


def test_the_unit_of_a_result_is_not_that_of_the_request():
    properties = {"unit": {"type": "string", "description": "Unit of the result"}}
    spec = ToolSpec("area", "Area.", {"type": "object", "properties": properties}, Effect.READ, "test")
    assert named_options(spec, {}, "3 cm and 2 cm") == {}


def test_what_another_argument_has_taken_is_not_taken_twice():
    assert named_options(SPEC, {"city": "Gas"}, "stoves in Gas") == {}
    assert named_options(SPEC, {"city": "Rome", "slope": 3}, "slope 3 trees in Rome") == {}


def test_only_the_last_thing_that_the_user_said_counts():
    asked = Asked([user("gas stoves in Rome"), AssistantMessage("There are two."), user("and in Oslo?")])
    assert checked(SPEC, '{"city": "Oslo"}', asked) == ('{"city": "Oslo"}', ())


def test_what_was_put_in_is_told_of():
    text, repairs = checked(SPEC, '{"city": "Rome"}', Asked([user("gas stoves in Rome")]))
    assert json.loads(text) == {"city": "Rome", "fuel": "gas"}
    assert repairs == (Repair(RepairKind.NAMED, "/fuel", "", '"gas"'),)


@given(st.text(max_size=200))
def test_whatever_is_said_only_options_that_fit_are_put_in(request_text):
    kinds = {"string": str, "boolean": bool, "integer": int, "number": int | float}
    for name, value in named_options(SPEC, {"city": "Rome"}, request_text).items():
        schema = SCHEMA["properties"][name]
        assert name != "city" and isinstance(value, kinds[schema["type"]])
        assert value in schema.get("enum", [value])
