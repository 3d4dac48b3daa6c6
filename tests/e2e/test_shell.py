"""`aish` as a person uses it: on a real terminal, with a real bash, against scripted models."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from support.eventually import eventually
from support.free_port import free_port
from support.terminal import DEADLINE_S, Terminal, terminal

SCRIPT = [[{"text": "Try this:\n\nCMD: echo from-the-model\n\n"}, {"text": "```\nCMD: echo never\n```\n"}]]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    tmp_path = tmp_path / "person"
    (tmp_path / "home").mkdir(parents=True)
    (tmp_path / "work").mkdir()
    data = tmp_path / "home" / ".local" / "share" / "aish"
    data.mkdir(parents=True)
    (data / "history.jsonl").touch()  # this person has started it before
    (tmp_path / "home" / ".bashrc").write_text("alias hi='echo hi-from-alias'\nexport FROMRC=yes\n")
    return tmp_path


def config(home: Path, text: str) -> None:
    folder = home / "home" / ".config" / "aish"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(text)


def model(home: Path, steps: object) -> str:
    file = home / "script.json"
    file.write_text(json.dumps(steps))
    config(home, f'[providers.play]\nkind = "scripted"\nfile = "{file}"\n')
    return "play:script"


@asynccontextmanager
async def shell(home: Path, *words: str, ready: bool = True, **env: str):
    given = {
        "HOME": str(home / "home"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        **env,
    }
    command = [sys.executable, "-m", "aish", *(words or ("--model", "scripted:fake-tool"))]
    async with terminal(command, env=given, cwd=home / "work") as term:
        if ready:
            await term.prompts()
        yield term


async def did(term: Terminal, line: str, seen: str) -> None:
    await term.enter(line)
    await term.sees(seen)
    await term.prompts()


async def test_commands_run_in_a_real_bash_that_remembers(home):
    async with shell(home) as term:
        await did(term, "echo $FROMRC-rc", "yes-rc")
        await did(term, "hi", "hi-from-alias")
        await did(term, "mkdir deep && cd deep && pwd", "work/deep")
        await did(term, "export X=41; f() { echo f$((X+1)); }", "export")
        await did(term, "f", "f42")


async def test_the_mark_shows_where_a_line_goes_while_it_is_typed(home):
    async with shell(home) as term:
        await did(term, "true", "$ true")
        term.press("ls -l")
        await term.sees("$ ls -l")
        term.press("\x15what is this")
        await term.sees("✦ what is this")
        term.press("\x15:mod")
        await term.sees(": :mod")


async def test_the_mark_knows_an_alias_from_the_first_line_on(home):
    async with shell(home) as term:
        term.press("hi")
        await term.sees("$ hi")


async def test_a_question_is_answered_and_its_tool_is_shown(home):
    async with shell(home) as term:
        await did(term, "please add 2 and 3 for me", "The result of runtime__add is 5.")
        assert "runtime__add" in term.text


async def test_what_was_run_goes_along_with_the_next_question_and_quiet_runs_do_not(home):
    async with shell(home) as term:
        await did(term, "echo seen-by-the-model", "$ echo seen")
        await did(term, "!!echo hidden-from-it", "hidden-from-it")
        await did(term, "? repeat what I gave you", "The result of runtime__echo is")
        answer = term.text.rpartition("The result of runtime__echo is")[2]
        assert "seen-by-the-model" in answer and "hidden" not in answer


async def test_settings_of_the_reply_hold_from_the_next_one_on(home):
    said = [{"reasoning": "a thought"}, {"text": "```python\ndef f(): return 1\n```\n"}]
    name = model(home, [said, said, [{"text": "end"}]])
    async with shell(home, "--model", name) as term:
        await did(term, "? go", "def f")
        assert "a thought" not in term.text and b"def f(): return 1" not in term.raw
        await did(term, ":reasoning show", "thinking: show")
        await did(term, ":highlight off", "highlight: off")
        await did(term, "? go", "a thought")
        assert b"def f(): return 1" in term.raw


async def test_a_full_screen_program_works_and_leaves_the_screen_as_it_was(home):
    async with shell(home) as term:
        await did(term, "echo before", "before")
        await term.enter("printf '\\033[?1049h\\033[2J\\033[HFULL SCREEN'; read -rsn1 key; printf '\\033[?1049l'")
        await term.sees("FULL SCREEN")
        term.press("q")
        await term.prompts()
        await did(term, "echo after", "after")


async def test_output_without_a_last_line_end_is_not_written_over(home):
    async with shell(home) as term:
        await did(term, "printf 'on%s' e-line", "\none-line\n")
        await did(term, "printf 'first\\nla%s' st-line", "\nlast-line\n")
        await did(term, "echo whole", "\nwhole\n")
        assert "whole\n\n" not in term.text  # no line is added where there is one


async def test_ctrl_c_stops_a_program_and_not_the_shell(home):
    async with shell(home) as term:
        await term.enter("sh -c 'echo begun; sleep 60'")
        await term.sees("\nbegun")
        term.press("\x03")
        await term.sees("[130]")
        await did(term, "echo alive", "alive")


async def test_keys_typed_while_a_program_runs_do_what_they_do_at_the_prompt(home):
    (home / "work" / "unmistakable-name.txt").touch()
    async with shell(home) as term:
        await did(term, "true", "$ true")
        await term.enter("echo be''gun; sleep 1")
        await term.sees("\nbegun")
        term.press("echo one''-two\rcat unmis\t")
        await term.sees("\none-two")
        await term.sees("$ cat unmistakable-name.txt")


async def test_ctrl_z_at_the_prompt_leaves_no_mark(home):
    async with shell(home) as term:
        term.press("\x1aecho fi''ne\x1a\r")
        await term.sees("\nfine")
        assert "^Z" not in term.text


async def test_jobs_are_those_of_the_person(home):
    sleep = f"sleep 100.{os.getpid()}"  # nobody else's
    async with shell(home) as term:
        await term.enter(sleep)
        await eventually(lambda: _running(sleep))
        term.press("\x1a")
        await term.sees("[148]")
        await did(term, "hi", "\nhi-from-alias")
        await did(term, "jobs", "Stopped")
        await did(term, "bg", f"{sleep} &")
        await did(term, "sleep 99 &", "\n[2] ")
        await did(term, "kill %1 %2; wait", "$ kill")
        assert "__aish" not in term.text


async def test_ctrl_c_at_a_question_of_the_gate_stops_the_answer(home):
    call = {"index": 0, "name": "shell__run", "arguments": json.dumps({"command": "touch made"})}
    name = model(home, [[{"call": call}], [{"text": "went on"}]])
    async with shell(home, "--model", name) as term:
        await term.enter("? go")
        await term.sees("run it?")
        term.press("\x03")
        await term.sees("stopped")
        await term.prompts()
        assert "went on" not in term.text and not (home / "work" / "made").exists()


async def test_what_is_asked_is_seen_where_the_answer_goes_to_a_file(home):
    call = {"index": 0, "name": "shell__run", "arguments": json.dumps({"command": "touch made"})}
    name = model(home, [[{"call": call}], [{"text": "it is made"}]])
    line = f"{sys.executable} -m aish --model {name} go > answer.txt"
    env = {"HOME": str(home / "home"), "PATH": os.environ["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    async with terminal(["/bin/bash", "-c", line], env=env, cwd=home / "work") as term:
        await term.sees("run it? [y]es")
        await term.enter("y")
        assert await term.ends() == 0
    assert (home / "work" / "answer.txt").read_text() == "it is made\n"
    assert (home / "work" / "made").exists()


async def test_the_prompt_is_seen_where_the_answers_go_to_a_file(home):
    line = f"{sys.executable} -m aish --model scripted:fake-tool > answers.txt"
    env = {"HOME": str(home / "home"), "PATH": os.environ["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    async with terminal(["/bin/bash", "-c", line], env=env, cwd=home / "work") as term:
        await term.prompts(">")
        await term.enter("? add 2 and 3")
        await term.sees("← 5")
        await term.prompts(">")
        await term.enter(":quit")
        assert await term.ends() == 0
    assert (home / "work" / "answers.txt").read_text() == "The result of runtime__add is 5.\n"


async def test_ctrl_c_stops_an_answer_that_has_asked_something_before(home):
    call = {"index": 0, "name": "shell__run", "arguments": json.dumps({"command": "touch made"})}
    name = model(home, [[{"call": call}], [{"text": "going on "}, {"wait_s": 60}]])
    async with shell(home, "--model", name) as term:
        await term.enter("? go")
        await term.sees("run it?")
        await term.enter("y")
        await term.sees("going on")
        term.press("\x03")
        await term.sees("stopped")
        await did(term, "echo still-here", "\nstill-here")


async def test_ctrl_c_halts_work_that_has_halted_before(home):
    waits = "touch begun; until [ -e go-on ]; do sleep 0.05; done"
    steps = ["CMD: touch made && rm -rf made", f"CMD: {waits}", "CMD: echo nev''er"]
    goal = model(home, [[{"text": step}] for step in steps])
    async with shell(home, "--model", goal) as term:
        await term.enter(":norris tidy up")
        await term.sees("eave it halted:")
        await term.enter("p")
        await eventually((home / "work" / "begun").exists)
        term.press("\x03")
        (home / "work" / "go-on").touch()
        await term.sees("halted: you stopped it")
        assert "never" not in term.text


async def test_sigterm_ends_the_shell_in_the_midst_of_an_answer(home):
    name = model(home, [[{"text": "so far "}, {"wait_s": 60}]])
    async with shell(home, "--model", name) as term:
        await term.enter("? tell me")
        await term.sees("so far")
        os.kill(term.pid, signal.SIGTERM)
        assert await term.ends() == 128 + signal.SIGTERM


async def test_ctrl_c_stops_a_command_of_aish_itself(home):
    async with shell(home) as term:
        await term.enter(":mcp connect silent sleep 99")
        await eventually(lambda: has_child(term.pid, "sleep"))
        term.press("\x03")
        await term.sees("stopped")
        await did(term, "echo still-here", "\nstill-here")


def has_child(pid: int, name: str) -> bool:
    listed = subprocess.run(["ps", "-o", "args=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return any(line.startswith(name) for line in listed.stdout.splitlines())


async def test_a_command_of_the_model_is_edited_from_what_it_was(home):
    call = {"index": 0, "name": "shell__run", "arguments": json.dumps({"command": "touch made"})}
    name = model(home, [[{"call": call}], [{"text": "went on"}]])
    async with shell(home, "--model", name) as term:
        await term.enter("? go")
        await term.sees("run it?")
        await term.enter("e")
        await term.sees("new command: touch made")
        term.press("-too\r")
        await term.sees("went on")
        assert [file.name for file in (home / "work").iterdir()] == ["made-too"]


async def test_an_answer_that_was_stopped_proposes_nothing(home):
    name = model(home, [[{"text": "Do this:\n\nCMD: echo ha"}, {"wait_s": 60}, {"text": "lf"}]])
    async with shell(home, "--model", name) as term:
        await term.enter("? tell me")
        await term.sees("Do this")
        term.press("\x03")
        await term.sees("stopped")
        await term.prompts()
        assert "[r]un" not in term.text


async def test_a_line_that_is_no_answer_to_a_proposal_runs_nothing(home):
    name = model(home, [[{"text": "CMD: touch made"}]])
    async with shell(home, "--model", name) as term:
        await term.enter("? go")
        await term.sees("[r]un")
        await term.enter("rm other")
        await term.sees("that is no choice here")
        await term.sees("$ rm other")  # at the prompt
        term.press("\x15")
        await term.prompts()
        assert not list((home / "work").iterdir())


async def test_ctrl_c_stops_an_answer_and_keeps_what_was_said(home):
    name = model(home, [[{"text": "so far so good "}, {"wait_s": 60}, {"text": "never"}]])
    async with shell(home, "--model", name) as term:
        await term.enter("? tell me")
        await term.sees("so far so good")
        term.press("\x03")
        await term.sees("stopped")
        await term.prompts()
        await did(term, ":history", "so far so good")


async def test_what_is_typed_while_the_model_speaks_waits_for_the_prompt(home):
    name = model(home, [[{"text": "first "}, {"wait_s": 1}, {"text": "second"}]])
    async with shell(home, "--model", name) as term:
        await term.enter("? tell me")
        await term.sees("first")
        term.press("echo typed")
        await term.sees("first second")
        await term.sees("$ echo typed")


async def test_what_was_typed_before_a_proposal_was_seen_is_no_answer_to_it_and_not_lost(home):
    name = model(home, [[{"text": "first\n\n"}, {"wait_s": 1}, {"text": "CMD: echo ra''n\n"}]])
    async with shell(home, "--model", name) as term:
        await term.enter("? tell me")
        await term.sees("first")
        await term.enter("rm some-file")
        await term.sees("[r]un")
        await term.enter("s")
        await eventually(lambda: term.last_line.endswith("$ rm some-file"))
        assert "\nran" not in term.text


async def test_a_program_that_leaves_the_terminal_raw_does_no_harm(home):
    async with shell(home) as term:
        await term.enter("stty raw -echo")
        await term.prompts()
        await did(term, "echo still-fine", "still-fine")


async def test_exit_leaves_with_its_code_and_ctrl_d_leaves(home):
    async with shell(home) as term:
        await term.enter("exit 7")
        assert await term.ends() == 7
    async with shell(home) as term:
        term.press("\x04")
        assert await term.ends() == 0


async def test_a_bash_that_is_killed_is_followed_by_another(home):
    async with shell(home) as term:
        await did(term, "GONE=1; export KEPT=2", "export")
        await term.enter("kill -9 $$")
        await term.sees("bash was killed")
        await term.prompts()
        await did(term, "echo [${GONE:-not-there}$KEPT]", "[not-there2]")


async def test_a_proposal_is_run_when_the_person_says_so_and_never_from_a_fence(home):
    name = model(home, SCRIPT)
    async with shell(home, "--model", name) as term:
        await term.enter("? what now")
        await term.sees("[r]un")
        assert "echo never" not in term.text.rpartition("$ echo")[2]
        await term.enter("r")
        await term.sees("\nfrom-the-model")
        await term.prompts()


async def test_a_proposal_can_be_edited_and_skipped(home):
    name = model(home, SCRIPT)
    async with shell(home, "--model", name) as term:
        await term.enter("? what now")
        await term.sees("[r]un")
        await term.enter("e")
        await term.sees("$ echo from-the-model")
        term.press("-edited\r")
        await eventually(lambda: term.text.count("[r]un") == 2)
        await term.enter("r")
        await term.sees("\nfrom-the-model-edited")
        await term.prompts()


async def test_always_shows_its_rule_to_be_changed_and_is_offered_only_where_there_is_one(home):
    name = model(home, [[{"text": "CMD: touch made\nCMD: rm -rf made"}]])
    async with shell(home, "--model", name) as term:
        await term.enter("? go")
        await term.sees("[a]lways [q]uit")
        await term.enter("a")
        await term.sees("always allow: touch made")
        term.press("\x7f" * 4 + "*\r")
        await term.sees("proposal 2 of 2")
        await term.sees("e[x]plain [q]uit")
        await term.enter("a")
        await term.sees("no rule would be narrow enough")
        await eventually(lambda: term.text.count("e[x]plain [q]uit") == 2)
        await term.enter("q")
        await term.prompts()
        await term.enter("n")
        await term.prompts()
        assert (home / "work" / "made").exists()
        approved = home / "home" / ".local" / "share" / "aish" / "approved.json"
        assert json.loads(approved.read_text())[0]["commands"] == ["touch *"]


async def test_escape_codes_in_a_reply_are_shown_not_obeyed(home):
    name = model(home, [[{"text": "before \x1b[2J\x1b[31mred\x07 after"}]])
    async with shell(home, "--model", name) as term:
        await did(term, "? go", "after")
        assert "before" in term.text


async def test_a_paste_of_many_lines_is_one_entry(home):
    async with shell(home) as term:
        lines = "\n".join(f"echo line-{n}" for n in range(200))
        term.press(f"\x1b[200~{lines}\x1b[201~")
        await term.sees("echo line-199")
        term.press("\r")
        await term.sees("\nline-199")
        await term.prompts()


async def test_a_command_that_is_not_finished_goes_on_in_the_next_line(home):
    async with shell(home) as term:
        await did(term, "true", "$ true")
        for line in ("for i in 1 2; do", 'echo "n$i', 'm"; done | tail -1; cat <<END', "here $((1+1))"):
            await term.enter(line)
        await term.enter("END")
        await term.sees("\nhere 2")
        await term.prompts()
        assert "error" not in term.text and "EOF" not in term.text
        await did(term, "echo done", "\ndone")


async def test_twenty_megabytes_of_output_pass(home):
    async with shell(home) as term:
        term.skims = True
        await term.enter("head -c 20000000 /dev/zero | tr '\\0' 'x' | fold -w 99; echo THE-$((40+2))")
        await eventually(lambda: b"THE-42" in term.raw, 60)
        await term.prompts()


async def test_a_resize_reaches_the_programs(home):
    async with shell(home) as term:
        term.resize(25, 60)
        await did(term, "stty size", "25 60")


async def test_meta_commands_answer_and_unknown_ones_suggest(home):
    async with shell(home) as term:
        await did(term, ":help session", ":resume")
        await did(term, ":modell x", "did you mean :model")
        await did(term, ":model", "model: scripted:fake-tool")
        await did(term, ":safety check rm -rf /tmp/x", "remove")
        await did(term, ":safety check ls", "allow: only reads")
        await did(term, ":safety check", "of which command?")
        await did(term, ":mcp", "no MCP servers")
        await did(term, ":norris", "work towards what?")
        await did(term, ":plan", "plan what?")
        await did(term, ":plan list", "no plans are kept")
        await did(term, ":norris list", "no runs yet")
        await did(term, "git init -q .; :", "git init")
        await did(term, ":diff", "git sees no difference")
        await term.enter(":quit")
        assert await term.ends() == 0


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (':plan save "half', "no closing quotation"),
        (':mcp connect x "half', "no closing quotation"),
        (f":tree {'x' * 300}", "is not a folder"),
        (":tree ~", "entries go along"),
        (":memory import ~nobody-here/x", "there is no such home directory"),
        (":memory inject maybe", "it takes on or off"),
        (":cost everything", "it takes detail or reset"),
        (":reasoning loud", "it takes fold, show or hide"),
        (":highlight red", "it takes on or off"),
        (":config check", "it takes show, show all or path"),
        (":route away", "it takes check TEXT, on or off"),
        (":route check why is the sky blue", "it would go to no preset for it; the default, scripted:fake-tool"),
        (":mcp log", "of which MCP server?"),
        (":mcp tool", "which tool?"),
    ],
)
async def test_a_wrong_word_after_a_command_is_said_and_the_shell_goes_on(home, line, said):
    async with shell(home) as term:
        await term.enter(line)
        await eventually(lambda: said in term.unbroken, DEADLINE_S)
        await term.prompts()
        await did(term, "echo still-here", "\nstill-here")


@pytest.mark.parametrize(
    "line",
    [
        ":norris list what is open",
        ":norris resume the work on it",
        ":plan list what is open",
        ":plan run the tests that don't pass",
        ":plan save the day for me",
    ],
)
async def test_a_goal_may_begin_with_a_word_that_means_something_alone(home, line):
    name = model(home, [[{"text": "GOAL: complete"}]])
    async with shell(home, "--model", name) as term:
        await did(term, line, "GOAL: complete")


async def test_a_proposal_may_need_what_the_one_before_it_brings(home):
    made = "printf '#!/bin/sh\\necho new-tool-ran\\n' > ~/newtool; chmod +x ~/newtool"
    reply = f"CMD: frobnicate first\nCMD: {made}\nCMD: newtool now\nCMD: frobnicate now\n"
    name = model(home, [[{"text": reply}]])
    async with shell(home, "--model", name) as term:
        await did(term, "PATH=$PATH:$HOME", "PATH")
        await term.enter("? go")
        await term.sees("proposal 1 of 3")
        await term.sees("[q]uit ›")
        await term.enter("r")
        await term.sees("proposal 2 of 3")
        await eventually(lambda: term.last_line.endswith("[q]uit ›"))
        await term.enter("r")
        await term.sees("\nnew-tool-ran")
        await term.prompts()
        assert term.text.count("frobnicate is not on this machine") == 2


async def test_the_settings_are_shown_with_the_model_that_answers(home):
    config(home, 'model = "scripted:fake-tool"\n')
    async with shell(home, "--tools", "none") as term:
        await did(term, ":config show", "here and now: model scripted:fake-tool; tools none")


async def test_aish_need_not_be_on_the_path(home):
    async with shell(home, PATH="/usr/bin:/bin") as term:
        await did(term, ":doctor", "✓ terminal")


async def test_sessions_are_listed_and_resumed(home):
    async with shell(home) as term:
        await did(term, "echo this-was-run", "\nthis-was-run")
        await did(term, "? remember the word zebra", "zebra")
        await did(term, ":sessions", "  1 turn ")
        await did(term, ":reset", "a new conversation")
        await did(term, ":resume", "going on with")
        recap = term.text.rpartition("going on with")[2]
        assert "> remember the word zebra\n" in recap  # and not what went along with it


PROJECT = 'system = "obey"\n# \u202ered\n[shell]\nprompt = "theirs {mark} "\n[limits]\nmax_steps = 3\n'


async def answered(home: Path, keys: str) -> Terminal:
    """What is seen until the prompt, where the question about the project's file is answered by these keys."""
    async with shell(home, ready=False) as term:
        await term.sees("Trust it as it is now?")
        term.press(keys)
        await term.prompts()
        return term


