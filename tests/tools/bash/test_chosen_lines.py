"""Lines that a model proposed and the person chose run in the shell of the person, without input, within a limit."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aish.tools.bash.shell import LiveBash, LiveBashSpec
from aish.types.live_shell import RunEnd
from support.eventually import eventually
from support.processes import is_running


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[LiveBash]:
    spec = LiveBashSpec(cwd=tmp_path, close_wait_s=0.2, env={"TOKEN": "s3cret"}, model_env={"TOKEN": ""})
    async with asyncio.timeout(60), LiveBash.open(spec) as shell:
        yield shell


async def test_it_runs_in_the_same_shell_and_what_it_changes_stays(shell: LiveBash, tmp_path: Path) -> None:
    await shell.run_user("X=1; f() { echo func $X; }", None)
    result = await shell.run_proposal("f; cd /; export Y=2; declare -a list=(a b)", 10)
    assert (result.output, result.cwd) == ("func 1\n", "/")
    assert (await shell.run_user("echo $Y ${list[1]} $PWD", None)).output == "2 b /\n"


async def test_the_environment_is_for_machines_and_only_for_that_line(shell: LiveBash) -> None:
    show = "echo $TERM-$PAGER-$GIT_TERMINAL_PROMPT-$TOKEN; env | grep -c '^PAGER=cat'"
    before = (await shell.run_user(show, None)).output
    assert (await shell.run_proposal(show, 10)).output == "dumb-cat-0-\n1\n"
    assert (await shell.run_user(show, None)).output == before and before.endswith("-s3cret\n0\n")


async def test_there_is_nothing_on_stdin(shell: LiveBash) -> None:
    result = await shell.run_proposal("cat; read x; echo \"<$x>\"; python3 -c 'input()' 2>&1 | tail -1", 10)
    assert result.output == "<>\nEOFError: EOF when reading a line\n"


@pytest.mark.parametrize(
    "line",
    [
        "sleep 599; echo never",
        "while :; do :; done",
        "while :; do sleep 599; done",
        "bash -c \"trap '' INT; sleep 599; sleep 599\"; echo never",
        "bash -c \"trap '' INT TERM; while :; do sleep 599; done\"; echo never",
        "sleep 599 | cat; echo never",
        "f() { sleep 599; }; f; echo never",
        "cat /dev/tty",
    ],
)
async def test_a_line_that_takes_too_long_is_stopped_and_the_shell_lives(shell: LiveBash, line: str) -> None:
    await shell.run_user("X=kept", None)
    result = await shell.run_proposal(line, 0.3)
    assert result.end is RunEnd.TIMED_OUT and "never" not in result.output
    assert (await shell.run_user("echo $X", None)).output == "kept\n"


async def test_a_line_that_cannot_be_stopped_costs_the_shell_and_says_so(shell: LiveBash) -> None:
    result = await shell.run_proposal("trap '' INT TERM; while :; do :; done", 0.2)
    assert result.end is RunEnd.LOST
    assert (await shell.run_user("echo fine", None)).output == "fine\n"


async def test_cancelling_stops_the_line(shell: LiveBash, tmp_path: Path) -> None:
    running = asyncio.create_task(shell.run_proposal("echo $BASHPID >pid; exec_=1; sleep 599 & echo $! >pid; wait", 60))
    await eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().count("\n") == 1)
    running.cancel()
    await asyncio.wait({running}, timeout=10)
    assert running.cancelled()
    assert (await shell.run_user("echo fine", None)).output == "fine\n"


async def test_a_program_that_asks_for_a_password_is_stopped_at_once(shell: LiveBash) -> None:
    result = await shell.run_proposal(f"{sys.executable} -c 'import getpass; getpass.getpass()'", 30)
    assert result.end is RunEnd.ASKED and "Password" in result.output
    assert (await shell.run_user("stty -a | grep -c ' echo '", None)).output == "1\n"


async def test_a_job_it_leaves_in_the_background_lives_until_the_end(tmp_path: Path) -> None:
    async with LiveBash.open(LiveBashSpec(cwd=tmp_path, close_wait_s=0.2)) as shell:
        await shell.run_proposal("sleep 599 & echo $! >pid", 10)
        pid = int((tmp_path / "pid").read_text())
        assert is_running(pid)
    await eventually(lambda: not is_running(pid))
