"""Arguments against schemas: what is checked without the library is checked as the library would."""

from __future__ import annotations

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish.tool_calls.schema.validator import MAX_LEVELS, is_valid, schema_errors
from support.nesting import nested

NAMES = st.sampled_from(["a", "b", "c"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.0, 1.0, 1.5]) | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=4,
)
KINDS = st.sampled_from(["string", "integer", "number", "boolean", "array", "object", "null"])
MEMBERS = (
    st.fixed_dictionaries({"type": KINDS}, optional={"description": st.just("x"), "enum": st.just(["x", 1])})
    | st.booleans()
    | st.fixed_dictionaries({"type": st.lists(KINDS, min_size=1, max_size=2, unique=True)})
    | st.fixed_dictionaries({"type": st.just("string"), "minLength": st.integers(0, 2)})
)
SCHEMAS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["object", "string", "array"]),
        "properties": st.dictionaries(NAMES, MEMBERS, max_size=3),
        "required": st.lists(NAMES, max_size=2, unique=True),
        "additionalProperties": st.booleans() | st.just({"type": "string"}),
        "title": st.just("t"),
        "minProperties": st.integers(0, 2),
    },
)


@given(SCHEMAS, st.dictionaries(NAMES, VALUES, max_size=3) | VALUES)
def test_a_value_fits_exactly_when_the_library_says_so(schema, value):
    fits = jsonschema_rs.Draft202012Validator(schema).is_valid(value)
    assert is_valid(schema, value) is fits
    assert (schema_errors(schema, value) == []) is fits


def test_a_truth_is_no_number_and_a_number_no_text():
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    assert schema_errors(schema, {"n": 1}) == []
    assert schema_errors(schema, {"n": True}) != []
    assert schema_errors(schema, {"n": "1"}) != []
    assert schema_errors(schema, {}) != []


@pytest.mark.parametrize("schema", [{"properties": {"n": {"type": "string"}}}, {"$ref": "#"}, {}, {"type": "nonsense"}])
@pytest.mark.parametrize("kind", ["list", "object"])
def test_what_is_nested_too_deeply_fits_nothing_and_nobody_falls(schema, kind):
    for depth in (MAX_LEVELS, 300, 900, 100_000):
        value = {"n": nested(depth, kind)}
        assert schema_errors(schema, value) == ["nested too deeply, 200 levels at most"]
        assert not is_valid(schema, value)


def test_what_is_nested_as_deeply_as_it_may_be_is_looked_at():
    schema = {"$defs": {"n": {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#/$defs/n"}}]}}}
    fitting = schema | {"properties": {"n": {"$ref": "#/$defs/n"}}}
    assert schema_errors(fitting, {"n": nested(MAX_LEVELS - 1)}) == []
    (error,) = schema_errors({"properties": {"n": {"type": "string"}}}, {"n": nested(MAX_LEVELS - 1)})
    assert error.startswith("n: ")