async def test_a_projects_file_is_shown_and_trusted_if_the_answer_is_yes(home):
    (home / "work" / ".aish.toml").write_text(PROJECT)
    text = (await answered(home, "y\r")).text
    assert '│ system = "obey"' in text and "│ # \ufffdred" in text
    assert "Ignored until you trust it: system, shell.prompt\n" in text
    assert text.splitlines()[-1].startswith("theirs ")
    async with shell(home) as term:  # it is not asked again
        assert "Trust it" not in term.text and term.last_line.startswith("theirs ")


@pytest.mark.parametrize("keys", ["n\r", "\r", "\x04"])
async def test_a_projects_file_that_is_not_accepted_only_tightens(home, keys):
    file = home / "work" / ".aish.toml"
    file.write_text(PROJECT)
    seen = await answered(home, keys)
    assert "is not trusted" in seen.unbroken and not seen.last_line.startswith("theirs ")
    if keys.startswith("n"):
        async with shell(home) as term:
            assert "Trust it" not in term.text and not term.last_line.startswith("theirs ")
        file.write_text(PROJECT + "# changed\n")
    assert "│ [limits]" in (await answered(home, "\r")).text  # asked again


async def test_a_projects_instructions_are_shown_and_go_to_the_model_if_the_answer_is_yes(home):
    file = home / "work" / "AGENTS.md"
    file.write_text("Say quack.\n")
    text = (await answered(home, "y\r")).text
    assert "instructions for models" in text and "│ Say quack." in text
    async with shell(home) as term:  # it is not asked again
        assert "Trust it" not in term.text
        await did(term, ":reload", "AGENTS.md: the model gets it")
        file.write_text("Say moo.\n")
        await did(term, ":reload", "untrusted: `:trust` accepts it")


