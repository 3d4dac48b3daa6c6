"""Copies that went wrong get the request's own spelling; what was meant as it is stays."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish.providers.toolmode.aftercheck import checked
from aish.providers.toolmode.asked import Asked
from aish.providers.toolmode.spelling import clock_of, respelled
from aish.types.messages import user
from aish.types.tools import Effect, RepairKind, ToolSpec


@pytest.mark.parametrize(
    ("request_text", "value", "right"),
    [
        ("Is the air clean in Delhi today?", "Dedigarh", "Delhi"),
        ("call Vera Lindqvist", "Vera Lindquist", "Vera Lindqvist"),
        ("weather in Thessaloniki", "Thessalonika", "Thessaloniki"),
        ("Reservier im Gasthaus Adler", "Gasthaus Adlor", "Gasthaus Adler"),
        ("search for wooden lanterns", "wooden lantarns", "wooden lanterns"),
    ],
)
def test_a_miscopied_word_gets_the_spelling_of_the_request(request_text, value, right):
    assert respelled(value, request_text) == right


@pytest.mark.parametrize(
    ("request_text", "value"),
    [
        ("weather in Rome", "Rome"),
        ("a visa for Vietnam with a Polish passport", "Poland"),
        ("weather in rome", "Rome"),
        ("the German economy", "Germany"),
        ("two dogs please", "dog"),
        ("how many euros is that", "EUR"),
        ("Wetter in Köln", "Cologne"),
        ("Talk about Marta and Martin", "Marto"),
        ("run the tests", "running"),
        ("what is the time", "Europe/Berlin"),
        ("Danger ahead", "Dresden and Danger"),
        ("", "Oslo"),
    ],
)
def test_what_may_be_meant_as_it_is_stays(request_text, value):
    assert respelled(value, request_text) == value


@pytest.mark.parametrize(
    ("request_text", "value", "right"),
    [
        ("magnesium every day at 21:30", "02:30", "21:30"),
        ("wake me at 6:45 am", "06:05", "06:45"),
        ("wake me at 6:45 pm", "06:05", "18:45"),
        ("wake me at 6:45", "18:45", "18:45"),
        ("from 9:00 to 17:30", "08:00", "08:00"),
        ("at noon", "12:00", "12:00"),
        ("version 3.14 of it", "03:15", "03:15"),
        ("at 99:99", "10:00", "10:00"),
        ("from 6 pm to 11:30 pm", "18:00", "18:00"),
        ("from 19:45 until midnight", "00:00", "00:00"),
    ],
)
def test_a_time_that_is_not_named_becomes_the_one_that_is(request_text, value, right):
    assert clock_of(value, request_text) == right


def test_a_respelled_value_is_told_of_and_choices_and_codes_are_left_alone():
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "style": {"type": "string", "enum": ["classic", "moderne"]},
            "country": {"type": "string", "description": "Country code"},
        },
        "required": ["city", "style", "country"],
    }
    spec = ToolSpec("t", "Does it.", schema, Effect.READ, "test")
    given_ = {"city": "Dedigarh", "style": "moderne", "country": "Indie"}
    text, repairs = checked(spec, json.dumps(given_), Asked([user("modern houses in Delhi, India")]))
    assert json.loads(text) == {**given_, "city": "Delhi"}
    assert [(repair.kind, repair.path) for repair in repairs] == [(RepairKind.SPELLING, "/city")]


@given(st.text(max_size=60), st.text(max_size=200))
def test_every_word_of_the_result_is_of_the_value_or_of_the_request(value, request_text):
    result = respelled(value, request_text)
    assert result == value or any(word in request_text for word in result.split())
    assert clock_of(value, request_text) == value or ":" in value
