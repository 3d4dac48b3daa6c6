"""The first moments of `aish` on a real terminal: keys before the prompt is there, and what is loaded for it."""

import shutil
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from e2e.test_shell import config, did, home, model, shell
from support.eventually import eventually
from support.terminal import terminal

__all__ = ["home"]

# Ends at the first prompt and tells what was loaded for it.
LOADED = """
import os, sys
from prompt_toolkit.output.vt100 import Vt100_Output
flush = Vt100_Output.flush
def flushed(self):
    drawn = "\u203a" in "".join(self._buffer)
    flush(self)
    if drawn:
        open(os.environ["LOADED"], "w").write("\\n".join(sys.modules))
        os._exit(0)
Vt100_Output.flush = flushed
sys.argv = ["aish", "--model", "scripted:fake-tool"]
from aish.__main__ import main
main()
"""
# Loads the shell only when it is told to.
SLOWLY = """
import os, sys, time
from aish.frontends.shell import one_shot as ask
run = ask.run
def waited(arguments, runtime):
    deadline = time.monotonic() + 20
    while not os.path.exists("go") and time.monotonic() < deadline:
        time.sleep(0.01)
    return run(arguments, runtime)
ask.run = waited
sys.argv = ["aish", "--model", "scripted:fake-tool"]
from aish.__main__ import main
main()
"""
# Things of turns, of the store, of one-shot use and of meta commands.
LATER = {
    "sqlite3",
    "tomllib",
    "json",
    "difflib",
    "dataclasses",
    "importlib.resources",
    "aish.storage.sqlite.store",
    "aish.engine.turn.runner",
    "aish.engine.turn.loop",
    "aish.engine.model.question_classifier",
    "aish.net.http.client",
    "aish.frontends.mentions",
    "aish.frontends.shell.ask_model",
    "aish.frontends.shell.commands.registry",
    "aish.frontends.shell.render.reply",
    "aish.frontends.shell.plain_prompt",
    "aish.frontends.shell.approvals.consent",
    "aish.providers.openai.provider",
}


@asynccontextmanager
async def program(home: Path, code: str, **env: str):
    given = {"HOME": str(home / "home"), "PATH": "/usr/bin:/bin", "TERM": "xterm", "LANG": "C.UTF-8", **env}
    async with terminal([sys.executable, "-c", code], env=given, cwd=home / "work") as term:
        yield term


@pytest.mark.parametrize("model_name", ["up:big", "up:misspelt"])
async def test_a_model_server_that_is_down_keeps_no_prompt_away(home, model_name):
    config(home, f'model = "{model_name}"\n[providers.up]\nurl = "http://127.0.0.1:1/v1"\n')
    async with program(home, "from aish.__main__ import main; main()") as term:
        await term.prompts()
        await term.enter("echo he''re")
        await term.sees("\nhere")
        await term.enter("?why")
        await term.sees("connection refused")


WELCOME = "This is your bash, and a model"


async def test_only_the_first_start_welcomes_and_names_the_model_and_a_better_one(home):
    shutil.rmtree(home / "home" / ".local")
    async with shell(home) as term:
        shown = term.text.splitlines()
        assert shown[0].startswith(WELCOME) and ":help" in shown[0]
        assert shown[1] == "scripted:fake-tool answers." and ":model NAME" in shown[2]
        assert len(shown) == 4 and shown[3].endswith("›")
        term.press("\x04")
        await term.ends()
    async with shell(home) as term:
        assert WELCOME not in term.text


async def test_a_welcome_says_what_to_do_about_a_model_that_is_very_small_or_not_there(home):
    shutil.rmtree(home / "home" / ".local")
    config(home, '[providers.up]\nurl = "http://127.0.0.1:1/v1"\n')
    async with program(home, "from aish.__main__ import main; main()", AISH_MODEL="up:big") as term:
        await term.prompts()
        await term.sees(":doctor says more")
        await term.sees("aish models pull")


async def test_an_alias_entered_before_the_prompt_is_there_is_drawn_as_a_command(home):
    async with program(home, SLOWLY) as term:
        await eventually(lambda: not term.echoes, 20)
        term.press("hi\r")
        (home / "work" / "go").touch()
        await term.sees("\nhi-from-alias")
        await term.prompts()
        assert "$ hi" in term.text and "✦" not in term.text


async def test_a_question_typed_where_a_model_is_offered_stands_at_the_prompt(home):
    async with program(home, "from aish.__main__ import main; main()", AISH_DISCOVERY__ENABLED="false") as term:
        await term.sees("[Y/n]")
        await term.enter("how do I list files")
        await term.sees("✦ how do I list files")


