"""Schemas for backends: simpler, never stricter, and one bad tool never takes the others away."""

from __future__ import annotations

import copy
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aish.tool_calls.schema.sanitiser import GRAMMAR, PLAIN, TOOLS, Profile, simplify_schema, simplify_tools
from aish.types.tools import Effect, ToolSpec

PROFILES = [TOOLS, GRAMMAR, PLAIN]


def argument(schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": schema}, "required": ["x"]}


def simple(schema: Any, profile: Profile = GRAMMAR) -> Any:
    return simplify_schema(argument(schema), profile)["properties"]["x"]


@pytest.mark.parametrize(
    ("schema", "result"),
    [
        ({"type": "string", "pattern": "^(?=.*a)b$"}, {"type": "string"}),
        ({"type": "string", "pattern": "^a(?!b)$"}, {"type": "string"}),
        ({"type": "string", "pattern": "^[a-z]{1,99999}$"}, {"type": "string"}),
        ({"type": "string", "pattern": "not anchored"}, {"type": "string"}),
        ({"type": "string", "pattern": "^[a-z]{1,8}$"}, {"type": "string", "pattern": "^[a-z]{1,8}$"}),
        ({"type": "string", "maxLength": 100000}, {"type": "string"}),
        ({"type": "string", "maxLength": 80}, {"type": "string", "maxLength": 80}),
        ({"type": "array"}, {"type": "array", "items": {}}),
        ({"type": "array", "items": []}, {"type": "array", "items": {}}),
        ({"type": "array", "prefixItems": [{"type": "string"}], "items": False}, {"type": "array", "items": {}}),
        ({"properties": {"a": {"type": "string"}}}, {"type": "object", "properties": {"a": {"type": "string"}}}),
        ({"type": "object", "properties": []}, {"type": "object", "properties": {}}),
        ({"enum": ["a", "b"]}, {"type": "string", "enum": ["a", "b"]}),
        ({"$ref": "#/nowhere"}, {}),
        ({"$ref": "https://example.org/x.json"}, {}),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ({"type": "string", "format": "phone"}, {"type": "string"}),
        ({"type": "string", "format": "date"}, {"type": "string", "format": "date"}),
        ({"type": "strin"}, {}),
        ({"type": "integer", "exclusiveMinimum": True, "minimum": 1}, {"type": "integer", "minimum": 1}),
        (True, {}),
        ("nonsense", {}),
    ],
)
def test_what_grammar_compilers_choke_on_is_left_out(schema: Any, result: Any):
    assert simple(schema) == result


def test_references_are_put_in_place_and_what_stands_beside_them_goes():
    point = {"type": "object", "properties": {"a": {"type": "integer"}}}
    schema = {**argument({"$ref": "#/$defs/point", "minProperties": 1}), "$defs": {"point": point}}
    assert simplify_schema(schema, GRAMMAR)["properties"]["x"] == point


def test_a_schema_that_holds_itself_ends_in_any_object():
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "v": {"type": "integer"}}}
    result = simplify_schema({**argument({"$ref": "#/$defs/node"}), "$defs": {"node": node}}, GRAMMAR)
    assert result["properties"]["x"]["properties"]["next"] == {"type": "object"}
    assert b"$ref" not in msgspec.json.encode(result)


def test_references_that_multiply_do_not_fill_memory():
    members = [{letter: {"$ref": f"#/$defs/d{n + 1}"} for letter in "abcdefgh"} for n in range(20)]
    defs = {f"d{n}": {"type": "object", "properties": properties} for n, properties in enumerate(members)}
    assert simplify_schema({**argument({"$ref": "#/$defs/d0"}), "$defs": defs}, GRAMMAR) == {"type": "object"}


def test_of_too_many_properties_the_required_ones_stay_and_others_are_still_allowed():
    properties = {f"p{n}": {"type": "string"} for n in range(500)}
    schema = {"type": "object", "properties": properties, "required": ["p499"], "additionalProperties": False}
    result = simplify_schema(schema, GRAMMAR)
    assert len(result["properties"]) == GRAMMAR.max_properties
    assert "p499" in result["properties"]
    assert "additionalProperties" not in result


