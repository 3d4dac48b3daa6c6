"""Hooks run as functions and as commands, in bounded time, and a failing one refuses or is skipped."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aish.config.schema.tools import HookConfig
from aish.extensions.manifest import BLOCKED, HookEntry
from aish.tools.extensions.hooks import HookRunner
from aish.tools.extensions.process import ToolProcess
from aish.tools.extensions.toolset import FoundHook
from aish.types.decisions import HookEvent, HookVerdict
from support.python_tools import write_source

EVENT = HookEvent("before_tool", session="s", turn="t", tool="box__look", effect="read", arguments={"at": "a"})


class World:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = folder / "settings"
        self.settings.mkdir()
        self.process = ToolProcess(workspace=lambda: folder)
        self.found: list[FoundHook] = []
        self.commands: list[HookConfig] = []

    def add(self, code: str, owner: str = "my", name: str = "it", tools: tuple[str, ...] = ("*",)) -> None:
        source = write_source(
            self.folder / f"{owner}_{name}.py", f'@hook("before_tool")\ndef {name}(event):\n    {code}\n', owner
        )
        self.found.append(FoundHook(source, HookEntry(name, "before_tool", tools)))

    def add_command(self, code: str, **fields: Any) -> None:
        script = self.settings / f"hook{len(self.commands)}.py"
        script.write_text(f"import json, sys, time\nevent = json.load(sys.stdin)\n{code}\n")
        self.commands.append(HookConfig("before_tool", f"{sys.executable} {script}", **fields))

    async def run(self, event: HookEvent = EVENT, **options: Any) -> HookVerdict:
        given = {"timeout_s": 30.0, "failing": "auto", **options}
        runner = HookRunner(
            lambda: self.process, lambda: self.found, self.commands, workspace=lambda: self.folder / "work",
            redact=lambda text: text.replace("s3cret", "[redacted]"), folder=self.settings, **given,
        )  # fmt: skip
        return await runner.run_hooks(event)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made = World(tmp_path)
    try:
        yield made
    finally:
        await made.process.aclose()


async def test_functions_deny_ask_and_narrow_one_after_the_other(world: World):
    world.add('return Change({"at": event.arguments["at"] + "b"})', name="first")
    world.add('return Change({"at": event.arguments["at"] + "c"})', name="second")
    world.add('return Ask("sure?")', name="third")
    verdict = await world.run()
    assert verdict == HookVerdict(None, "sure?", {"at": "abc"})


async def test_the_first_that_denies_ends_it(world: World):
    world.add('return Deny("s3cret reason")', name="first")
    world.add('raise ValueError("never called")', name="second")
    assert await world.run() == HookVerdict("[redacted] reason")


async def test_hooks_are_for_the_tools_that_they_name(world: World):
    world.add('return Deny("no")', tools=("shell__*",))
    assert await world.run() == HookVerdict()
    world.add_command("sys.exit(2)", tools=("box__*",))
    assert (await world.run()).refusal is not None


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("pass", HookVerdict()),
        ('print(json.dumps({"answer": "deny", "reason": event["tool"]}))', HookVerdict("box__look")),
        ('print(json.dumps({"answer": "ask"}))', None),
        ('print(json.dumps({"answer": "change", "arguments": {"at": "b"}}))', HookVerdict(arguments={"at": "b"})),
        ('sys.stderr.write("not today\\n"); sys.exit(2)', HookVerdict("not today")),
    ],
)
async def test_commands_answer_with_json_or_their_exit_code(world: World, code: str, expected: HookVerdict | None):
    world.add_command(code)
    verdict = await world.run()
    if expected is None:
        assert verdict.question is not None
    else:
        assert verdict == expected


@pytest.mark.parametrize("code", ["sys.exit(1)", "print('[1]')", 'print(\'{"answer": "allow"}\')', "1 / 0"])
async def test_a_failing_command_of_the_user_is_told_and_skipped(world: World, code: str):
    world.add_command(code)
    verdict = await world.run()
    assert verdict.refusal is None
    assert "failed" in verdict.notices[0] and "it was skipped" in verdict.notices[0]


async def test_a_command_in_the_workspace_is_not_run_since_a_model_may_change_it(world: World):
    script = world.folder / "work" / "check.py"
    script.parent.mkdir()
    script.write_text("import sys; sys.exit(2)\n")
    world.commands.append(HookConfig("before_tool", f"{sys.executable} {script}"))
    verdict = await world.run(failing="refuse")
    assert "is in the workspace, where a model may change it" in (verdict.refusal or "")


async def test_a_program_that_is_a_link_in_the_workspace_is_not_run_either(world: World):
    link = world.folder / "work" / "python"
    link.parent.mkdir()
    link.symlink_to(sys.executable)
    world.commands.append(HookConfig("before_tool", f"{link} -c pass"))
    assert "where a model may change it" in ((await world.run(failing="refuse")).refusal or "")


async def test_a_command_of_the_user_is_run_also_if_the_workspace_is_around_it(world: World):
    world.add_command("sys.exit(2)")
    (world.folder / "work").symlink_to(world.folder)
    assert (await world.run()).refusal is not None


async def test_a_source_that_has_changed_since_it_was_trusted_refuses(world: World):
    world.add('return Note("fine")', owner="project")
    found = world.found[0]
    world.found = [FoundHook(msgspec.structs.replace(found.source, revision=BLOCKED), found.entry)]
    assert "has changed since you trusted it" in ((await world.run()).refusal or "")


async def test_a_program_that_is_missing_is_a_failure_like_any_other(world: World):
    world.commands.append(HookConfig("before_tool", "/no/such/program"))
    assert "/no/such/program was not found" in (await world.run()).notices[0]


async def test_a_failing_hook_of_a_project_refuses_unless_the_user_says_otherwise(world: World):
    world.add('raise ValueError("oops")', owner="project")
    assert "oops" in ((await world.run()).refusal or "")
    assert (await world.run(failing="skip")).refusal is None


async def test_a_failing_hook_of_the_user_refuses_if_the_user_says_so(world: World):
    world.add('raise ValueError("oops")')
    assert (await world.run()).refusal is None
    assert "oops" in ((await world.run(failing="refuse")).refusal or "")


async def test_a_hook_that_hangs_is_given_up(world: World):
    world.add("time.sleep(1000)", owner="project", name="slow")
    world.add_command("time.sleep(1000)")
    verdict = await world.run(timeout_s=1.0)
    assert "took more than 1 s" in verdict.notices[0] or "did not finish within 1 s" in verdict.notices[0]
    assert verdict.refusal is not None and "slow" in verdict.refusal


async def test_an_answer_that_has_no_effect_at_its_point_is_told(world: World):
    world.add('return Note("mind the gap")', name="noting")
    verdict = await world.run()
    assert verdict == HookVerdict(notices=("the hook noting answered note, which has no effect at before_tool",))
    world.add_command('print(json.dumps({"answer": "note", "text": "hello"}))')
    world.commands = [HookConfig("after_tool", world.commands[0].command)]
    assert (await world.run(HookEvent("after_tool", tool="box__look", text="x"))).notes == ("hello",)


@pytest.mark.parametrize("command", ["/bin/echo 'open", "   "])
async def test_a_command_that_cannot_be_read_is_a_failure_like_any_other(world: World, command: str):
    world.commands.append(HookConfig("before_tool", command))
    assert "it was skipped" in (await world.run()).notices[0]


async def test_after_a_tool_a_failure_refuses_nothing(world: World):
    world.found = []
    world.commands = [HookConfig("after_tool", "/no/such/program")]
    event = HookEvent("after_tool", tool="box__look", text="x")
    verdict = await world.run(event, failing="refuse")
    assert verdict.refusal is None and verdict.notices