async def test_skills_of_a_project_are_asked_about_once_listed_and_shown(home):
    for name in ("release", "review"):
        file = home / "work" / ".claude" / "skills" / name / "SKILL.md"
        file.parent.mkdir(parents=True)
        file.write_text(f"---\nname: {name}\ndescription: how to {name}\n---\nThe text of {name}.\n")
    async with shell(home, ready=False) as term:
        await term.sees("Trust as it is now?")
        assert "2 skills" in term.text and "│ review: how to review" in term.text
        term.press("s\r")
        await term.sees("│ The text of review.")
        await term.sees("Trust as it is now?")
        term.press("y\r")
        await term.prompts()
        await did(term, ":skills", "release: how to release")
        await did(term, ":skills review", "The text of review.")
    async with shell(home) as term:  # it is not asked again
        assert "Trust as" not in term.text
        file.write_text(f"{file.read_text()}changed")
        await did(term, ":reload", "untrusted: `:trust` accepts it")


async def test_a_projects_instructions_that_were_refused_are_not_asked_about_again(home):
    (home / "work" / "AGENTS.md").write_text("Say quack.\n")
    await answered(home, "n\r")
    async with shell(home) as term:
        assert "Trust it" not in term.text
        await did(term, ":reload", "refused: `:trust` accepts it")