def test_a_schema_that_needs_no_change_is_the_same_object():
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string", "description": "A city."}},
        "required": ["city"],
    }
    assert simplify_schema(schema, TOOLS) is schema


@pytest.mark.parametrize("bad", [[], None, 3, "x", {"type": "string"}, {"properties": {"a": object()}}])
def test_one_bad_tool_never_disables_the_others(bad: Any):
    good = argument({"type": "string"})
    tools = tuple(ToolSpec(name, "", schema, Effect.READ, "t") for name, schema in (("bad", bad), ("good", good)))
    first, second = simplify_tools(tools, GRAMMAR)
    assert first.schema == {"type": "object"}
    assert second.schema == good


def leaf_pairs() -> st.SearchStrategy[tuple[Any, Any]]:
    """A schema with something odd in it, and a value that it takes."""
    return st.one_of(
        st.text("abc", max_size=5).map(lambda text: ({"type": "string", "maxLength": 9, "minLength": 0}, text)),
        st.just(({"type": "string", "pattern": "^(?=a)a+$"}, "aaa")),
        st.just(({"type": "string", "pattern": "b{1,5000}"}, "xxbxx")),
        st.just(({"type": "string", "format": "email"}, "not checked")),
        st.integers(0, 9).map(lambda n: ({"type": ["integer", "null"], "minimum": 0, "multipleOf": 1}, n)),
        st.sampled_from(["x", 1, None, True]).map(lambda one: ({"enum": ["x", 1, None, True]}, one)),
        st.integers().map(lambda n: ({"not": {"type": "string"}}, n)),
        st.just(({"$ref": "#/$defs/known", "description": "beside"}, {"k": 1})),
        st.just(
            ({"allOf": [{"$ref": "#/$defs/known"}, {"properties": {"m": {"type": "string"}}}]}, {"k": 1, "m": "x"})
        ),
        st.just(({"const": {"deep": [1]}}, {"deep": [1]})),
        st.just(({}, [1, {"a": None}])),
    )


def deeper(inner: st.SearchStrategy[tuple[Any, Any]]) -> st.SearchStrategy[tuple[Any, Any]]:
    pairs = st.lists(inner, min_size=1, max_size=3)

    def as_object(given: list[tuple[Any, Any]]) -> tuple[Any, Any]:
        schemas = {f"p{n}": schema for n, (schema, _) in enumerate(given)}
        values = {f"p{n}": value for n, (_, value) in enumerate(given)}
        return {"type": "object", "properties": schemas, "required": ["p0"], "additionalProperties": False}, values

    def as_patterns(given: list[tuple[Any, Any]]) -> tuple[Any, Any]:
        schema, values = as_object(given)
        return {**schema, "patternProperties": {"^q": {"type": "integer"}}}, {**values, "q1": 3}

    return st.one_of(
        pairs.map(as_object),
        pairs.map(as_patterns),
        pairs.map(lambda given: ({"anyOf": [schema for schema, _ in given]}, given[0][1])),
        inner.map(lambda pair: ({"type": "array", "items": pair[0], "maxItems": 5000}, [pair[1]] * 2)),
        pairs.map(
            lambda given: (
                {"type": "array", "prefixItems": [s for s, _ in given], "items": False},
                [v for _, v in given],
            )
        ),
        inner.map(lambda pair: ({"type": "object", "additionalProperties": pair[0]}, {"any": pair[1]})),
    )


@settings(max_examples=300, deadline=None)
@given(st.recursive(leaf_pairs(), deeper, max_leaves=12), st.sampled_from(PROFILES))
def test_what_is_valid_under_the_original_is_valid_under_the_simpler_one(pair: tuple[Any, Any], profile: Profile):
    known = {"type": "object", "properties": {"k": {"type": "integer"}}, "required": ["k"]}
    schema = {**argument(pair[0]), "$defs": {"known": known}}
    value = {"x": pair[1]}
    if not jsonschema_rs.is_valid(schema, value):
        return
    assert jsonschema_rs.is_valid(simplify_schema(copy.deepcopy(schema), profile), value)
