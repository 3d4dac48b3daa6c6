"""Plans kept under a name: parameters taken out, values put in, and nothing run that is not filled in."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from aish.errors import UsageError
from aish.frontends.templates import find_template, list_templates, parse_parameters, save_template
from aish.planner.run import PlanBody
from aish.storage.memory import MemoryStore
from aish.types.runs import Plan, PlanStep, RunKind, RunRecord, RunState

STEPS = (
    PlanStep("a", "files__read", {"path": "src/main.py", "lines": 40}),
    PlanStep("b", "say", {"text": "of src/main.py: ${a}"}, needs=("a",)),
)


def run(kind: RunKind = RunKind.PLAN, steps: tuple[PlanStep, ...] = STEPS) -> RunRecord:
    plan = Plan(steps) if steps else None
    body = msgspec.json.encode(PlanBody("what is in src/main.py?", tools=("files__*",), plan=plan))
    return RunRecord("run_1", kind, "sess_1", "g", RunState.FINISHED, body)


async def test_a_plan_with_parameters_is_filled_in_again() -> None:
    store = MemoryStore()
    template = await save_template(store, "look", run(), {"file": "src/main.py", "count": "40"})
    assert template.parameters == ["file", "count"]
    assert await find_template(store, "look") == template
    assert await list_templates(store) == [template]
    question, plan = template.fill({"file": "x.c", "count": "7"})
    assert question == "what is in x.c?"
    assert plan.steps[0].args == {"path": "x.c", "lines": 7}
    assert plan.steps[1].args == {"text": "of x.c: ${a}"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "needs file, count"),
        ({"file": "x", "count": "1", "z": "2"}, "no parameter z"),
        ({"file": "x", "count": "y"}, "is a number"),
        ({"file": "x", "count": "\udcff"}, "is a number"),
        ({"file": "$a", "count": "1"}, "reads as a reference"),
        ({"file": "${b}", "count": "1"}, "reads as a reference"),
    ],
)
async def test_parameters_that_are_missing_unknown_or_wrong_are_named(given: dict[str, str], words: str) -> None:
    template = await save_template(MemoryStore(), "look", run(), {"file": "src/main.py", "count": "40"})
    with pytest.raises(UsageError, match=words):
        template.fill(given)


@pytest.mark.parametrize(
    ("name", "record", "replaced"),
    [
        ("../x", run(), {}),
        ("x", run(RunKind.NORRIS), {}),
        ("x", run(steps=()), {}),
        ("x", run(), {"p": "stands nowhere"}),
        ("x", run(), {"p": ""}),
    ],
)
async def test_what_cannot_be_kept_is_refused(name: str, record: RunRecord, replaced: dict[str, Any]) -> None:
    store = MemoryStore()
    with pytest.raises(UsageError):
        await save_template(store, name, record, replaced)
    assert await list_templates(store) == []


async def test_a_value_that_looks_like_a_parameter_or_a_reference_is_only_text() -> None:
    template = await save_template(MemoryStore(), "look", run(), {"file": "src/main.py"})
    _, plan = template.fill({"file": "{{file}}"})
    assert plan.steps[0].args["path"] == "{{file}}"


async def test_only_the_question_and_the_arguments_have_parameters() -> None:
    steps = (
        PlanStep("s2", "shell__run", {"command": "head -n 2 x"}),
        PlanStep("s3", "runtime__echo", {"text": "$s2", "more": "2 of ${s2}"}, needs=("s2",), why="as s2 says"),
    )
    template = await save_template(MemoryStore(), "look", run(steps=steps), {"n": "2", "word": "is"})
    question, plan = template.fill({"n": "7", "word": "was"})
    assert question == "what was in src/main.py?"
    assert [(step.id, step.tool, step.needs) for step in plan.steps] == [
        ("s2", "shell__run", ()), ("s3", "runtime__echo", ("s2",))
    ]  # fmt: skip
    assert [step.args for step in plan.steps] == [{"command": "head -n 7 x"}, {"text": "$s2", "more": "7 of ${s2}"}]


async def test_a_text_that_is_the_name_of_another_parameter_does_not_spoil_it() -> None:
    template = await save_template(MemoryStore(), "look", run(), {"of": "src/main.py", "word": "of"})
    _, plan = template.fill({"of": "x.c", "word": "in"})
    assert plan.steps[1].args == {"text": "in x.c: ${a}"}


def test_words_that_give_no_value_are_refused() -> None:
    assert parse_parameters(["a=1", "b=x=y"]) == {"a": "1", "b": "x=y"}
    for bad in (["a"], ["=1"], ["a b=1"], ["_a=1"], ["é=1"]):
        with pytest.raises(UsageError):
            parse_parameters(bad)


async def test_a_plan_whose_secret_was_not_kept_cannot_be_kept_either() -> None:
    with pytest.raises(UsageError, match="held a secret"):
        await save_template(MemoryStore(), "x", run(steps=(PlanStep("a", "say", {"text": "[redacted]"}),)), {})