async def test_of_a_projects_file_too_long_to_show_nothing_is_trusted_unseen(home):
    (home / "work" / ".aish.toml").write_text("\n" * 200 + PROJECT)
    async with shell(home, ready=False) as term:
        await term.sees("Ask again?")
        await term.enter("y")
        await term.prompts()
        assert "too long to be shown" in term.text and not term.last_line.startswith("theirs ")


async def test_a_session_is_resumed_by_the_beginning_of_its_id_if_no_other_has_it(home):
    async with shell(home) as term:
        await did(term, "? remember the word zebra", "zebra")
        await did(term, ":sessions", "1 turn ")
        session = next(line.split()[1] for line in term.text.splitlines() if line.startswith("* sess_"))
        await did(term, ":reset", "a new conversation")
        await did(term, "? and the word quagga", "quagga")
        await did(term, ":resume sess_", "several sessions begin with sess_")
        await did(term, ":resume sess_nothing", "there is no such session")
        await did(term, f":resume {session[:-3]}", f"going on with {session}")


async def test_a_session_is_resumed_from_the_command_line(home):
    config(home, 'model = "scripted:fake-tool"\n')
    async with shell(home) as term:
        await did(term, "? remember the word zebra", "zebra")
        await did(term, ":reset", "a new conversation")
        await did(term, "? and the word quagga", "quagga")
        await did(term, ":sessions", "1 turn ")
        session = next(line.split()[0] for line in term.text.splitlines() if re.search(r"sess_.* zebra", line))
    async with shell(home, "sessions", "resume", session) as term:
        assert f"going on with {session}" in term.text and "> remember the word zebra" in term.text
        await did(term, "? once more", "once more")
        await did(term, ":sessions", f"* {session}")
    async with shell(home, "sessions", "resume", "latest", "-m", "fake-tool") as term:
        assert f"going on with {session}" in term.text


