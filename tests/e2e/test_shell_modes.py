"""Modes at the prompt, on a real terminal: they are cycled, shown, and a plan is approved before it is worked off."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.test_shell import config, did, model, shell
from support.terminal import terminal

SHIFT_TAB = "\x1b[Z"
EDIT = {"edits": [{"path": "notes.txt", "revision": "new", "new": "from the model\n"}]}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    person = tmp_path / "person"
    for folder in ("home", "work"):
        (person / folder).mkdir(parents=True)
    return person


def edit_step() -> list[object]:
    return [{"call": {"index": 0, "id": "call_1", "name": "ide__edit", "arguments": json.dumps(EDIT)}}]


def ide_always(home: Path) -> None:
    file = home / "home" / ".config" / "aish" / "config.toml"
    file.write_text(file.read_text() + '[ide]\nenabled = "always"\n')


async def test_shift_tab_cycles_the_modes_and_the_prompt_shows_which_it_is(home):
    async with shell(home) as term:
        for mode in ("edits", "auto", "plan"):
            term.press(SHIFT_TAB)
            await term.prompts(f"({mode}) ›")
        term.press(SHIFT_TAB)
        await term.prompts("work ›")
        await term.enter(":mode auto")
        await term.sees("mode auto: edits and commands that lose nothing run unasked")
        await term.prompts("(auto) ›")
        await term.enter(":mode wild")
        await term.sees("it takes ask, edits, auto, plan")


async def test_the_configured_mode_holds_from_the_start_and_the_option_goes_before_it(home):
    config(home, '[gate]\nmode = "edits"\n')
    async with shell(home) as term:
        await term.prompts("(edits) ›")
    async with shell(home, "--model", "scripted:fake-tool", "--mode", "plan") as term:
        await term.prompts("(plan) ›")


async def test_a_plan_is_refused_or_approved_and_then_worked_off_in_the_mode_before(home):
    name = model(
        home,
        [
            edit_step(),
            [{"text": "The plan: I write notes.txt.\n"}],
            [{"text": "PLAN:\nI write better notes.\n"}],
            edit_step(),
            [{"text": "It is done.\n"}],
        ],
    )
    ide_always(home)
    async with shell(home, "--model", name) as term:
        await term.enter(":mode edits")
        await term.prompts("(edits) ›")
        await term.enter(":mode plan")
        await term.prompts("(plan) ›")
        await term.enter("?write the notes")
        await term.sees("[a]pprove, approve with edits [u]nasked, [e]dit, [r]efuse")
        assert not (home / "work" / "notes.txt").exists()
        await term.enter("r")
        await term.prompts("(plan) ›")
        await term.enter("?a better one")
        await term.sees("I write better notes.")
        await term.prompts("[r]efuse ›")
        await term.enter("a")
        await term.sees("It is done.")
        await term.prompts("(edits) ›")
    assert (home / "work" / "notes.txt").read_text() == "from the model\n"


async def test_an_answer_that_is_no_plan_brings_no_menu_and_is_approved_by_a_command(home):
    name = model(
        home, [[{"text": "Hello.\n"}], [{"text": "I would write notes.\n"}], edit_step(), [{"text": "Done.\n"}]]
    )
    ide_always(home)
    async with shell(home, "--model", name) as term:
        await did(term, ":approve", "there is nothing to approve: this is mode ask")
        await term.enter(":mode plan")
        await term.prompts("(plan) ›")
        await did(term, ":approve", "there is nothing to approve: no plan yet")
        await did(term, "?hello", "Hello.")
        await did(term, "?write the notes", "I would write notes.")
        assert "[r]efuse" not in term.text
        await did(term, ":approve unasked", "Done.")
        await term.prompts("(edits) ›")
    assert (home / "work" / "notes.txt").exists()


async def test_an_approved_plan_does_not_take_a_mode_that_shift_tab_only_passed(home):
    name = model(home, [[{"text": "The plan: I write notes.txt.\n"}], [{"text": "So be it.\n"}]])
    async with shell(home, "--model", name) as term:
        term.press(SHIFT_TAB * 3)
        await term.prompts("(plan) ›")
        await term.enter("?write the notes")
        await term.prompts("[r]efuse ›")
        await term.enter("a")
        await term.sees("mode ask: you are asked before anything is changed")
        await term.sees("So be it.")


async def test_what_is_typed_instead_of_an_answer_to_a_plan_is_sent_with_enter(home):
    name = model(home, [[{"text": "The plan: nothing.\n"}], [{"text": "Plan: less of nothing.\n"}]])
    async with shell(home, "--model", name, "--mode", "plan") as term:
        await term.prompts("(plan) ›")
        await term.enter("?plan something")
        await term.prompts("[r]efuse ›")
        await term.enter("what about a shorter one?")
        await term.prompts("(plan) ✦ what about a shorter one?")
        await term.enter("")
        await term.sees("less of nothing.")
        await term.prompts("[r]efuse ›")


async def test_a_plan_can_be_edited_and_the_model_gets_what_was_left(home):
    name = model(home, [[{"text": "The plan: nothing.\n"}], [{"text": "I follow yours.\n"}]])
    editor = home / "editor"
    editor.write_text('#!/bin/sh\necho "mine: $(cat "$1")" > "$1.new" && mv "$1.new" "$1"\n')
    editor.chmod(0o755)
    async with shell(home, "--model", name, "--mode", "plan", EDITOR=str(editor)) as term:
        await term.prompts("(plan) ›")
        await term.enter("?plan something")
        await term.prompts("[r]efuse ›")
        await term.enter("e")
        await term.sees("I follow yours.")
        await term.enter(":history")
        await term.sees("mine: The plan: nothing.")


async def test_the_editor_that_the_rc_file_names_is_used_and_gets_no_focus_reports(home):
    call = {"index": 0, "id": "call_1", "name": "ide__edit", "arguments": json.dumps(EDIT)}
    name = model(home, [[{"call": call}], [{"text": "It is done.\n"}]])
    ide_always(home)
    editor = home / "my editor"
    editor.write_text('#!/bin/sh\necho editing-now; until [ -e go ]; do sleep 0.02; done\necho mine > "$1"\n')
    editor.chmod(0o755)
    (home / "home" / ".bashrc").write_text(f"export EDITOR='\"{editor}\"'\n")
    async with shell(home, "--model", name) as term:
        await term.enter("?write the notes")
        await term.prompts("[a]lways:")
        await term.enter("e")
        await term.sees("\nediting-now")
        assert term.raw.rfind(b"\x1b[?1004h") < term.raw.rfind(b"\x1b[?1004l")
        (home / "work" / "go").touch()
        await term.sees("It is done.")
        await term.prompts()
        assert (home / "work" / "notes.txt").read_text() == "mine\n"


@pytest.mark.parametrize("keys", ["\x18\x05", "\x1bv"])
async def test_a_line_is_edited_in_the_editor_that_the_shell_names(home, keys):
    editor = home / "editor"
    editor.write_text('#!/bin/sh\necho "echo edit""ed-$(cat "$1")" > "$1"\n')
    editor.chmod(0o755)
    async with shell(home) as term:
        await term.enter(f"EDITOR={editor}; set -o {'vi' if 'v' in keys else 'emacs'}")
        await term.prompts()
        term.press(f"mine{keys}")
        await term.prompts("echo edited-mine")
        await term.enter("")
        await term.sees("\nedited-mine")


@pytest.mark.parametrize(("mode", "written"), [("edits", True), ("ask", False), ("plan", False)])
def test_a_one_shot_question_takes_its_mode_from_the_command_line(home: Path, *, mode: str, written: bool) -> None:
    name = model(home, [edit_step(), [{"text": "so it is\n"}]])
    env = {"HOME": str(home / "home"), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "LANG": "C.UTF-8"}
    ide_always(home)
    words = [sys.executable, "-m", "aish", "--model", name, "--mode", mode, "write the notes"]
    done = subprocess.run(words, env=env, cwd=home / "work", capture_output=True, text=True, timeout=60, check=False)
    assert "so it is" in done.stdout, json.dumps([done.stdout, done.stderr])
    assert (home / "work" / "notes.txt").exists() is written


async def test_a_plan_is_listed_by_what_was_typed_without_what_was_sent_along(home):
    name = model(home, [[{"text": "no plan"}]] * 4)
    async with shell(home, "--model", name) as term:
        await term.enter("echo ran-before")
        await term.prompts()
        await term.enter(":plan count the files")
        await term.sees("no plan that can be run")
        await term.prompts()
        await term.enter(":runs")
        await term.sees("  plan  ")
        await term.prompts()
        listed = term.text.rpartition(":runs\n")[2]
        assert "count the files" in listed and "ran-before" not in listed


async def test_a_plan_of_the_plan_command_is_approved_before_it_runs_and_a_refused_one_does_nothing(home):
    steps = [{"id": "s1", "tool": "shell__run", "args": {"command": "touch made"}, "needs": []}]
    plan = json.dumps({"direct": False, "steps": steps})
    name = model(home, [[{"text": plan}], [{"text": plan}]])
    async with shell(home, "--model", name) as term:
        await term.enter(":plan make it")
        await term.sees("follow this plan? [a]pprove, [e]dit, [r]efuse")
        await term.enter("r")
        await term.sees("the plan was not approved, and nothing of it was done")
        await term.prompts()
        assert not (home / "work" / "made").exists()
        await term.enter(":plan make it")
        await term.prompts("[r]efuse:")
        await term.enter("a")
        await term.prompts("[a]lways:")
        await term.enter("y")
        await term.sees("no output, exit code 0")
        await term.prompts()
    assert (home / "work" / "made").exists()


async def test_a_catastrophe_that_a_tool_asks_for_needs_the_word_at_the_terminal(home):
    (home / "home" / "kept").write_text("x")
    call = {"index": 0, "name": "shell__run", "arguments": json.dumps({"command": "rm -rf ~"})}
    name = model(home, [[{"call": call}], [{"text": "so be it\n"}]])
    async with shell(home, "--model", name) as term:
        await term.enter("? tidy up")
        await term.sees("this cannot be undone; type yes to run it:")
        await term.enter("y")
        await term.sees("so be it")
        await term.prompts()
        assert b"\x1b[1;31mshell__run: removes" in term.raw
    assert (home / "home" / "kept").exists()


async def test_a_second_test_run_of_the_session_is_not_asked_about(home):
    calls = [{"index": 0, "name": "shell__run", "arguments": json.dumps({"command": f"touch a{n}"})} for n in range(3)]
    name = model(home, [*([{"call": call}] for call in calls), [{"text": "three made\n"}]])
    async with shell(home, "--model", name) as term:
        await term.enter("? make three")
        await term.sees("run it? ")
        assert "[t]urn, [s]ession: all commands like this that stay in the project" in term.text
        await term.enter("s")
        await term.sees("three made")
        await term.prompts()
        assert term.text.count("run it?") == 1
    assert {file.name for file in (home / "work").iterdir()} == {"a0", "a1", "a2"}


async def test_at_forty_columns_questions_break_between_words(home):
    line = {"index": 0, "id": "c", "name": "shell__run", "arguments": json.dumps({"command": "make something"})}
    name = model(home, [[{"call": line}], [{"text": "CMD: make other\n"}]])
    words = [sys.executable, "-m", "aish", "--model", name]
    env = {"HOME": str(home / "home"), "PATH": os.environ["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    async with terminal(words, env=env, cwd=home / "work", columns=40) as term:
        await term.prompts()
        await term.enter("?go")
        await term.prompts("[y]es [n]o [e]dit e[x]plain …:")
        shown = term.text.splitlines()
        at = shown.index("  [t]urn, [s]ession: all commands like")
        assert shown[at + 1] == "    this that stay in the project"
        await term.enter("t")
        await term.prompts("[r] [c] [e] [s] [x] [a] [q] ›")
