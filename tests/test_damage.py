"""The corruption suite is true to itself: what is called damaged is, and what is called determined is."""

from __future__ import annotations

import json
from collections import Counter

import jsonschema_rs
import pytest
from hypothesis import given

from support.damage import KINDS, Damaged, damaged, damaged_calls, judge, same
from support.damage_corpus import CALLS
from support.damage_meaning import edits
from support.damage_text import readings


@pytest.fixture(scope="module")
def cases() -> list[Damaged]:
    return damaged_calls()


def test_there_are_many_different_calls_and_each_is_valid() -> None:
    assert len(CALLS) >= 60
    assert [call for call in CALLS if not jsonschema_rs.is_valid(call.schema, call.arguments)] == []


def test_every_kind_of_damage_gives_cases(cases: list[Damaged]) -> None:
    assert set(Counter(case.kind for case in cases)) == set(KINDS)
    assert sum(case.repairable for case in cases) >= 1000
    assert sum(not case.repairable for case in cases) >= 500
    assert len({case.id for case in cases}) == len(cases)


def test_a_seed_gives_the_same_cases_every_time_and_another_seed_others(cases: list[Damaged]) -> None:
    assert damaged_calls() == cases
    assert damaged_calls(seed=1) != cases


def test_a_damaged_text_is_not_the_correct_one(cases: list[Damaged]) -> None:
    for case in cases:
        if case.form == "arguments" and case.called == case.truth[0].name and case.kind != "repeated_keys":
            try:
                read = json.loads(case.text)
            except json.JSONDecodeError:
                continue
            # Python reads NaN, and takes 7.0 for another number than 7.
            right = same(read, case.truth[0].arguments) and "NaN" not in case.text
            assert not right or case.kind in ("wrong_types", "invisible_characters"), case


def test_no_text_is_repairable_in_one_case_and_not_in_another(cases: list[Damaged]) -> None:
    sure = {(case.form, case.called, case.text, case.finish): case for case in cases if case.repairable}
    for case in cases:
        twin = sure.get((case.form, case.called, case.text, case.finish))
        assert case.repairable or twin is None or twin.tools != case.tools, (case, twin)


def test_no_text_means_two_different_calls(cases: list[Damaged]) -> None:
    truths: dict[tuple[object, ...], Damaged] = {}
    for case in cases:
        if case.repairable:
            first = truths.setdefault((case.form, case.called, case.text, repr(case.tools)), case)
            assert same([[c.name, c.arguments] for c in first.truth], [[c.name, c.arguments] for c in case.truth])


def test_valid_json_under_its_schema_is_only_beyond_repair_where_keys_contradict_each_other(
    cases: list[Damaged],
) -> None:
    for case in cases:
        if case.repairable or case.form == "text" or case.called != case.truth[0].name or case.kind == "odd_numbers":
            continue
        try:
            read = json.loads(case.text)
        except json.JSONDecodeError:
            continue
        assert case.kind == "repeated_keys" or not jsonschema_rs.is_valid(case.truth[0].schema, read), case


def test_a_refusal_is_never_wrong_and_a_guess_always_is(cases: list[Damaged]) -> None:
    for case in cases:
        truth = [(call.name, call.arguments) for call in case.truth]
        assert judge(case, None) == "refused"
        assert judge(case, truth) == ("repaired" if case.repairable else "wrong")
        assert judge(case, [("other", {})]) == "wrong"


@given(damaged())
def test_any_seed_gives_a_case_that_names_its_truth_among_its_tools(case: Damaged) -> None:
    assert {call.name for call in case.truth} <= {tool.name for tool in case.tools}


@pytest.mark.parametrize(
    ("text", "ways"),
    [
        ('{"a": "x"}', 1),
        ('{"a": "say "hi" now"}', 1),
        ('{"a": "x", "b": "y"}', 2),
        ('{"a": ["x", "y"]}', 2),
        ('{"a": "x}', 0),
    ],
)
def test_readings_counts_the_ways_a_text_with_loose_quotes_can_be_read(text: str, ways: int) -> None:
    assert len(readings(text)) == ways


def test_edits_counts_a_swap_once() -> None:
    assert [edits("abc", "acb"), edits("abc", "abc"), edits("", "ab"), edits("lock", "unlock")] == [1, 0, 2, 2]