@pytest.mark.parametrize("words", [("--session", "sess_none"), ("sessions", "resume", "sess_none")])
async def test_no_prompt_is_drawn_for_a_session_that_is_not_there(home, words):
    async with shell(home, *words, ready=False) as term:
        assert await term.ends() == 2
        assert "no session sess_none" in term.text


async def test_going_on_after_a_crash_shows_where_it_stopped(home):
    name = model(home, [[{"text": "so far "}, {"wait_s": 60}]])
    async with shell(home, "--model", name) as term:
        await term.enter("? a long story")
        await term.sees("so far")
        os.kill(term.pid, signal.SIGKILL)
        await term.ends()
    async with shell(home, "--continue", "--model", name) as term:
        assert "> a long story" in term.text
        assert "it stopped there: interrupted" in term.text


async def test_the_history_is_shared_between_runs(home):
    async with shell(home) as term:
        await did(term, "echo first-run", "first-run")
        await term.enter(":quit")
        await term.ends()
    async with shell(home) as term:
        term.press("\x1b[A\x1b[A")
        await term.sees("$ echo first-run")


async def test_completion_comes_from_the_live_bash_and_from_aish(home):
    (home / "work" / "unmistakable-name.txt").touch()
    async with shell(home) as term:
        await did(term, "true", "$ true")
        term.press("cat unmis\t")
        await term.sees("cat unmistakable-name.txt")
        term.press("\x15:sess\t")
        await term.sees(":sessions")
        (home / "work" / "some folder").mkdir()
        (home / "work" / "some folder" / "a note").touch()
        term.press("\x15? read @some\t")
        await term.sees('@"some folder/')
        term.press("a\t")
        await term.sees('@"some folder/a note"')


