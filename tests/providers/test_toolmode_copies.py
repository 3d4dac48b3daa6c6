"""Texts copied too short or too long are put right, choices get their name, and right calls stay as they are."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish.providers.toolmode.aftercheck import checked
from aish.providers.toolmode.asked import Asked
from aish.providers.toolmode.choices import chosen
from aish.providers.toolmode.copies import right_side, whole_quotation, without_others
from aish.types.messages import user
from aish.types.tools import Effect, RepairKind, ToolSpec

REVIEW = "How positive is 'The soup was cold. It's a pity, though.' in your view?"


@pytest.mark.parametrize(
    ("request_text", "value", "right"),
    [
        (REVIEW, "The soup was cold.", "The soup was cold. It's a pity, though."),
        ('Say "good morning to you all" now', "good morning", "good morning to you all"),
        ("“one two three four”, please", "one two", "one two three four"),
        ("Move 'docs/plans' away", "docs", "docs"),  # too short to be prose
        (REVIEW, "soup was cold", "soup was cold"),  # from the middle
        ("'a b c d' and 'a b c e'", "a b", "a b"),  # which of them?
        ("'a b c d' and 'a b'", "a b", "a b"),  # quoted itself
        ("nothing is quoted", "nothing", "nothing"),
        (REVIEW, "", ""),
    ],
)
def test_a_quotation_that_was_broken_off_is_taken_whole(request_text, value, right):
    assert whole_quotation(value, "/text", request_text) == right
    assert whole_quotation(value, "/title", request_text) == value


@pytest.mark.parametrize(
    ("name", "value", "right"),
    [
        ("function", "y = x^3", "x^3"),
        ("function2", "y=2x+3", "2x+3"),
        ("func", "f(x) = 3x^2", "3x^2"),
        ("equation", "y = x^3", "y = x^3"),
        ("function", "y == 3", "y == 3"),
        ("function", "y = ", "y = "),
        ("function", "lambda x: x", "lambda x: x"),
    ],
)
def test_a_function_is_what_stands_on_the_right(name, value, right):
    assert right_side(value, name, "") == right
    assert right_side(value, name, "Its full definition") == value


def test_what_another_argument_says_is_not_said_twice():
    assert without_others("Tokyo, Japan", "city", "", {"country": "Japan", "days": 3}) == "Tokyo"
    assert without_others("Tokyo, Japan", "city", "", {"country": "Asia"}) == "Tokyo, Japan"
    assert without_others("Tokyo, Japan", "city", "City and country", {"country": "Japan"}) == "Tokyo, Japan"
    assert without_others("Hello, Japan", "message", "", {"country": "Japan"}) == "Hello, Japan"
    assert without_others("Japan", "city", "", {"country": "Japan"}) == "Japan"


@pytest.mark.parametrize(
    ("said", "value", "right"),
    [
        ("The unit ('miles' or 'kilometers'). Default 'miles'.", "mile", "miles"),
        ("Either 'asc' or 'desc'.", "ascending", "asc"),
        ("'c' for Celsius, 'f' for Fahrenheit", "celsius", "c"),
        ('Can be "summary" or "detailed"', "Detail", "detailed"),
        ("Either 'asc' or 'desc'.", "DESC", "DESC"),  # is one, and case is another's business
        ("such as 'hearts' or 'spades'", "heart", "heart"),  # examples are not all there are
        ("Either 'a' or 'b'.", "ab", "ab"),
        ("default 'km'", "kilometer", "kilometer"),
        ("'mile' or 'miles'", "mil", "mil"),  # which?
        ("The shop's name and the town's", "shop", "shop"),  # no quotation marks
    ],
)
def test_another_form_of_a_choice_in_the_description_becomes_that_choice(said, value, right):
    assert chosen(value, said) == right


def test_the_changes_are_told_of():
    properties = {
        "city": {"type": "string"},
        "country": {"type": "string"},
        "unit": {"type": "string", "description": "'c' for Celsius, 'f' for Fahrenheit"},
    }
    spec = ToolSpec("t", "Does it.", {"type": "object", "properties": properties}, Effect.READ, "test")
    call = {"city": "Tokyo, Japan", "country": "Japan", "unit": "celsius"}
    text, repairs = checked(spec, json.dumps(call), Asked([user("celsius in Tokyo, Japan")]))
    assert json.loads(text) == {"city": "Tokyo", "country": "Japan", "unit": "c"}
    assert {(repair.kind, repair.path) for repair in repairs} == {
        (RepairKind.ENUM, "/unit"),
        (RepairKind.COPY, "/city"),
    }


def test_a_line_of_a_list_may_be_part_of_what_is_quoted():
    schema = {"type": "object", "properties": {"lines": {"type": "array", "items": {"type": "string"}}}}
    spec = ToolSpec("t", "Does it.", schema, Effect.READ, "test")
    call = '{"lines": ["Rust on the gate", "rain again"]}'
    assert checked(spec, call, Asked([user('Is "Rust on the gate / rain again" a poem?')])) == (call, ())


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=20))
def test_any_text_gives_a_text(value, said, name):
    assert isinstance(chosen(value, said), str)
    assert value.strip() in whole_quotation(value, name, said)
    assert value.endswith(right_side(value, name, said))
