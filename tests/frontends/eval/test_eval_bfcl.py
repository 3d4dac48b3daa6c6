"""Files in the shape of the Berkeley Function-Calling Leaderboard, written by us, become suites of ours."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from aish.errors import UsageError
from aish.frontends.eval.bfcl import convert, legal_name
from aish.frontends.eval.cases import Case, load_file
from aish.frontends.eval.matching import ActualCall, grade_calls


def function(name: str, required: list[str], /, **properties: Any) -> dict[str, Any]:
    return {
        "name": name,
        "description": "Does it.",
        "parameters": {"type": "dict", "properties": properties, "required": required},
    }


def question(id: str, *functions: dict[str, Any]) -> dict[str, Any]:
    return {"id": id, "question": [[{"role": "user", "content": f"Question {id}?"}]], "function": list(functions)}


SCALE = function(
    "shape.scale",
    ["factor", "name"],
    factor={"type": "float"},
    name={"type": "string"},
    size={"type": "tuple", "items": {"type": "integer"}},
    style={"type": "dict", "properties": {"color": {"type": "string"}, "width": {"type": "integer"}}},
    extra={"type": "any"},
)
FILES = {
    "simple_python": (
        [question("simple_python_0", SCALE)],
        [{"shape.scale": {"factor": [2, 2.0], "name": ["big one"], "size": [[3, 4], ""],
                          "style": [{"color": ["red"], "width": [1, ""]}, ""], "extra": ["", "x"]}}],
    ),
    "multiple": ([question("multiple_0", SCALE, function("other", []))], [{"other": {}}]),
    "parallel": (
        [question("parallel_0", function("ping", ["host"], host={"type": "string"}))],
        [{"ping": {"host": ["a"]}}, {"ping": {"host": ["b"]}}],
    ),
    "irrelevance": ([question("irrelevance_0", SCALE)], None),
}  # fmt: skip


def write_files(folder: Path) -> Path:
    data = folder / "bfcl_eval" / "data"
    (data / "possible_answer").mkdir(parents=True)
    for category, (questions, truth) in FILES.items():
        (data / f"BFCL_v4_{category}.json").write_text("".join(json.dumps(line) + "\n" for line in questions))
        if truth is not None:
            answer = {"id": questions[0]["id"], "ground_truth": truth}
            (data / "possible_answer" / f"BFCL_v4_{category}.json").write_text(json.dumps(answer) + "\n")
    return folder


def converted(source: Path, target: Path) -> dict[str, Case]:
    return {case.suite: case for file, _ in convert(source, target) for case in load_file(file)}


@pytest.fixture
def cases(tmp_path: Path) -> dict[str, Case]:
    return converted(write_files(tmp_path / "in"), tmp_path / "out")


def right(case: Case, *made: tuple[str, dict[str, Any]]) -> bool:
    return grade_calls(case.expect.calls, [ActualCall(name, arguments) for name, arguments in made]).exact


def test_names_and_types_become_legal(cases: dict[str, Case]) -> None:
    (tool,) = cases["bfcl_simple"].tools
    properties = tool.schema["properties"]
    assert (tool.name, tool.schema["type"]) == ("shape_scale", "object")
    assert [properties[key].get("type") for key in ("factor", "size", "style", "extra")] == [
        "number", "array", "object", None,
    ]  # fmt: skip
    assert legal_name("a.b c/d") == "a_b_c_d"


@pytest.mark.parametrize(
    ("arguments", "is_right"),
    [
        ({"factor": 2, "name": "Big-One"}, True),
        ({"factor": 2.0, "name": "big one", "size": [3, 4], "style": {"color": "RED"}}, True),
        ({"factor": 2, "name": "big one", "style": {"color": "red", "width": 1}, "extra": "x"}, True),
        ({"factor": 2, "name": "big one", "style": {"width": 1}}, False),
        ({"factor": 2, "name": "big one", "size": [4, 3]}, False),
        ({"factor": 3, "name": "big one"}, False),
        ({"factor": 2}, False),
        ({"factor": 2, "name": "big one", "unknown": 1}, False),
    ],
)
def test_their_answers_are_graded_as_they_define(
    cases: dict[str, Case], arguments: dict[str, Any], *, is_right: bool
) -> None:
    assert right(cases["bfcl_simple"], ("shape_scale", arguments)) is is_right


def test_parallel_calls_are_expected_in_any_order(cases: dict[str, Case]) -> None:
    assert right(cases["bfcl_parallel"], ("ping", {"host": "b"}), ("ping", {"host": "a"}))
    assert not right(cases["bfcl_parallel"], ("ping", {"host": "b"}), ("ping", {"host": "b"}))


def test_a_call_without_arguments_and_no_call_at_all_are_told_apart(cases: dict[str, Case]) -> None:
    assert right(cases["bfcl_multiple"], ("other", {}))
    assert cases["bfcl_irrelevance"].expect.no_call


def test_a_wheel_is_read_like_a_folder(tmp_path: Path, cases: dict[str, Case]) -> None:
    wheel = tmp_path / "bfcl.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for file in sorted((tmp_path / "in").rglob("*.json")):
            archive.write(file, file.relative_to(tmp_path / "in"))
    assert converted(wheel, tmp_path / "again") == cases


def test_something_else_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="none of the Berkeley files") as refused:
        list(convert(tmp_path / "empty", tmp_path / "out"))
    assert "pip download" in refused.value.hint
    (tmp_path / "text.whl").write_text("no wheel")
    with pytest.raises(UsageError, match="neither a folder nor a wheel"):
        list(convert(tmp_path / "text.whl", tmp_path / "out"))
    (tmp_path / "empty" / "BFCL_v4_simple_python.json").write_text('{"id": 1}\n')
    with pytest.raises(UsageError, match="shape of version 4"):
        list(convert(tmp_path / "empty", tmp_path / "out"))
