"""What is copied is copied to the letter, other tongues say what they mean, and nothing that is measured is taught."""

from __future__ import annotations

import random

import pytest

from aish.tool_calls.schema.validator import schema_errors


@pytest.mark.parametrize(
    ("value", "german", "chinese"),
    [(2, "zwei", "二"), (17, "siebzehn", "十七"), (21, "einundzwanzig", "二十一"), (30, "dreißig", "三十")],
)
def test_numbers_are_said_as_people_say_them(value, german, chinese):
    from train.tongues import chinese_number, german_number

    assert (german_number(value), chinese_number(value)) == (german, chinese)


def test_a_german_clock_says_the_time_that_is_meant():
    from train.tongues import german_time

    said = dict(german_time(random.Random(seed)) for seed in range(3000))
    assert (said["halb sieben"], said["Viertel vor sieben"], said["Viertel nach sechs"]) == ("06:30", "06:45", "06:15")


def test_an_english_clock_in_words_says_the_time_that_is_meant():
    from train.slots import clock

    said = dict(clock(random.Random(seed)) for seed in range(5000))
    assert said["quarter to one in the morning"] == "00:45"
    assert said["half past six in the morning"] == "06:30"
    assert said["quarter past three in the afternoon"] == "15:15"


def test_what_is_invented_stands_in_the_request_as_it_is_in_the_call():
    from train.invented import INVENTED
    from train.slots import SLOTS

    rng = random.Random(4)
    for name in INVENTED.keys() & SLOTS.keys() - {"names", "foods", "items"}:
        for _ in range(50):
            said, value = SLOTS[name](rng)
            assert value in said or "=" in name or value.casefold() in said.casefold(), (name, said, value)


def test_a_request_keeps_the_case_of_an_open_tools_values():
    from train.open_data import made_request
    from train.render import tool

    schema = {"type": "object", "properties": {"name": {"type": "string", "description": "Name"}}, "required": ["name"]}
    for seed in range(200):
        said, given = made_request(tool("getDam", "Retrieve a dam", schema), random.Random(seed))
        assert given["name"] in said


def test_an_open_tool_in_another_hand_takes_the_same_call():
    from train.open_data import restyled
    from train.render import tool

    properties = {"dam_name": {"type": "string", "description": "Name"}, "size": {"type": "integer"}}
    spec = tool("getDamSize", "A dam.", {"type": "object", "properties": properties, "required": ["dam_name"]})
    names = set()
    for seed in range(60):
        version, given = restyled(spec, {"dam_name": "Hoover", "size": 3}, random.Random(seed))
        names.add(version.name)
        assert not schema_errors(version.schema, given)
        assert list(given.values()) == ["Hoover", 3]
    assert names == {"getDamSize", "get_dam_size", "dam_size"}


@pytest.mark.parametrize(
    ("ask", "is_one"),
    [
        ("de: Wie weit ist es von {start} nach {end}?", True),
        ("how far is it from {a} to {b} ::unit=km", True),
        ("call {name}", False),
        ("how far is the moon from {b}?", False),
    ],
)
def test_what_could_become_a_measured_request_is_found_and_what_is_everybodys_is_not(ask, is_one):
    from train.measured import is_measured

    measured = frozenset({"wie weit ist es von leipzig nach dresden", "how far is it from rome to oslo", "call anna"})
    assert is_measured(ask, measured) is is_one


def test_an_option_that_is_named_in_passing_is_in_the_request_and_fits_its_tool():
    from train.frames import Argument, Asked, Written
    from train.options import with_options

    arguments = (
        Argument("city", {"type": "string"}, "city", required=True),
        Argument("limit", {"type": "integer"}, "n", required=False),
        Argument("style", {"type": "string", "enum": ["deep_red", "pale"]}, "", required=False),
        Argument("loud", {"type": "boolean"}, "", required=False),
    )
    written = Written("find", "Finds.", "home", arguments, ("find {city}",))
    seen = set()
    for seed in range(300):
        asked = Asked(["find ", "?"], ["Rome"], {"city": "Rome"})
        added = with_options(written, asked, random.Random(seed))
        assert not schema_errors(written.spec.schema, {"city": "Rome", **added})
        assert all(said in asked.text for said in asked.said)
        assert len(asked.said) == 1 + len(added)
        seen |= added.keys()
    assert seen == {"limit", "style"}


def test_a_follow_up_changes_one_thing_of_the_call_before(monkeypatch):
    import json

    from train.examples import Maker
    from train.frames import read_small_talk, read_tools

    from aish.types.messages import AssistantMessage

    maker = Maker.__new__(Maker)
    maker._rng, maker._tools, maker._talk, maker._open = random.Random(2), read_tools(), read_small_talk(), []
    monkeypatch.setattr(maker, "_size", lambda: 1)
    found = [example for _ in range(200) if (example := maker._follow_up()) is not None]
    assert found
    for example in found:
        [before] = [m.tool_calls[0] for m in example.messages if isinstance(m, AssistantMessage) and m.tool_calls]
        now = json.loads(example.answer)["arguments"]
        changed = {name for name, value in json.loads(before.arguments).items() if now[name] != value}
        assert len(changed) <= 1
        assert now.keys() == json.loads(before.arguments).keys()
