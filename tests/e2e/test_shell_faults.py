"""A model that does its worst by tool calls, on a real terminal: the person's shell is there afterwards, as it was."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from e2e.test_shell import did, home, model, shell
from support.eventually import eventually

__all__ = ["home"]

DAEMON = f"sleep 98{os.getpid()}"
BOMB_NAME = f"bomb-{os.getpid()}"
# 64 processes at the end, each in a session of its own.
BOMB = f"""
bomb() {{ if [ "$1" = 0 ]; then touch went-off; exec -a {BOMB_NAME} sleep 599; fi
setsid bash -c "$all; bomb $(($1 - 1))" & setsid bash -c "$all; bomb $(($1 - 1))" & disown -a; sleep 599; }}
all=$(declare -f bomb); export all; bomb 6; sleep 599
"""
# Sent by a model, and what is seen of it.
WORST = {
    "exit 3": "exit code 3",
    "exec bash -c 'echo inner'": "inner",
    "exec false": "exit code 1",
    "set -euo pipefail; false": "exit code 1",
    "kill $$": "exit code 143",
    "kill -9 $$": "exit code 137",
    "kill -9 $PPID; echo late": "late",
    "trap '' INT TERM HUP; cd /; export KEPT=no; echo trapped": "trapped",
    "stty raw -echo; stty raw -echo </dev/tty; echo raw": "raw",
    "read -t 5 x; read -t 5 y </dev/tty; echo read-$x$y-nothing": "read--nothing",
    "printf '\\e[?1049h\\e[?25l\\e]0;title\\a\\e[31m'; echo drawn": "drawn",
    f"setsid -f {DAEMON}; {DAEMON} & disown; nohup {DAEMON} & echo daemon": "daemon",
}


def calls(home, *commands: str) -> str:
    steps = [
        [{"call": {"index": 0, "name": "shell__run", "arguments": json.dumps({"command": command})}}]
        for command in commands
    ]
    return model(home, [*steps, [{"text": "that was it"}]])


async def is_as_it_was(term, folder) -> None:
    """The person's bash has its variables, directory, options and terminal, and its line is seen as it is typed."""
    await did(term, "echo $KEPT-in-$PWD-$-", f"yes-in-{folder}-h")
    await did(term, "false; echo goes-on", "\ngoes-on")
    await term.enter("read -p 'your name? ' name && echo hello-$name")
    await term.sees("\nyour name?")
    await did(term, "ada", "\nhello-ada")
    assert "a new one has its directory" not in term.text


def peak_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM"))


async def prepare(term, home) -> str:
    folder = (home / "work").resolve()
    await did(term, "export KEPT=yes; echo re''ady", "\nready")
    return str(folder)


@pytest.mark.parametrize("command", WORST, ids=[command.replace(DAEMON, "daemon") for command in WORST])
async def test_the_worst_command_of_a_model_leaves_the_persons_shell_as_it_was(home, command):
    name = calls(home, command)
    async with shell(home, "--yes", "--model", name) as term:
        term.resize(40, 200)
        folder = await prepare(term, home)
        await term.enter("? go")
        await term.sees("that was it")
        await term.prompts()
        assert WORST[command] in term.text
        await is_as_it_was(term, folder)
        await did(term, f"pgrep -fc '^{DAEMON}'", "\n0")


async def test_a_fork_bomb_ends_with_ctrl_c_and_the_shell_is_as_it_was(home):
    name = calls(home, BOMB)
    async with shell(home, "--yes", "--model", name) as term:
        folder = await prepare(term, home)
        await term.enter("? go")
        await eventually((home / "work" / "went-off").exists, 20)
        term.press("\x03")
        await term.sees("stopped")
        await term.prompts()
        await is_as_it_was(term, folder)
        await did(term, f"pgrep -fc '^{BOMB_NAME}'", "\n0")


async def test_a_gigabyte_of_output_passes_and_little_of_it_is_kept(home):
    name = calls(home, "head -c 1000000000 /dev/zero | tr '\\0' x | fold -w 79; echo the-end")
    async with shell(home, "--yes", "--model", name) as term:
        term.skims = True
        folder = await prepare(term, home)
        await term.enter("? go")
        await term.sees("that was it", 100)
        await term.prompts()
        assert "more lines" in term.text
        await is_as_it_was(term, folder)
        assert peak_mib(term.pid) < 300


@pytest.mark.parametrize("sandbox", ["off", "bwrap"])
async def test_where_no_sandbox_can_be_set_up_that_is_said_and_a_question_asked_instead(home, sandbox):
    name = calls(home, "touch new")
    file = home / "home" / ".config" / "aish" / "config.toml"
    file.write_text(f'{file.read_text()}\n[safety]\nsandbox = "{sandbox}"\n')
    tools = home / "bin"
    tools.mkdir()
    for program in ("bash", "touch", "git", "cat"):
        (tools / program).symlink_to(f"/usr/bin/{program}")
    async with shell(home, "--model", name, PATH=str(tools)) as term:
        await term.enter(":mode auto")
        await term.sees("no sandbox without network is active here, so commands are asked about")
        await term.prompts("(auto) ›")
        await term.enter("? go")
        await term.sees("run it?")
        await term.enter("y")
        await term.sees("that was it")
        assert (home / "work" / "new").exists() is (sandbox == "off")
        if sandbox == "bwrap":
            assert "bubblewrap is missing" in term.text
