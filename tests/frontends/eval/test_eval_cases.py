"""Cases: those that ship are sound, and a bad one is refused with the place and the reason."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from aish.errors import UsageError
from aish.frontends.eval.case_world import create_files
from aish.frontends.eval.cases import SHIPPED, load_file, load_suites
from aish.frontends.eval.matching import ActualCall, grade_calls, sample
from aish.frontends.eval.runner import select
from aish.tool_calls.schema.validator import schema_errors

LEAST = {
    "simple": 60,
    "multiple": 50,
    "parallel": 20,
    "irrelevance": 30,
    "multi_turn": 15,
    "chinese": 15,
    "german": 15,
}
ADD = {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}
GOOD: dict[str, Any] = {
    "id": "x1",
    "suite": "x",
    "messages": [{"role": "user", "content": "add 1"}],
    "tools": [ADD],
    "expect": {"calls": [{"name": "add", "arguments": {"a": [1]}}]},
}


def write(folder: Path, *lines: Any) -> Path:
    file = folder / "cases.jsonl"
    file.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return file


def test_every_suite_ships_with_enough_cases() -> None:
    cases = load_suites(())
    counts = Counter(case.suite for case in cases)
    assert {suite for suite, least in LEAST.items() if counts[suite] < least} == set()
    assert tuple(counts) == SHIPPED
    assert len(cases) >= 200


def test_every_expected_call_that_ships_is_valid_and_would_be_graded_right() -> None:
    for case in load_suites(()):
        schemas = {tool.name: tool.schema for tool in case.tools}
        calls = [
            ActualCall(call.name, {key: sample(allowed[0]) for key, allowed in call.arguments.items()})
            for call in case.expect.calls
        ]
        assert [schema_errors(schemas[call.name], call.arguments) for call in calls] == [[]] * len(calls), case.id
        assert grade_calls(case.expect.calls, calls).exact, case.id


def test_every_tool_that_ships_has_a_schema_that_rejects_what_is_unknown() -> None:
    for case in load_suites(()):
        for tool in case.tools:
            assert schema_errors(tool.schema, {"no_such_argument": 1}), (case.id, tool.name)


def test_choosing_is_possible_in_every_case_of_the_multiple_suite() -> None:
    assert {case.id for case in load_suites(["multiple"]) if not 2 <= len(case.tools) <= 6} == set()


def test_every_world_that_ships_can_be_laid_out(tmp_path: Path) -> None:
    for case in load_suites(["multi_turn"]):
        folder = tmp_path / case.id
        folder.mkdir()
        create_files(case.world, folder)
        assert {str(file.relative_to(folder)) for file in folder.rglob("*")} == set(case.world.files)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"id": ""}, "needs an id"),
        ({"messages": []}, "must be the user's"),
        ({"messages": [{"role": "assistant", "content": "hi"}]}, "must be the user's"),
        ({"messages": [{"role": "wizard", "content": "hi"}]}, "messages"),
        ({"tools": []}, "needs tools"),
        ({"tools": ["no_such_tool"]}, "no tool no_such_tool in tools.json"),
        ({"expect": {}}, "exactly one of"),
        ({"expect": {"no_call": True, "calls": [{"name": "add", "arguments": {"a": [1]}}]}}, "exactly one of"),
        ({"expect": {"calls": [{"name": "sub", "arguments": {}}]}}, "sub, which is not among its tools"),
        ({"expect": {"calls": [{"name": "add", "arguments": {"a": ["one"]}}]}}, "does not fit the schema"),
        ({"expect": {"calls": [{"name": "add", "arguments": {"a": []}}]}}, "no value is allowed for a"),
        ({"expect": {"calls": [{"name": "add", "arguments": {}}]}}, "does not fit the schema"),
        ({"expect": {"calls": [{"name": "add", "arguments": {"a": [1]}, "optional": ["a"]}]}}, "without its optional"),
        ({"expect": {"calls": [{"name": "add", "arguments": {"a": [1]}, "optional": ["b"]}]}}, "b is optional"),
        ({"expect": {"final": {}}}, "go together"),
        ({"then": ["more"]}, "needs a final state"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_bad_case_is_refused_with_its_line_and_the_reason(
    tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    file = write(tmp_path, GOOD, {**GOOD, "id": "x2", **change})
    with pytest.raises(UsageError) as refused:
        load_file(file)
    assert f"{file}:2: " in refused.value.message and reason in refused.value.message


def test_a_line_that_is_no_json_is_refused_with_its_number(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cases\.jsonl:3: "):
        load_file(write(tmp_path, GOOD, "", "{oops"))


def test_an_empty_file_a_missing_one_and_the_same_id_twice_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no cases"):
        load_file(write(tmp_path, ""))
    with pytest.raises(UsageError, match="there is no suite nothing"):
        load_suites(["nothing"])
    with pytest.raises(UsageError, match="two cases have the id x1"):
        load_suites([str(write(tmp_path, GOOD, GOOD))])


def test_tools_may_be_named_from_the_library_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "tools.json").write_text(json.dumps([ADD]))
    (case,) = load_file(write(tmp_path, {**GOOD, "tools": ["add"]}))
    assert [tool.name for tool in case.tools] == ["add"]


def test_a_digest_changes_with_what_is_asked_and_not_with_the_tags(tmp_path: Path) -> None:
    lines = [GOOD, {**GOOD, "id": "x2", "tags": ["easy"]}, {**GOOD, "id": "x3", "messages": [GOOD["messages"][0]] * 2}]
    first, tagged, longer = load_file(write(tmp_path, *lines))
    assert first.digest == tagged.digest != longer.digest


def test_the_slices_of_a_suite_make_the_whole_without_overlap() -> None:
    cases = load_suites(["simple", "german"])
    parts = [select(cases, part=(at, 3), limit=0) for at in (1, 2, 3)]
    assert sorted(case.id for part in parts for case in part) == sorted(case.id for case in cases)


def test_a_limit_takes_so_many_of_each_suite_from_all_over_it() -> None:
    chosen = select(load_suites(["simple", "german"]), part=(1, 1), limit=4)
    assert Counter(case.suite for case in chosen) == {"simple": 4, "german": 4}
    assert chosen[3].id > "simple-050"
