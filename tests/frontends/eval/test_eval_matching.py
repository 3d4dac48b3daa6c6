"""What counts as the right call."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish.frontends.eval.matching import ActualCall, ExpectedCall, Grade, accepts, grade_calls, sample

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**50), 2**50)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(exclude_characters="$")), inner),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("allowed", "value", "right"),
    [
        ("Paris, France", "paris france", True),
        ("it's", 'IT"S', True),
        ("Paris", "Lyon", False),
        ("3", 3, False),
        (3, 3.0, True),
        (0.1, 0.1 + 1e-17, True),
        (3, 3.0001, False),
        (True, 1, False),
        (1, True, False),
        (False, False, True),
        (None, None, True),
        (None, 0, False),
        ([1, "A"], [1, "a"], True),
        ([1, 2], [2, 1], False),
        ([1, 2], [1, 2, 3], False),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"$any": "x"}, [None], True),
        ({"$exact": "a/b.txt"}, "a/b.txt", True),
        ({"$exact": "a/b.txt"}, "A/b.txt", False),
        ({"$contains": ["milk", "Bread"]}, "Bread, then MILK", True),
        ({"$contains": ["milk", "bread"]}, "milk", False),
        ({"$contains": ["milk"]}, 5, False),
        ({"$unordered": ["a", "b"]}, ["B", "a"], True),
        ({"$unordered": ["a", "a"]}, ["a", "b"], False),
        ({"$object": {"a": [1, 2], "b": ["x"]}, "optional": ["b"]}, {"a": 2}, True),
        ({"$object": {"a": [1, 2]}}, {"a": 3}, False),
        ({"$object": {"a": [1, 2]}}, {}, False),
    ],
)
def test_a_value_is_right_when_it_means_what_is_allowed(allowed: Any, value: Any, *, right: bool) -> None:
    assert accepts(allowed, value) is right


@given(JSON)
def test_every_plain_value_accepts_itself(value: Any) -> None:
    assert accepts(value, value)
    assert sample(value) == value


ADD = ExpectedCall("add", {"a": [2], "b": [3]}, either=({"a": [3], "b": [2]},))
CITY = ExpectedCall("weather", {"city": ["Rome"], "unit": ["c"]}, optional=("unit",))


def made(name: str, **arguments: Any) -> ActualCall:
    return ActualCall(name, arguments)


@pytest.mark.parametrize(
    ("calls", "grade"),
    [
        ([made("weather", city="Rome")], Grade(exact=True, right_tool=True)),
        ([made("weather", city="Rome", unit="c")], Grade(exact=True, right_tool=True)),
        ([made("weather", city="Rome", unit="f")], Grade(False, True, 'weather: unit is "f", not "c"')),
        ([made("weather", city="Rome", days=2)], Grade(False, True, "weather: days was not asked for")),
        ([made("weather")], Grade(False, True, "weather: city is missing")),
        ([ActualCall("weather", None)], Grade(False, True, "weather: its arguments are no JSON object")),
        ([made("news", city="Rome")], Grade(False, False, "called news instead of weather")),
        ([made("weather", city="Rome")] * 2, Grade(False, False, "called weather, weather instead of weather")),
        ([], Grade(False, False, "no call was made")),
    ],
)
def test_one_call_is_graded_with_its_reason(calls: list[ActualCall], grade: Grade) -> None:
    assert grade_calls([CITY], calls) == grade


def test_either_set_of_arguments_is_right_but_no_mixture_of_them() -> None:
    assert grade_calls([ADD], [made("add", a=3, b=2)]).exact
    assert not grade_calls([ADD], [made("add", a=2, b=2)]).exact


def test_parallel_calls_may_come_in_any_order_and_each_counts_once() -> None:
    rome, any_city = CITY, ExpectedCall("weather", {"city": ["Rome", "Oslo"]})
    assert grade_calls([any_city, rome], [made("weather", city="Rome"), made("weather", city="Oslo")]).exact
    assert grade_calls([rome, any_city], [made("weather", city="Oslo"), made("weather", city="Rome")]).exact
    twice = grade_calls(
        [rome, ExpectedCall("weather", {"city": ["Oslo"]})],
        [made("weather", city="Rome"), made("weather", city="Rome")],
    )
    assert not twice.exact and twice.reason


def test_no_expected_call_and_none_made_is_right() -> None:
    assert grade_calls([], []).exact
    assert not grade_calls([], [made("weather", city="Rome")]).exact
