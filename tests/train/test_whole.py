"""Whole requests: what changes in the text changes in the call, and what is measured stays out."""

from __future__ import annotations

import json
import random
import re

import pytest
from train.measured import measured_cases, measured_tools
from train.recast import recast
from train.render import tool
from train.revalued import is_said, renumbered, revalued
from train.whole import Apart, Whole, read_whole, tongue_of
from train.whole_examples import WholeRequests

from aish.tool_calls.schema.validator import schema_errors

NUMBER, TEXT = {"type": "number"}, {"type": "string"}
VENTS = {
    "name": "greenhouse.vent_schedule",
    "about": "Plan when the roof vents of a greenhouse open.",
    "args": {
        "location": {"type": "string", "description": "City and state, e.g. Fresno, CA"},
        "threshold": {"type": "number", "description": "Temperature in Celsius at which the vents open"},
        "night": {"type": "boolean", "description": "Open at night too. Default is false."},
    },
    "required": ["location", "threshold"],
    "asks": [
        ["Let the vents in Salinas, California open at 27.5 degrees", {"location": "Salinas, CA", "threshold": 27.5}],
        ["Portland, OR vents: 24, at night as well", {"location": "Portland, OR", "threshold": 24, "night": True}],
    ],
    "refused": ["How warm is it in Salinas right now?"],
}
PLAYER = {
    "name": "chessRating",
    "about": "Rating of a chess player.",
    "args": {"player": {"type": "string", "description": "Full name"}, "year": {"type": "integer"}},
    "required": ["player"],
    "asks": [["How strong was Judit Polgar in 2003?", {"player": "Judit Polgar", "year": 2003}]],
    "refused": ["Who invented the Sicilian defence?"],
}
NOTHING = Apart(frozenset(), frozenset())


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "life_01.jsonl").write_text(f"{json.dumps(VENTS)}\n\n{json.dumps(PLAYER)}\n")
    return tmp_path


@pytest.fixture(scope="module")
def written():
    return read_whole(Apart.of())


def test_a_line_is_a_tool_with_its_requests(folder):
    vents, player = read_whole(NOTHING, folder)
    assert (vents.spec.name, vents.field) == ("greenhouse.vent_schedule", "life_01")
    assert vents.spec.schema["required"] == ["location", "threshold"]
    assert player.asks == (("How strong was Judit Polgar in 2003?", {"player": "Judit Polgar", "year": 2003}),)
    assert vents.refused == ("How warm is it in Salinas right now?",)


def test_what_comes_near_a_measured_case_is_left_out_and_counted(folder, tmp_path):
    case = {
        "messages": [{"role": "user", "content": "So: let the vents in Salinas, California open at 30.1 degrees now"}],
        "tools": [{"name": "chess_rating"}],
    }
    (cases := tmp_path / "cases").write_text(json.dumps(case))
    apart = Apart.of([cases])
    (vents,) = read_whole(apart, folder)
    assert [text for text, _ in vents.asks] == ["Portland, OR vents: 24, at night as well"]
    assert apart.dropped == {"tools": 1, "requests": 1}


def test_rows_of_numbers_are_nobodys(folder, tmp_path):
    case = {"messages": [{"role": "user", "content": "mean of 1, 2, 3, 4, 5, 6, 7, 8, 9 and 10"}]}
    (cases := tmp_path / "cases").write_text(json.dumps(case))
    assert not Apart.of([cases]).has_request("largest of 4, 4, 6, 7, 8, 2, 3, 4, 9, 3")


def test_nothing_that_is_measured_is_among_the_written(written):
    names = {name.casefold() for name in measured_tools()}
    assert not names & {whole.spec.name.casefold() for whole in written}
    said = {text for whole in written for text in (*(ask for ask, _ in whole.asks), *whole.refused)}
    assert not said & {message["content"] for case in measured_cases() for message in case["messages"]}


def test_every_written_call_is_one_that_its_tool_accepts(written):
    for whole in written:
        for text, given in whole.asks:
            assert not schema_errors(whole.spec.schema, given), (whole.spec.name, text)


def is_meant(value, text):
    """Said as it is, or in another unit."""
    if is_said(value, text):
        return True
    numbers = [float(found.replace(",", "")) for found in re.findall(r"-?\d[\d,]*\.?\d*", text)]
    ratios = [value / number for number in numbers if number]
    return any(
        abs(ratio / times - 1) < 1e-6 for ratio in ratios for times in (0.01, 0.001, 7, 12, 24, 60, 100, 1e3, 3600, 1e6)
    )


def test_another_value_is_in_the_text_as_it_is_in_the_call(written):
    samples = [(text, given, whole.spec.schema["properties"]) for whole in written for text, given in whole.asks]
    samples += [(*VENTS["asks"][1], VENTS["args"]), (*PLAYER["asks"][0], PLAYER["args"])]
    changed = 0
    for text, given, schemas in samples:
        said, values = revalued(text, given, schemas, random.Random(text))
        assert values.keys() == given.keys()
        for name, value in values.items():
            assert type(value) is type(given[name])
            if value != given[name]:
                changed += 1
                assert is_meant(value, said), (text, said)
        assert (said == text) == (values == given)
    assert changed


def drawn(text, given, schemas, count=60):
    return [revalued(text, given, schemas, random.Random(seed)) for seed in range(count)]


