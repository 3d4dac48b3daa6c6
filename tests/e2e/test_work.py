"""Long work with real processes: begun in one, killed, gone on with in another; goals and plans on the command line."""

from __future__ import annotations

import json
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.command import Command, ended
from support.free_port import free_port

HALTED = 6


@pytest.fixture
def aish(tmp_path: Path) -> Command:
    return Command(tmp_path)


def cmd(*commands: str) -> list[dict[str, Any]]:
    return [{"text": "\n".join(f"CMD: {command}" for command in commands)}]


DONE = [{"text": "GOAL: complete"}]


def wait_until(is_so: Any, what: str) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@contextmanager
def serving(aish: Command) -> Iterator[str]:
    port = free_port()
    process = aish.start("serve", "--listen", f"127.0.0.1:{port}")
    try:
        wait_until(lambda: _answers(port), "the server did not start")
        yield f"http://127.0.0.1:{port}"
    finally:
        ended(process, signal.SIGTERM)


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


def ask(url: str, path: str, body: Any = None) -> dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url + path, data), timeout=30) as reply:
        answer: dict[str, Any] = json.loads(reply.read())
        return answer


def the_run(aish: Command) -> dict[str, Any]:
    shown: dict[str, Any] = json.loads(aish.run("runs", "show", "latest", "--json").out)
    return shown


def test_a_run_killed_in_the_shell_is_finished_by_the_server_with_one_journal(aish: Command) -> None:
    log = aish.home / "log"
    model = aish.write_script("s", [cmd(f"echo one >> {log}"), [{"wait_s": 30}, *cmd(f"echo two >> {log}")], DONE])
    process = aish.start("norris", "-m", model, "write the log")
    try:
        wait_until(log.exists, "the first command did not run")
        wait_until(lambda: the_run(aish)["step"] == 2, "the second step did not begin")
    finally:
        assert ended(process).code == -signal.SIGKILL
    killed = the_run(aish)
    assert (killed["state"], log.read_text()) == ("running", "one\n")
    aish.write_script("s", [cmd(f"echo one >> {log}"), cmd(f"echo two >> {log}"), DONE])
    with serving(aish) as url:
        assert ask(url, f"/v1/runs/{killed['id']}/resume", {})["id"] == killed["id"]
        wait_until(lambda: ask(url, f"/v1/runs/{killed['id']}")["state"] != "running", "the run did not end")
    done = the_run(aish)
    assert (done["id"], done["state"]) == (killed["id"], "finished")
    assert log.read_text() == "one\ntwo\n"
    assert [step["arguments"]["command"][:8] for step in done["steps"]] == ["echo one", "echo two"]
    assert done["fence"] > killed["fence"]


def test_a_script_that_halts_ends_with_its_own_code_and_a_report(aish: Command) -> None:
    model = aish.write_script("s", [cmd("touch made", "rm -rf made"), DONE])
    ran = aish.run("norris", "-m", model, "tidy up")
    assert ran.code == HALTED
    assert "halted: removes made" in ran.err
    assert 'done: shell__run {"command":"touch made"}' in ran.err
    assert (aish.home / "made").exists()
    listed = aish.run("runs", "list").out
    assert "halted" in listed
    resumed = aish.run("runs", "resume", "latest", "--answer", "proceed")
    assert resumed.code == 0, resumed.err
    assert not (aish.home / "made").exists()
    assert aish.run("runs", "resume", "latest").code == 2  # it is over


@pytest.mark.parametrize("goal", ["delete the workspace", "remove everything here"])
def test_a_goal_that_asks_to_delete_the_workspace_halts_first(aish: Command, goal: str) -> None:
    (aish.home / "kept").write_text("dear")
    model = aish.write_script("s", [cmd(f"rm -rf {aish.home} && echo gone"), DONE])
    assert aish.run("norris", "-m", model, goal).code == HALTED
    assert (aish.home / "kept").read_text() == "dear"


