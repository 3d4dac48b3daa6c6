"""What the adapter is trained on is what the product says, and the tokens say what the text says."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from aish.frontends.eval.cases import load_file
from aish.providers.scripted import ScriptedProvider
from aish.providers.tool_calling.provider import ToolCallingProvider
from aish.tool_calls.schema.validator import schema_errors
from aish.types.messages import SystemMessage, user
from aish.types.requests import StepRequest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tools():
    from train.frames import read_tools

    return read_tools()


def test_a_training_prompt_is_what_the_constrained_mode_sends(tools):
    from train.render import prompt, templated

    messages = (SystemMessage("Be brief."), user("Add 2 and 3"))
    specs = tuple(written.spec for written in tools[:5])
    sent = ToolCallingProvider(ScriptedProvider("s", {})).prepare(
        StepRequest(model="m", messages=messages, tools=specs, tool_mode="constrained")
    )
    assert prompt(messages, specs) == templated(sent.messages)
    assert prompt(messages, specs).endswith("Add 2 and 3<|im_end|>\n<|im_start|>assistant\n")


def test_every_written_request_makes_a_call_that_its_tool_accepts(tools):
    from train.frames import asked
    from train.render import call

    rng = random.Random(1)
    for written in tools:
        for ask in written.asks:
            made = json.loads(call(written.spec, asked(written, ask, rng).arguments))
            assert made["name"] == written.name
            assert not schema_errors(written.spec.schema, made["arguments"]), (written.name, ask, made)


def test_what_an_argument_is_to_be_is_never_mistyped(tools):
    from train.frames import asked
    from train.voices import spoken

    rng = random.Random(2)
    for written in tools:
        found = asked(written, written.asks[0], rng)
        said = list(found.said)
        text = spoken(found, rng)
        assert all(part in text for part in said), (written.name, text, said)


def test_arguments_come_in_the_only_order_that_the_grammar_allows():
    from train.render import call, tool

    schema = {
        "properties": {"b": {"type": "string"}, "a": {"type": "string"}, "c": {"type": "string"}},
        "required": ["a", "c"],
    }
    assert call(tool("t", "", schema), {"c": "3", "b": "2", "a": "1"}) == (
        '{"name": "t", "arguments": {"a": "1", "c": "3", "b": "2"}}'
    )


def test_no_held_out_tool_or_request_is_trained_on(tools):
    from train.frames import read_small_talk

    listed = json.loads((ROOT / "train/held_out/tools.json").read_text())
    assert not {row["name"] for row in listed} & {written.name for written in tools}
    said = {ask for written in tools for ask in (*written.asks, *written.refused)} | {
        row[1] for row in read_small_talk()
    }
    for path in (ROOT / "train/held_out").glob("*.jsonl"):
        for line in path.read_text().splitlines():
            assert json.loads(line)["messages"][0]["content"] not in said


def test_no_request_of_a_suite_that_ships_is_trained_on(tools):
    from train.frames import read_small_talk

    said = {ask for written in tools for ask in (*written.asks, *written.refused)} | {
        row[1] for row in read_small_talk()
    }
    said = {ask.casefold().strip(" ?!.") for ask in said}
    for path in (ROOT / "src/aish/faces/eval/suites").glob("*.jsonl"):
        for line in path.read_text().splitlines():
            for message in json.loads(line)["messages"]:
                assert message["content"].casefold().strip(" ?!.") not in said


def test_the_held_out_cases_are_cases_that_can_be_measured():
    from train.measured import held_out_examples

    cases = [case for path in sorted((ROOT / "train/held_out").glob("*.jsonl")) for case in load_file(path)]
    assert len(cases) >= 120
    assert sum(example.kind == "refusal" for example in held_out_examples()) >= 40
    assert len(list(held_out_examples())) == len(cases)