async def test_without_a_model_a_question_for_a_command_is_answered_by_the_index(home):
    env = {"AISH_DISCOVERY__ENABLED": "false"}
    async with program(home, "from aish.__main__ import main; main()", **env) as term:
        await term.sees("[Y/n]")
        await term.enter("n")
        await term.prompts()
        await term.enter("how do I list files here?")
        await term.sees("[r]un")
        assert "\n  ls " in term.text and "no model to ask" not in term.text
        await term.enter("")
        await term.prompts()
        await term.enter("why is the sky blue?")
        await term.sees("no model to ask")


def test_without_a_terminal_there_is_no_welcome(home):
    shutil.rmtree(home / "home" / ".local")
    env = {"HOME": str(home / "home"), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-m", "aish", "--model", "scripted:fake-tool", "add 2 and 3"]
    done = subprocess.run(command, env=env, cwd=home / "work", capture_output=True, timeout=30, check=True)
    assert WELCOME.encode() not in done.stdout + done.stderr


async def test_a_line_entered_before_the_prompt_is_there_is_run_and_drawn_once(home):
    async with program(home, SLOWLY) as term:
        await eventually(lambda: not term.echoes, 20)
        await term.enter("echo on''ce")
        (home / "work" / "go").touch()
        await term.sees("\nonce")
        await term.prompts()
        assert term.text.count("echo on''ce") == 1


async def test_a_line_begun_before_anything_runs_is_gone_on_with(home):
    async with shell(home, ready=False) as term:
        term.press("echo beg")
        await term.sees("$ echo beg")
        await term.enter("''un")
        await term.sees("\nbegun")
        assert term.text.count("echo beg") == 1


async def test_keys_before_the_prompt_do_what_they_do_at_it(home):
    async with program(home, SLOWLY) as term:
        await eventually(lambda: not term.echoes, 20)
        term.press("cd /\recho $PWD-is-root\rcat /dev/nix\x7f\x7f")
        (home / "work" / "go").touch()
        await term.sees("\n/-is-root")
        await term.sees("$ cat /dev/n")
        assert term.text.count("-is-root") == 2  # the line and what it printed


async def test_up_before_the_prompt_is_there_finds_the_last_line_of_the_last_run(home):
    async with shell(home) as term:
        await did(term, "echo from''-before", "\nfrom-before")
        term.press("\x04")
        await term.ends()
    async with shell(home, ready=False) as term:
        term.press("\x1b[A\r")
        await term.sees("\nfrom-before")


async def test_up_while_a_program_runs_finds_the_line_before_it(home):
    async with shell(home) as term:
        await did(term, "echo a''gain", "\nagain")
        await term.enter("echo wait''ing; until [ -e go ]; do sleep 0.02; done")
        await term.sees("\nwaiting")
        term.press("\x1b[A\x1b[A\r")
        (home / "work" / "go").touch()
        await eventually(lambda: term.text.count("\nagain") == 2, 20)


@pytest.mark.parametrize(
    ("env", "shown", "styled"), [({}, "It removes all.", True), ({"TERM": "dumb"}, "**all**", False)]
)
async def test_an_explanation_is_drawn_like_any_answer(home, env, shown, styled):
    name = model(home, [[{"text": "It removes **all**.\n"}]])
    async with shell(home, "explain", "--model", name, "rm -rf build", ready=False, **env) as term:
        await term.sees(shown)
        assert await term.ends() == 0
        assert "removes build and everything in it" in term.text
        assert (b"\x1b[2m" in term.raw) is styled


async def test_the_terminal_is_given_back_as_it_was(home):
    async with shell(home) as term:
        term.press("\x04")
        assert await term.ends() == 0
        assert term.echoes


async def test_the_first_prompt_waits_for_nothing_that_only_turns_need(home, tmp_path):
    seen = tmp_path / "loaded"
    async with program(home, LOADED, LOADED=str(seen)) as term:
        assert await term.ends() == 0, term.text
    loaded = set(seen.read_text().split())
    assert "aish.frontends.shell.repl" in loaded
    assert not LATER & loaded


async def test_a_line_entered_while_a_slow_rc_file_runs_is_seen_and_runs_when_that_is_done(home):
    (home / "home" / ".bashrc").write_text("alias hi='echo hi-from-alias'; until [ -e go ]; do sleep 0.05; done\n")
    async with shell(home) as term:
        await term.enter("hi")
        await term.sees("✦ hi")
        (home / "work" / "go").touch()
        await term.sees("\nhi-from-alias")
        await term.prompts()
        assert term.text.count(" hi\n") == 1