@pytest.mark.parametrize(
    ("text", "value", "times"),
    [("at 7.1% a year", 0.071, 0.01), ("walk 3.2 km", 3200, 1000), ("for 45 cm", 0.45, 0.01), ("in 3 hours", 180, 60)],
)
def test_a_unit_is_reckoned_with(text, value, times):
    found = {said: values["n"] for said, values in drawn(text, {"n": value}, {"n": NUMBER})}
    assert len(found) > 4
    for said, number in found.items():
        assert number == pytest.approx(float(re.search(r"[\d.]+", said)[0]) * times)
        assert len(str(number)) < 8


def test_numbers_keep_their_shape_and_years_stay_years():
    schemas = {"price": NUMBER, "year": {"type": "integer"}, "rate": NUMBER}
    given = {"price": 12500, "year": 1987, "rate": -0.25}
    found = [values for _, values in drawn("price $12,500, year 1987, rate of -0.25", given, schemas)]
    assert len({values["price"] for values in found}) > 10
    assert all(10_000 <= values["price"] <= 99_900 and values["price"] % 100 == 0 for values in found)
    assert all(1947 <= values["year"] <= 2027 for values in found)
    assert all(-1 < values["rate"] < 0 and round(values["rate"], 2) == values["rate"] for values in found)


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("split 12 among 12 people", {"n": 12}),
        ("on May 12 at noon", {"n": 12}),
        ("rows 12, 15 and 18", {"n": 12}),
        ("x^12 please", {"n": 12}),
        ("7 nights, seven of them free", {"n": 7}),
        ("3 adults and 2 children", {"n": 3, "total": 5}),
        ("take 12 of A12-12", {"n": 12}),
        ("2.5 by 0.9 metres, thirty apart", {"n": 30}),
        ("from 12 to 20", {"min_n": 12, "max_n": 20}),
        ("12 pieces for 2024-03-12", {"n": 12, "date": "2024-03-12"}),
    ],
)
def test_a_number_that_something_depends_on_stays(text, given):
    schemas = dict.fromkeys(given, NUMBER)
    assert all(values == given for _, values in drawn(text, given, schemas))


def test_a_number_keeps_the_limits_that_the_schema_names():
    for schema in ({"type": "integer", "maximum": 30, "minimum": 20}, {**NUMBER, "description": "20 to 30"}):
        assert all(20 <= values["n"] <= 30 for _, values in drawn("take 25 now", {"n": 25}, {"n": schema}))


def test_a_request_that_is_declined_gets_other_numbers_and_keeps_its_words():
    found = {renumbered("Who ran 42 km on May 3, 2021 in 9 shoes?", random.Random(seed)) for seed in range(60)}
    assert len(found) > 20
    assert all(re.fullmatch(r"Who ran \d\d km on May 3, \d{4} in \d shoes\?", text) for text in found)


def test_a_name_becomes_another_of_its_sort_unless_the_call_says_more_than_the_text():
    schemas = {"city": TEXT, "country": TEXT}
    assert len({values["city"] for _, values in drawn("weather in Ghent", {"city": "Ghent"}, schemas)}) > 5
    known = {"city": "Ghent", "country": "Belgium"}
    assert all(values == known for _, values in drawn("weather in Ghent", known, schemas))
    towns = {values["city"] for _, values in drawn("rain in Salem, OR?", {"city": "Salem, OR"}, schemas)}
    assert len(towns) > 5 and all(town[-4:-2] == ", " for town in towns)


def test_a_tool_in_another_hand_takes_the_same_call(written, folder):
    names = set()
    for whole in (*read_whole(NOTHING, folder), *written[:40]):
        for seed, (text, given) in enumerate(whole.asks * 20):
            version, called = recast(whole.spec, text, given, random.Random(seed))
            names.add(version.name)
            assert not schema_errors(version.schema, called), (version, called)
            assert list(called.values()) == list(given.values())
    assert {"greenhouse.vent_schedule", "greenhouse_vent_schedule", "greenhouseVentSchedule", "chessRating"} <= names


def test_what_tells_the_form_of_a_value_stays(folder):
    vents = read_whole(NOTHING, folder)[0]
    text, given = vents.asks[0]
    for seed in range(200):
        version, called = recast(vents.spec, text, given, random.Random(seed))
        (place,) = (name for name, value in called.items() if value == "Salinas, CA")
        assert "state" in version.schema["properties"][place]["description"]


def other(name: str, about: str) -> Whole:
    return Whole(tool(name, about, {"type": "object", "properties": {}, "required": []}), (), (), "far")


def test_without_its_tool_a_request_is_declined_and_with_it_called(folder):
    tools = [*read_whole(NOTHING, folder), other("bread_recipe", "Recipes of bread."), other("tides", "Tide tables.")]
    requests = WholeRequests(tools, lambda count: [], random.Random(3))
    for _ in range(100):
        drawn = requests.call(3)
        assert drawn.given is not None and not schema_errors(drawn.tools[0].schema, drawn.given)
        away = requests.elsewhere()
        assert away is not None and away.given is None
        own = "vent" if "vents" in away.said.lower() else "rating"
        assert not [spec.name for spec in away.tools if own in spec.name.lower()]
        assert requests.refused(2).given is None


def test_the_tongue_of_a_request_is_known():
    said = [
        "Wie ist das Wetter?",
        "¿Qué hora es?",
        "Je cherche une auberge",
        "明天下雨吗",
        "Los Angeles, please",
        "El Paso",
    ]
    assert [tongue_of(text) for text in said] == ["de", "es", "fr", "zh", "en", "en"]
