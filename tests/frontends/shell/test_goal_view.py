"""Halts of work towards a goal, on a terminal: what is shown, and what may be answered."""

from __future__ import annotations

import asyncio
import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aish.autonomy.state import GoalState
from aish.frontends import signals
from aish.frontends.shell.commands.norris import TerminalWatcher, resume_run, work
from aish.frontends.shell.render.event_printer import EventPrinter
from aish.frontends.signals import INTERRUPTED
from aish.frontends.terminal import Output
from aish.ports import CallContext
from aish.types.decisions import Danger, Question, QuestionKind
from aish.types.events import TextDelta
from aish.types.runs import Halt, HaltAnswer, HaltChoice, HaltKind, RunKind, RunState
from aish.types.tools import Arguments, Effect, ToolOutput
from support.containment import FakeSandbox
from support.engines import Bench, Tools, said


class Typed:
    def __init__(self, *lines: str | None) -> None:
        self._lines = list(lines)

    async def read(self, prompt: str, typed: str = "") -> str | None:
        return self._lines.pop(0)

    def drop_typed_ahead(self) -> None: ...


def question(tool: str = "files__write", preview: str = "", **arguments: Any) -> Question:
    return Question("call_1", QuestionKind.EFFECT, tool, "write", arguments, "it can change things", preview=preview)


async def answered(halt: Halt, *lines: str | None, env: Mapping[str, str] | None = None) -> tuple[HaltAnswer, str]:
    shown = io.StringIO()
    output = Output(shown, shown, color=False)
    watcher = TerminalWatcher(output, lambda: EventPrinter(output), Typed(*lines), env or {})
    return await watcher.decide(halt), shown.getvalue()


EFFECT = Halt(HaltKind.EFFECT, "it can change things", question(path="a.txt"))


@pytest.mark.parametrize(
    ("typed", "choice"),
    [
        ("p", HaltChoice.PROCEED),
        ("skip", HaltChoice.SKIP),
        ("a", HaltChoice.ABORT),
        ("leave", HaltChoice.STAY_HALTED),
        (None, HaltChoice.STAY_HALTED),
    ],
)
async def test_each_answer_is_understood(typed: str | None, choice: HaltChoice) -> None:
    assert (await answered(EFFECT, typed))[0].choice is choice


async def test_anything_else_is_asked_again() -> None:
    answer, _ = await answered(EFFECT, "yes please", "", "perhaps", "s")
    assert answer.choice is HaltChoice.SKIP


async def test_the_arguments_are_shown_beside_a_preview_that_is_no_diff() -> None:
    halt = Halt(HaltKind.EFFECT, "why", question(preview="it cannot be done as things are: gone", path="secret.txt"))
    _, shown = await answered(halt, "s")
    assert "files__write would run" in shown
    assert "secret.txt" in shown and "it cannot be done" in shown


async def test_edited_arguments_are_taken_and_bad_json_is_asked_again(tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    given = tmp_path / "given"
    given.write_text("not json")
    better = f"echo '{json.dumps({'path': 'b.txt'})}' > {given}"
    editor.write_text(f'#!/bin/sh\ncp {given} "$1"\n{better}\n')
    editor.chmod(0o755)
    answer, shown = await answered(EFFECT, "e", "e", env={"EDITOR": str(editor), "PATH": os.environ["PATH"]})
    assert answer == HaltAnswer(HaltChoice.EDIT, arguments={"path": "b.txt"})
    assert "that is not JSON" in shown


async def test_a_catastrophe_goes_on_only_with_the_word() -> None:
    halt = Halt(
        HaltKind.EFFECT,
        "it removes all",
        msgspec.structs.replace(question(command="rm -rf ~"), danger=Danger.CATASTROPHE),
    )
    assert (await answered(halt, "p", "y", "p", "yes"))[0].choice is HaltChoice.PROCEED
    assert (await answered(halt, "p", "y", "s"))[0].choice is HaltChoice.SKIP


async def test_where_there_is_no_call_there_is_nothing_to_skip_or_edit() -> None:
    answer, _ = await answered(Halt(HaltKind.PAUSE, "you stopped it"), "s", "e", "p")
    assert answer.choice is HaltChoice.PROCEED


async def test_directions_after_many_skips_are_told_to_the_model() -> None:
    answer, _ = await answered(Halt(HaltKind.SKIPS, "3 skips"), "keep the folders")
    assert answer == HaltAnswer(HaltChoice.PROCEED, note="keep the folders")


async def test_work_that_is_stopped_in_the_middle_stands_halted_and_can_be_gone_on_with() -> None:
    began = asyncio.Event()

    async def run(arguments: Arguments, context: CallContext) -> ToolOutput:
        if not began.is_set():
            began.set()
            await asyncio.Event().wait()
        return said("done")

    tools = Tools().add("shell__run", run, effect=Effect.EXEC)
    bench = Bench([TextDelta("CMD: make")], [TextDelta("GOAL: complete")], tools=tools)
    shown = io.StringIO()
    output = Output(shown, shown, color=False)
    watcher = TerminalWatcher(output, lambda: EventPrinter(output), Typed("p"), {})
    body = msgspec.json.encode(GoalState(model="scripted:model"))
    async with asyncio.timeout(20):
        working = asyncio.create_task(
            work(bench.engine, bench.engine.runs.start(RunKind.NORRIS, "tidy", body), watcher, FakeSandbox())
        )
        await began.wait()
        for _ in range(2):
            react = signals._interrupt
            assert react is not None
            react()
        assert await working == INTERRUPTED
        (record,) = await bench.engine.runs.list()
        assert (record.state, record.owner) == (RunState.HALTED, "")
        assert "halted: you stopped it in the middle" in shown.getvalue()

        assert await resume_run(bench.engine, record, watcher, FakeSandbox(), None) == 0
    assert "it may have been done" in shown.getvalue()  # the command that was under way, asked about
    assert len(tools.calls) == 2