async def test_completion_of_what_cannot_be_looked_up_offers_nothing(home):
    async with shell(home, AISH_STORE__PATH=str(home / "work")) as term:
        for keys in ("? @~nobody-here/\t", ":tree ~nobody-here/\t", ":resume \t"):
            term.press(f"\x15{keys}")
            await term.sees(keys.strip())
        await did(term, "\x15echo still-here", "\nstill-here")
        assert "exception" not in term.text and "Traceback" not in term.text


async def test_it_works_on_a_terminal_that_can_do_nothing(home):
    async with shell(home, ready=False, TERM="dumb") as term:
        await term.sees(">")
        await term.enter("echo plain")
        await term.sees("\nplain")


async def test_without_colours_the_rest_is_the_same(home):
    name = model(home, [[{"text": "**bold**\n\n```bash\ngrep x y\n```\n"}]])
    async with shell(home, "--model", name, NO_COLOR="1") as term:
        await did(term, "? go", "bold")
        await did(term, "false", "[1]")
        assert "✦ ? go" in term.text and "**" not in term.text and b"\x1b[0;1mbold" in term.raw
        assert not re.search(rb"\x1b\[[0-9;]*\b(?:3|4|9)[0-7][;m]", term.raw)


async def test_what_aish_runs_for_its_own_commands_is_in_no_history_and_leaves_the_status(home):
    async with shell(home) as term:
        await did(term, "git init -q; echo one > f; git add f; (exit 7)", "[7]")
        await did(term, ":diff --cached", "+one")
        await did(term, "echo st''atus-$?", "status-7")
        await did(term, ":doctor", "interactive")
        await did(term, "history", "history")
        assert "rev-parse" not in term.text and "-m aish" not in term.text
        await did(term, "? repeat what I gave you", "The result of")
    stored = b"".join(file.read_bytes() for file in (home / "home" / ".local" / "share" / "aish").glob("**/*.db*"))
    assert b"$ git diff --cached" in stored and b"rev-parse" not in stored


