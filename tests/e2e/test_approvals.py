"""How often a user is asked in thirty steps of usual work on a git repository, and that nothing leaves it unasked."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aish.app.container import Container
from aish.config.load import load_config
from aish.engine.engine import flatten
from aish.frontends.runtime import LaunchContext
from aish.tools.code.files.source import REVISION_CHARS, content_hash
from aish.types.decisions import Answer, Choice, Mode, Question
from aish.types.events import ToolResult, TurnFinished
from aish.types.messages import text_of, user
from aish.types.requests import TurnLimits, TurnRequest

TEST = "python3 -m unittest -q"
FILES = 6
OWN_FOLDERS = {".config", ".local", ".cache"}  # what aish itself keeps in the home
SOURCE = "def value():\n    return {}\n"
TESTS = "import unittest\nimport m0\n\n\nclass Test(unittest.TestCase):\n    def test_it(self):\n        m0.value()\n"


def call(name: str, **arguments: Any) -> list[dict[str, Any]]:
    return [{"call": {"index": 0, "name": name, "arguments": json.dumps(arguments)}}]


def run(command: str) -> list[dict[str, Any]]:
    return call("shell__run", command=command)


def edit(number: int) -> list[dict[str, Any]]:
    revision = content_hash(SOURCE.format(number).encode())[:REVISION_CHARS]
    new = f"return {number} + 1"
    change = {"path": f"m{number}.py", "revision": revision, "old": f"return {number}", "new": new}
    return call("ide__edit", edits=[change])


STEPS = [
    call("ide__read_file", path="m0.py"), edit(0), run(TEST), run("git status"),
    edit(1), run(TEST), edit(2), run(TEST), call("ide__read_file", path="m3.py"), edit(3), run(TEST),
    run("git diff"), edit(4), run(TEST), run("ls -l"), edit(5), run(TEST), run("git diff --stat"),
    call("ide__search", pattern="return"), run("cat m1.py"), run(TEST), run("grep -rn value ."),
    run("rm scratch.txt"), run("wc -l m0.py m1.py"), run("git add -A"), run("git status --short"),
    run("git log --oneline"), run(f"{TEST} test_m"), run("git commit -qm done"), run("git diff HEAD~1 --stat"),
]  # fmt: skip


@pytest.fixture
def project() -> Iterator[Path]:
    """Not in /tmp, where the sandbox lets new files be made."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield make_project(Path(folder))


def make_project(person: Path) -> Path:
    work = person / "work"
    for folder in (work, person / "home"):
        folder.mkdir()
    for number in range(FILES):
        (work / f"m{number}.py").write_text(SOURCE.format(number))
    (work / "test_m.py").write_text(TESTS)
    (work / "scratch.txt").write_text("x")
    for words in (["init", "-q"], ["config", "user.name", "u"], ["config", "user.email", "u@example.com"],
                  ["add", "."], ["commit", "-qm", "first"]):  # fmt: skip
        subprocess.run(["git", *words], cwd=work, check=True, capture_output=True, timeout=30)
    return work


async def work(project: Path, mode: Mode, ask: Any, steps: list[Any] = STEPS) -> list[ToolResult]:
    home = project.parent / "home"
    config = home / ".config" / "aish" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    script = config.parent / "script.json"
    script.write_text(json.dumps([*steps, [{"text": "done"}]]))
    provider = f'[providers.s]\nkind = "scripted"\nfile = "{script}"\n'
    config.write_text(provider + '[ide]\nenabled = "always"\n[discovery]\nenabled = false\n')
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
    runtime = Container(LaunchContext(project, env), load_config(cwd=project, env=env, flags={}))
    limits = TurnLimits(max_steps=len(steps) + 2, max_tool_calls=len(steps) + 2)
    request = TurnRequest((user("go"),), model="s:script", tools=("*",), limits=limits, mode=mode)
    results = []
    async with asyncio.timeout(120), runtime.engine() as engine, engine.turn(request, ask=ask) as batches:
        async for event in flatten(batches):
            if isinstance(event.body, ToolResult):
                results.append(event.body)
            if isinstance(event.body, TurnFinished):
                assert event.body.reason == "answered"
    return results


@pytest.mark.parametrize(("mode", "most"), [(Mode.ASK, 3), (Mode.EDITS, 2), (Mode.AUTO, 1)])
async def test_thirty_steps_of_work_ask_few_questions_and_change_nothing_outside(
    project: Path, mode: Mode, most: int
) -> None:
    asked: list[Question] = []

    async def ask(question: Question) -> Answer:
        asked.append(question)
        return Answer(Choice.SESSION if question.like else Choice.YES)

    results = await work(project, mode, ask)
    assert len(STEPS) == 30 and len(results) == 30
    failed = [text_of(result.parts) for result in results if result.status != "ok"]
    assert failed == []
    assert len(asked) <= most, [question.arguments for question in asked]
    assert all((project / f"m{number}.py").read_text() == SOURCE.format(f"{number} + 1") for number in range(FILES))
    assert not (project / "scratch.txt").exists()
    outside = [file.relative_to(project.parent) for file in project.parent.rglob("*") if file.is_file()]
    assert [str(file) for file in outside if file.parts[0] != "work" and not OWN_FOLDERS & {*file.parts}] == []
    removal = next(question for question in asked if question.arguments.get("command") == "rm scratch.txt")
    assert removal.loss == "removes 1 file, all in git"


REACHING = ["echo x > ../outside.txt", "cp m0.py ~/copy.py", "cd .. && touch outside.txt", "rm -rf ../home/kept"]


@pytest.mark.parametrize("mode", list(Mode))
async def test_whatever_was_allowed_for_the_session_nothing_outside_changes_without_a_question(
    project: Path, mode: Mode
) -> None:
    kept = project.parent / "home" / "kept"
    kept.mkdir()
    asked: list[str] = []

    async def ask(question: Question) -> Answer:
        command = str(question.arguments.get("command"))
        asked.append(command)
        return Answer(Choice.NO) if command in REACHING else Answer(Choice.SESSION)

    await work(project, mode, ask, [run("touch inside.txt"), edit(0), *map(run, REACHING)])
    assert [command for command in asked if command in REACHING] == ([] if mode is Mode.PLAN else REACHING)
    assert kept.is_dir()
    assert {file.name for file in project.parent.iterdir()} == {"home", "work"}
    assert not (project.parent / "home" / "copy.py").exists()
    assert (project / "inside.txt").exists() is (mode is not Mode.PLAN)
