"""Open tools put in other words: what is asked for is in the call, and the call fits what is shown of the tool."""

from __future__ import annotations

import json
import random

import pytest
from train.altered import altered_request, displayed, learn_examples
from train.natural import sentence
from train.render import call, tool

SPECS = [
    tool(
        "getFuelLevel",
        "Retrieve the fuel level of a specific vehicle",
        {
            "type": "object",
            "properties": {
                "vehicle_id": {"type": "string", "description": "The ID of the vehicle"},
                "fuel_type": {"type": "string", "description": "Type of fuel (e.g., petrol, diesel, electric)"},
                "year": {"type": "integer", "description": "The year"},
            },
            "required": ["vehicle_id"],
        },
    ),
    tool(
        "calculateLoad",
        "Calculate the load of a bridge",
        {
            "type": "object",
            "properties": {
                "span": {"type": "number", "description": "The span in meters"},
                "include_wind": {"type": "boolean", "description": "Whether wind counts"},
                "location": {"type": "string", "description": "The location of the bridge"},
            },
            "required": ["span", "include_wind"],
        },
    ),
]
KINDS = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list}


@pytest.fixture(scope="module")
def made():
    learn_examples(SPECS)
    rng = random.Random(4)
    found = [altered_request(spec, rng) for spec in SPECS for _ in range(400)]
    return [pair for pair in found if pair is not None]


def test_most_tools_get_a_request(made):
    assert len(made) > 500


def test_a_call_has_all_that_is_required_and_nothing_that_the_tool_lacks(made):
    for spec, _, given in made:
        assert set(spec.schema["required"]) <= given.keys() <= spec.schema["properties"].keys()


def test_values_are_of_the_kind_that_is_shown(made):
    for spec, _, given in made:
        for name, value in given.items():
            schema = spec.schema["properties"][name]
            assert isinstance(value, KINDS[schema["type"]]), (name, value)
            assert value in schema.get("enum", [value])


def test_texts_are_said_as_they_are_wanted(made):
    for _, said, given in made:
        for value in given.values():
            for text in value if isinstance(value, list) else [value]:
                if isinstance(text, str):
                    assert text.casefold() in said.casefold()


def test_nothing_of_the_making_is_shown(made):
    for spec, _, given in made:
        assert not any(key.startswith("_") for schema in spec.schema["properties"].values() for key in schema)
        assert json.loads(call(spec, given))["arguments"] == given


def test_lists_choices_and_switches_come_up(made):
    kinds = {schema["type"] for spec, _, _ in made for schema in spec.schema["properties"].values()}
    assert {"array", "boolean", "string"} <= kinds
    assert any("enum" in schema for spec, _, _ in made for schema in spec.schema["properties"].values())


def test_a_tool_that_nobody_asks_for_is_changed_alike():
    names = {displayed(SPECS[0], random.Random(seed)).name for seed in range(60)}
    assert len(names) > 3


def test_the_same_seed_says_the_same():
    schemas = SPECS[0].schema["properties"]
    first, second = (
        sentence(SPECS[0].description, {"vehicle_id": "AB 12"}, schemas, random.Random(3)) for _ in range(2)
    )
    assert first == second and "AB 12" in first
