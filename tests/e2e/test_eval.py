"""`aish eval` as a person runs it: a process of its own, with a scripted model and with the real small one."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from aish.providers.model_store.cache import ModelCache
from support.command import Command, ended
from support.models import THREADS, model_cache  # noqa: F401  a fixture

ADD = {
    "name": "add",
    "description": "Add two numbers.",
    "parameters": {
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
        "required": ["a", "b"],
    },
}
CALL = {"call": {"index": 0, "id": "c1", "name": "add", "arguments": '{"a": 2, "b": 3}'}}


@pytest.fixture
def aish(private_home: Path) -> Command:
    return Command(private_home, {"AISH_DISCOVERY__ENABLED": "false"})


def write_cases(home: Path, *sums: int) -> str:
    """Cases that expect 2 + n; the scripted model always adds 2 and 3."""
    lines: list[dict[str, Any]] = [
        {
            "id": f"case-{at}",
            "suite": "sums",
            "messages": [{"role": "user", "content": f"add 2 and {number}"}],
            "tools": [ADD],
            "expect": {"calls": [{"name": "add", "arguments": {"a": [2], "b": [number]}}]},
        }
        for at, number in enumerate(sums)
    ]
    (home / "sums.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return "sums.jsonl"


def test_eval_asks_grades_and_writes_its_reports(aish):
    model = aish.write_script("adder", [[CALL, {"finish": "tool_calls"}]])
    cases = write_cases(aish.home, 3, 3, 4)
    done = aish.run("eval", cases, "--model", model, "--json", "out.json", "--html", "out.html", "--concurrency", "2")
    assert done.code == 0
    assert "sums" in done.out and "66.7 %" in done.out and "21-94" in done.out
    assert "3/3" in done.err and "\x1b" not in done.err
    report = json.loads((aish.home / "out.json").read_text())
    assert [result["outcome"] for result in report["results"]] == ["right", "right", "wrong"]
    assert report["results"][2]["reason"] == "add: b is 3, not 4"
    assert "add: b is 3, not 4" in (aish.home / "out.html").read_text()


def test_eval_fails_when_it_is_worse_than_its_baseline_and_says_what_turned(aish):
    model = aish.write_script("adder", [[CALL, {"finish": "tool_calls"}]])
    cases = write_cases(aish.home, 3, 3)
    assert aish.run("eval", cases, "--model", model, "--json", "before.json").code == 0
    wrong = {"call": {**CALL["call"], "arguments": '{"a": 2, "b": 5}'}}
    aish.write_script("adder", [[wrong, {"finish": "tool_calls"}]])
    done = aish.run("eval", cases, "--model", model, "--baseline", "before.json")
    assert done.code == 6
    assert "100.0 % → 0.0 % over 2 cases" in done.out and "now wrong: case-0, case-1" in done.out
    assert aish.run("eval", cases, "--model", model, "--baseline", "before.json", "--tolerance", "100").code == 0


def test_eval_counts_a_backend_that_fails_as_errors_and_never_as_wrong_answers(aish):
    model = aish.write_script("broken", [[{"error": {"status": 500, "message": "out of memory"}}]])
    done = aish.run("eval", write_cases(aish.home, 3), "--model", model, "--json", "out.json")
    assert done.code == 4
    assert "out of memory" in done.err
    assert json.loads((aish.home / "out.json").read_text())["results"][0]["outcome"] == "error"


def test_eval_reports_what_was_done_before_it_was_interrupted(aish):
    # A conversation that goes on is at the script's second step, which takes for ever.
    model = aish.write_script("slow", [[CALL, {"finish": "tool_calls"}], [{"wait_s": 600}]])
    file = aish.home / write_cases(aish.home, 3, 4)
    first, second = (json.loads(line) for line in file.read_text().splitlines())
    second["messages"] = [*first["messages"], {"role": "assistant", "content": "5"}, *second["messages"]]
    file.write_text(f"{json.dumps(first)}\n{json.dumps(second)}\n")
    process = aish.start("eval", "sums.jsonl", "--model", model, "--json", "out.json")
    assert process.stderr is not None
    line = process.stderr.readline()
    done = ended(process, signal.SIGINT)
    assert b"1/2" in line
    assert done.code == 130
    assert "100.0 %" in done.out and "interrupted" in done.err
    report = json.loads((aish.home / "out.json").read_text())
    assert (report["complete"], [result["case"] for result in report["results"]]) == (False, ["case-0"])


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("no-such-suite",), "there is no suite no-such-suite"),
        (("simple", "--slice", "3/2"), "no part of a whole"),
        (("simple", "--repeat", "0"), "--repeat must be at least 1"),
        (("simple", "--mode", "magic"), "invalid choice"),
        (("simple", "--json", "nowhere/out.json"), "no folder to write"),
        (("simple", "--baseline", "none.json"), "cannot read the baseline"),
        (("import", "bfcl", "."), "name a folder with -o"),
        (("import", "other", "."), "import what?"),
    ],
)
def test_eval_refuses_what_makes_no_sense_before_it_asks_anything(aish, words, reason):
    done = aish.run("eval", *words)
    assert done.code == 2
    assert reason in done.err


def test_eval_runs_real_tools_in_a_scratch_folder(aish):
    call = {
        "call": {
            "index": 0,
            "id": "c1",
            "name": "files__write",
            "arguments": '{"path": "fruit.txt", "content": "pineapple"}',
        }
    }
    model = aish.write_script("writer", [[call, {"finish": "tool_calls"}], [{"text": "Done."}]])
    done = aish.run("eval", "multi_turn", "--model", model, "--json", "out.json")
    results = {result["case"]: result for result in json.loads((aish.home / "out.json").read_text())["results"]}
    assert done.code == 0
    assert results["multi_turn-004"]["outcome"] == "right"
    assert results["multi_turn-005"]["outcome"] == "wrong"
    assert not (aish.home / "fruit.txt").exists()


def test_eval_measures_the_embedded_model_and_its_constrained_calls_are_all_valid(aish, model_cache: ModelCache):  # noqa: F811
    aish.write_config(f'[embedded]\ncache_dir = "{model_cache.root}"\nthreads = {THREADS}\n')
    done = aish.run(
        "eval", "simple", "multiple", "--limit", "3", "--model", "embedded:smollm2", "--mode", "constrained",
        "--json", "out.json",
    )  # fmt: skip
    results = json.loads((aish.home / "out.json").read_text())["results"]
    assert done.code == 0
    assert [result["outcome"] for result in results if result["outcome"] not in ("right", "wrong")] == []
    assert any(result.get("calls") for result in results)
    assert [call["fault"] for result in results for call in result.get("calls", []) if "fault" in call] == []
