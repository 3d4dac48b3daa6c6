"""The history of the live bash: its own rules decide what is kept, and its file has each line at once."""

from contextlib import asynccontextmanager

import pytest

from aish.tools.bash.shell import LiveBash, LiveBashSpec


@asynccontextmanager
async def bash(tmp_path, rc):
    (tmp_path / "rc").write_text(f"HISTFILE={tmp_path}/hist\n{rc}\n")
    async with LiveBash.open(LiveBashSpec(cwd=tmp_path, rc_file=str(tmp_path / "rc"))) as shell:
        yield shell


async def run(shell, *lines):
    return [await shell.run_user(line, None) for line in lines]


@pytest.mark.parametrize(
    ("rc", "line", "kept"),
    [
        ("HISTCONTROL=ignorespace", " echo secret", False),
        ("HISTCONTROL=ignoreboth", " echo secret", False),
        ("unset HISTCONTROL", " echo seen", True),
        ("HISTIGNORE='echo s*'", "echo secret", False),
        ("HISTIGNORE='ls'", "echo seen", True),
        ("HISTCONTROL=ignoredups", "echo first", True),
        ("set +o history", "echo secret", False),
        ("HISTSIZE=0", "echo secret", False),
    ],
)
async def test_bash_decides_what_is_kept(tmp_path, rc, line, kept):
    async with bash(tmp_path, rc) as shell:
        _, result = await run(shell, "echo first", line)
        assert result.is_kept is kept
        written = (tmp_path / "hist").read_text().splitlines() if (tmp_path / "hist").exists() else []
        assert written.count(line) == int(kept)


async def test_the_file_has_a_line_before_it_has_ended_so_that_no_end_of_the_shell_loses_it(tmp_path):
    async with bash(tmp_path, "") as shell:
        (result,) = await run(shell, f"cat {tmp_path}/hist")
        assert f"cat {tmp_path}/hist" in result.output


async def test_times_are_written_where_the_person_wants_them(tmp_path):
    async with bash(tmp_path, "HISTTIMEFORMAT='%F '") as shell:
        await run(shell, "echo a")
        stamp, line = (tmp_path / "hist").read_text().splitlines()
        assert stamp[0] == "#" and stamp[1:].isdecimal() and line == "echo a"


@pytest.mark.parametrize(
    ("line", "ran"),
    [
        ("!!", "echo three x"), ("!1", "echo one"), ("!-2", "echo two"), ("!ec", "echo three x"), ("!?wo", "echo two"),
        ("^three^3", "echo 3 x"), ("echo !$", "echo x"),
    ],
)  # fmt: skip
async def test_the_history_is_expanded_as_in_bash_and_the_line_that_ran_is_reported(tmp_path, line, ran):
    async with bash(tmp_path, "") as shell:
        *_, result = await run(shell, "echo one", "echo two", "echo three x", line)
        assert result.line == ran


async def test_a_line_of_the_history_can_be_looked_at_without_running_it(tmp_path):
    async with bash(tmp_path, "") as shell:
        *_, shown, again = await run(shell, "touch made", "rm made; touch twice", "rm twice", "!-2:p", "ls")
        assert shown.status == 0 and "twice" not in again.output
        assert (tmp_path / "hist").read_text().splitlines()[-2] == "rm made; touch twice"


async def test_the_settings_of_the_history_are_known(tmp_path):
    async with bash(tmp_path, "HISTCONTROL=erasedups; HISTSIZE=77") as shell:
        await run(shell, "HISTSIZE=78")
        settings = shell.history_settings
        assert (settings.file, settings.control, settings.size) == (f"{tmp_path}/hist", "erasedups", 78)