async def test_without_a_store_that_can_be_written_questions_are_answered_all_the_same(home):
    async with shell(home, AISH_STORE__PATH="/proc/nothing/aish.db") as term:
        await did(term, "please add 2 and 3 for me", "The result of runtime__add is 5.")
        assert "from here on nothing is kept" in term.text
        await did(term, ":cost", "this session: 2 calls")
        await did(term, ":sessions", "  1 turn   please add 2 and 3")
        await did(term, ":clear", "›")
        await did(term, "please add 4 and 5 for me", "is 9.")
        assert term.raw.count(b"from here on") == 1


async def test_the_doctor_looks_for_the_model_of_the_session(home):
    async with shell(home) as term:
        await did(term, ":doctor", "model      scripted:fake-tool")


async def test_sessions_are_completed_with_what_they_are_about(home):
    async with shell(home) as term:
        await did(term, "please add 2 and 3 for me", "is 5.")
        await did(term, ":reset", "new")
        await did(term, "please add 4 and 5 for me", "is 9.")
        term.press(":resume \t")
        await term.sees("please add 2 and 3")


async def test_the_keys_are_in_the_help(home):
    async with shell(home) as term:
        await did(term, ":help", "Shift-Tab changes the mode")


@pytest.mark.parametrize(("answer", "is_trusted"), [("y", True), ("", False)])
async def test_trusting_a_project_asks_once_more(home, answer, is_trusted):
    (home / "work" / "AGENTS.md").write_text("Be brief.\n")
    async with shell(home, ready=False) as term:
        await term.sees("[l]ater:")
        await term.enter("l")
        await term.prompts()
        await term.enter(":trust")
        await term.sees("trust what stands in there now? [y/N]")
        await term.enter(answer)
        await term.prompts()
        await term.enter(":reload")
        await term.sees("the model gets it" if is_trusted else "untrusted: `:trust`")


async def test_without_anything_to_colour_with_that_is_said(home):
    bare = "import sys; sys.modules.update(dict.fromkeys(('pygments', 'pygments.lexers', 'tree_sitter'))); "
    env = {"HOME": str(home / "home"), "PATH": os.environ["PATH"], "TERM": "xterm", "LANG": "C.UTF-8"}
    code = f"{bare}sys.argv = ['aish', '--model', 'scripted:fake-tool']; from aish.__main__ import main; main()"
    async with terminal([sys.executable, "-c", code], env=env, cwd=home / "work") as term:
        await term.prompts()
        await did(term, ":highlight on", "aish-runtime[shell]")