def test_limits_of_the_command_line_hold(aish: Command) -> None:
    model = aish.write_script("s", [cmd("echo on and on")])
    ran = aish.run("norris", "-m", model, "--max-steps", "3", "go on")
    assert ran.code == 5
    assert "limit of 3 steps" in ran.err
    bad_values = [("--max-steps", "0"), ("--minutes", "0"), ("--budget", "-1")]
    for bad in (*bad_values, ("--minutes", "nan"), ("--minutes", "1e308"), ("--budget", "nan"), ("--budget", "inf")):
        assert aish.run("norris", "-m", model, *bad, "go on").code == 2


def test_a_given_up_run_is_not_gone_on_with(aish: Command) -> None:
    model = aish.write_script("s", [cmd("rm -r x")])
    aish.run("norris", "-m", model, "tidy up")
    assert aish.run("runs", "abandon", "latest").code == 0
    assert the_run(aish)["state"] == "abandoned"
    none = aish.run("runs", "list", "--limit", "0")
    assert (none.code, "at least 1" in none.err) == (2, True)
    assert "is over" in aish.run("runs", "resume", "latest", "--answer", "proceed").err


def test_a_plan_is_shown_followed_kept_and_run_again_with_other_values(aish: Command) -> None:
    plan = {"direct": False, "steps": [{"id": "sum", "tool": "runtime__add", "args": {"a": 2, "b": 40}}]}
    model = aish.write_script("s", [[{"text": "The sum is there."}]])
    planner = aish.home / "p.json"
    planner.write_text(json.dumps([[{"text": json.dumps(plan)}]]))
    with (aish.home / ".config" / "aish" / "config.toml").open("a") as config:
        config.write(f'[providers.p]\nkind = "scripted"\nfile = "{planner}"\n[planner]\nmodel = "p:p"\n')
    ran = aish.run("plan", "-m", model, "add 2 and 40")
    assert (ran.code, ran.out) == (0, "The sum is there.\n")
    assert "sum: runtime__add" in ran.err and "← 42" in ran.err
    aish.env["AISH_PLANNER__MODEL"] = "scripted:fake-tool"  # it writes no plan
    assert "working without one" in aish.run("plan", "-m", "fake-tool", "add 1 and 1").err
    del aish.env["AISH_PLANNER__MODEL"]
    assert aish.run("plan", "save", "sums", "n=40").code == 0
    assert aish.run("plan", "list").out.split() == ["sums", "n=…", "runtime__add"]
    again = aish.run("plan", "run", "sums", "n=8", "-m", model)
    assert again.code == 0 and "← 10" in again.err
    missing = aish.run("plan", "run", "sums", "-m", model)
    assert missing.code == 2 and "needs n" in missing.err
    kept = json.loads(aish.run("runs", "show", "latest", "--json").out)
    assert kept["plan"]["steps"][0]["status"] == "done"


def test_work_without_tools_runs_no_command(aish: Command) -> None:
    model = aish.write_script("s", [cmd("touch made"), DONE])
    ran = aish.run("norris", "-m", model, "--tools", "none", "make it")
    assert ran.code == 0 and "not allowed" in ran.err
    assert not (aish.home / "made").exists()


def test_work_that_is_interrupted_by_a_signal_can_be_gone_on_with(aish: Command) -> None:
    started = aish.home / "started"
    model = aish.write_script("s", [cmd(f"touch {started}"), [{"wait_s": 30}, *DONE]])
    process: subprocess.Popen[bytes] = aish.start("norris", "-m", model, "wait")
    wait_until(started.exists, "it did not begin")
    assert ended(process, signal.SIGTERM).code == 143
    assert (the_run(aish)["state"], the_run(aish)["owner"]) == ("running", "")
    aish.write_script("s", [cmd(f"touch {started}"), DONE])
    assert aish.run("runs", "resume", "latest").code == 0


def test_a_run_whose_model_could_not_be_asked_is_tried_again_by_resuming_it(aish: Command) -> None:
    model = aish.write_script("s", [[{"error": {"status": 500, "message": "out of order"}}]])
    ran = aish.run("norris", "-m", model, "try")
    assert ran.code == 4, ran.err
    aish.write_script("s", [DONE])
    resumed = aish.run("runs", "resume", "latest")
    assert resumed.code == 0, resumed.err
