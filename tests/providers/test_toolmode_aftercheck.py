"""What a weak model's call says beside what was asked: invented options go, percentages and dates get their form."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish.providers.toolmode.aftercheck import checked, find_made_up
from aish.providers.toolmode.asked import Asked
from aish.types.messages import AssistantMessage, SystemMessage, TextPart, ToolMessage, user
from aish.types.tools import Effect, RepairKind, ToolSpec


def tool(*required: str, **properties: Any) -> ToolSpec:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return ToolSpec("t", "Does it.", schema, Effect.READ, "test")


def after(said: str, spec: ToolSpec, **arguments: Any) -> tuple[dict[str, Any], list[RepairKind]]:
    text, repairs = checked(spec, json.dumps(arguments), Asked([SystemMessage("be celsius"), user(said)]))
    return json.loads(text), [repair.kind for repair in repairs]


WORD, NUMBER = {"type": "string"}, {"type": "number"}


@pytest.mark.parametrize("value", ["celsius", 7, 0.5, ["red", "blue"], {"deep": "blue"}])
def test_an_optional_argument_that_nobody_spoke_of_is_left_out(value):
    spec = tool("city", city=WORD, extra={})
    assert after("weather in Rome", spec, city="Rome", extra=value) == ({"city": "Rome"}, [RepairKind.UNASKED])


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ("in Celsius please", "celsius"),
        ("make it a warm white", "warm_white"),
        ("at most 7 of them", 7),
        ("at 50 percent", 0.5),
        ("compounded monthly", 12),
        ("for 3 years", 36),
        ("over 36 months", 3),
        ("on 3 March 2027, for 3 people", 3),
        ("two of them", 2),
        ("1,500 in all", 1500),
        ("with a swing of .6", 0.6),
        ("paint it red", ["red"]),
        ("in der Küche", "kitchen"),
        ("whatever", True),
        ("whatever", None),
        ("whatever", []),
    ],
)
def test_what_the_request_may_mean_is_kept(said, value):
    spec = tool(extra={})
    assert after(said, spec, extra=value) == ({"extra": value}, [])


def test_months_afternoons_and_converted_amounts_are_spoken_of():
    spec = tool(month=NUMBER, hour=NUMBER, time=WORD, height_mm=NUMBER)
    call = {"month": 10, "hour": 16, "time": "16:00", "height_mm": 40}
    assert after("in Oct at 4 pm, down to 4 cm", spec, **call) == (call, [])
    assert after("on the table", spec, **call)[0] == {}
    assert after("SAP in dollars", tool(currency=WORD), currency="USD")[0] == {"currency": "USD"}
    assert after("SAP on XETRA", tool(currency=WORD), currency="USD")[0] == {}


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ("on 3 March 2027 at 09:45", 3),
        ("at 09:45", 45),
        ("March 3rd, 2027", 2027),
        ("this year", 5),
        ("2 May 2027", 9),
    ],
)
def test_a_number_that_only_a_date_has_is_no_number_for_anything_else(said, value):
    assert after(said, tool(people=NUMBER), people=value) == ({}, [RepairKind.UNASKED])
    if str(value) in said:
        assert after(said, tool(year=NUMBER), year=value) == ({"year": value}, [])


def test_a_time_within_a_list_is_mended_too():
    spec = tool("times", times={"type": "array", "items": WORD})
    assert after("every day at 21:30", spec, times=["02:30"]) == ({"times": ["21:30"]}, [RepairKind.CLOCK])
    assert after("every day at 21:30", spec, times=[["02:30"]]) == ({"times": [["02:30"]]}, [])


def test_required_arguments_and_defaults_are_kept_whatever_they_say():
    spec = tool("city", city=WORD, unit={"type": "string", "default": "celsius"})
    assert after("how is it there?", spec, city="Rome", unit="celsius") == ({"city": "Rome", "unit": "celsius"}, [])


def test_a_result_counts_as_said_and_what_the_model_said_does_not():
    spec = tool(code=WORD)
    told = [user("find it"), ToolMessage("c", "find", (TextPart("XK-17"),))]
    assert checked(spec, '{"code":"XK-17"}', Asked(told)) == ('{"code":"XK-17"}', ())
    own = [user("find it"), AssistantMessage("It is XK-17.")]
    assert checked(spec, '{"code":"XK-17"}', Asked(own))[0] == "{}"


@pytest.mark.parametrize(
    ("description", "said", "value", "right"),
    [
        ("Rate as a decimal, e.g. 0.05", "at 5% a year", 5, 0.05),
        ("A fraction", "7.5 percent", 7.5, 0.075),
        ("In percent", "at 5 %", 0.05, 5),
        ("As a decimal", "0.5% a month", 0.05, 0.005),
        ("As a decimal", "5% now and 50% later", 0.5, 0.5),
        ("In percent", "at 5 %", 5, 5),
        ("Rate as a decimal", "five of them, at 4%", 5, 5),
        ("Rate as a decimal", "at 0.05", 0.05, 0.05),
        ("The rate", "at 5%", 5, 0.05),
        ("The rate", "at 5%", 0.5, 0.5),
        ("Yearly rate in percent, e.g. 6.1", "at 3.65 %", 3.65, 3.65),
        ("Yearly rate in per cent", "at 4 percent", 4, 4),
        ("As a decimal, e.g. 0.045", "à 3,4 %", 0.034, 0.034),
        ("Margin in percentage points", "20 percent of them, two points", 2, 2),
    ],
)
def test_a_percentage_gets_the_form_that_the_description_asks_for(description, said, value, right):
    spec = tool("rate", rate={**NUMBER, "description": description})
    made, kinds = after(said, spec, rate=value)
    assert made == {"rate": right}
    assert kinds == ([RepairKind.PERCENT] if right != value else [])


@pytest.mark.parametrize(
    ("description", "value", "right"),
    [
        ("Date, YYYY-MM-DD", "June 4, 2025", "2025-06-04"),
        ("Date, YYYY-MM-DD", "4th June 2025", "2025-06-04"),
        ("in the format mm/dd/yyyy", "2025-06-04", "06/04/2025"),
        ("DD.MM.YYYY", "2025-06-04", "04.06.2025"),
        ("The date (month-day-year)", "2025/06/04", "06-04-2025"),
        ("in the format of MM-DD-YYY", "June 4, 2025", "06-04-2025"),
        ("Date, YYYY-MM-DD", "2025-06-04", "2025-06-04"),
        ("Date, YYYY-MM-DD", "04/06/2025", "04/06/2025"),
        ("Date, YYYY-MM-DD", "tomorrow", "tomorrow"),
        ("YYYY-MM-DD or DD.MM.YYYY", "June 4, 2025", "June 4, 2025"),
        ("A day", "June 4, 2025", "June 4, 2025"),
    ],
)
def test_a_date_gets_the_form_that_the_description_asks_for_where_it_can_be_read_in_one_way(description, value, right):
    spec = tool("day", day={**WORD, "description": description})
    made, kinds = after(f"on {value}", spec, day=value)
    assert made == {"day": right}
    assert kinds == ([RepairKind.DATE] if right != value else [])


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"city": "Ro', '{"city": ' + "[" * 100_000])
def test_what_is_no_object_stays_as_it_is(text):
    assert checked(tool(city=WORD), text, Asked([user("x")])) == (text, ())
    assert find_made_up(tool(city=WORD), text, Asked([user("x")])) == ""


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from("abc"), JSON), st.text(max_size=60))
def test_whatever_the_arguments_only_optional_ones_go_and_nothing_is_added(arguments, said):
    spec = tool("a", a={}, b={"description": "0.1 or 10 %, YYYY-MM-DD"}, c={})
    text, repairs = checked(spec, json.dumps(arguments), Asked([user(said)]))
    made = json.loads(text)
    gone = arguments.keys() - made.keys()
    assert made.keys() <= arguments.keys() and "a" not in gone
    assert {repair.path for repair in repairs if repair.kind is RepairKind.UNASKED} == {f"/{name}" for name in gone}


@pytest.mark.parametrize(
    ("said", "value", "is_made_up"),
    [
        ("Convert 48 gigabytes to megabytes.", 250, True),
        ("How do I cook shakshuka?", 6, True),
        ("at 7 percent", 0.07, False),
        ("3 km", 3000, False),
        ("3000 m", 3, False),
        ("for 2 years", 24, False),
        ("roll a die", 1, False),
        ("the fifth prime", 5, False),
        ("a charge of 1.6 x 10^-19", 1.6e-19, False),
        ("3/4 of a cup", 0.75, False),
        ("eine halbe Stunde", 30, False),
        ("twelve of them", 12, False),
        ("把它换成美元", 12, False),
        ("anything", True, False),
    ],
)
def test_a_required_number_that_nothing_said_can_have_given_is_made_up(said, value, is_made_up):
    spec = tool("n", n=NUMBER)
    assert bool(find_made_up(spec, json.dumps({"n": value}), Asked([user(said)]))) is is_made_up


def test_choices_defaults_options_and_what_was_told_before_are_not_made_up():
    spec = tool("n", "m", n={"type": "number", "enum": [7]}, m={"type": "number", "default": 9}, k=NUMBER)
    assert find_made_up(spec, '{"n": 7, "m": 9, "k": 5}', Asked([user("go")])) == ""
    told = [user("what is it?"), AssistantMessage("It is 42."), user("double that")]
    assert find_made_up(tool("n", n=NUMBER), '{"n": 42}', Asked(told)) == ""
    assert find_made_up(tool("n", n=NUMBER), "no json", Asked(told)) == ""