async def test_a_job_that_prints_while_the_prompt_waits_is_shown_above_it(home):
    async with shell(home) as term:
        await term.enter("(sleep 0.5; echo from-the-job) &")
        await term.sees("\nfrom-the-job")
        await did(term, "echo ok", "\nok")


async def test_a_notice_that_comes_while_a_line_is_typed_stands_above_it(home):
    async with shell(home) as term:
        await did(term, "echo bash-is-$$", "bash-is-")
        pid = int(re.findall(r"bash-is-(\d+)", term.text)[-1])
        term.press("echo half")
        await eventually(lambda: term.last_line.endswith("$ echo half"))
        os.kill(pid, signal.SIGKILL)
        await term.sees("bash was killed (signal 9)")
        await eventually(lambda: term.last_line.endswith("$ echo half"))
        assert "half·" not in term.text and "half bash" not in term.text
        await did(term, "-way", "\nhalf-way")


async def test_nothing_is_left_behind_when_the_terminal_goes(home):
    nap = f"sleep 987{os.getpid()}"  # nobody else's, of all that run on this machine
    async with shell(home) as term:
        await term.enter(f"{nap} &")
        await term.prompts()
        os.kill(term.pid, signal.SIGKILL)
        await term.ends()
    await eventually(lambda: not _running(nap))


def _running(command: str) -> bool:
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if file.read_bytes().replace(b"\0", b" ").decode().strip() == command:
                return True
        except OSError:
            continue
    return False


async def test_a_goal_is_worked_on_halts_and_goes_on_with_a_key(home):
    """Ctrl-N makes the line a goal; a destructive command waits for an answer."""
    goal = model(home, [[{"text": "CMD: touch made && rm -rf made"}], [{"text": "GOAL: complete"}]])
    async with shell(home, "--model", goal) as term:
        term.press("tidy up\x0e")
        await term.sees(":norris tidy up")
        term.press("\r")
        await term.sees("halted: removes made")
        await term.sees("eave it halted:")
        term.press("p\r")
        await term.sees("finished: the goal is reached")
        await did(term, ":norris list", "finished")


async def test_control_c_halts_work_and_pressed_again_stops_what_runs(home):
    goal = model(home, [[{"text": "CMD: touch made; sleep 600"}], [{"text": "GOAL: complete"}]])
    async with shell(home, "--model", goal) as term:
        await term.enter(":norris wait")
        await eventually((home / "work" / "made").exists)
        term.press("\x03")
        await term.sees("it halts before the next action")
        term.press("\x03")
        await term.sees("go on with: :norris resume")
        await did(term, "echo still-here", "\nstill-here")
        await term.enter(":norris resume")
        await term.sees("it may have been done already")
        await term.sees("eave it halted:")
        await did(term, "s", "finished: the goal is reached")


async def test_an_entry_of_several_lines_is_marked_as_one(home):
    async with shell(home) as term:
        term.press("for n in 1 2; do\r")
        await eventually(lambda: term.last_line.startswith("…"))
        term.press("echo number $n; done\r")
        await term.sees("number 2")


@pytest.fixture
def ssh_port(tmp_path: Path) -> Iterator[int]:
    """A real sshd of the test's own, which lets this user in by a key."""
    server, client = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin"), shutil.which("ssh")
    if server is None or client is None:
        pytest.skip("needs openssh-server and openssh-client")
    for name in ("host", "mine"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name], check=True)
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # root's sshd insists on it
    options = [f"HostKey={tmp_path}/host", f"AuthorizedKeysFile={tmp_path}/mine.pub", "StrictModes=no", "UsePAM=no"]
    port = free_port()
    words = [
        server,
        "-D",
        "-e",
        "-f",
        "/dev/null",
        "-p",
        str(port),
        "-o",
        "ListenAddress=127.0.0.1",
        "-o",
        "PidFile=none",
    ]
    process = subprocess.Popen(
        [*words, *(word for option in options for word in ("-o", option))], stderr=subprocess.PIPE
    )
    try:
        yield port
    finally:
        process.terminate()
        process.communicate(timeout=20)


async def test_ssh_asks_at_the_terminal_and_has_it_until_it_ends(home, tmp_path, ssh_port):
    ssh = f"ssh -F none -i {tmp_path}/mine -o UserKnownHostsFile={tmp_path}/known -p {ssh_port} 127.0.0.1"
    async with shell(home) as term:
        await term.enter(ssh)
        await term.sees("Are you sure you want to continue connecting")
        term.press("yes\r")
        await term.sees("Permanently added")
        term.press("PS1='over there: '; echo $((6 * 7)) $SSH_TTY\r")
        await term.sees("42 /dev/pts/")
        term.press("exit\r")
        await term.sees("closed.")
        await term.prompts()
        await did(term, "echo here again", "here again")
