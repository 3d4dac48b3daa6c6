"""A model at the prompt you already have."""

import argparse
import shutil
import subprocess
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from aish.config.schema.config import Config
from aish.errors import ModelNotFound, UsageError
from aish.frontends.shell.commands.suggest import SNIPPETS, extract_command, run
from aish.types.live_shell import CommandHint
from aish.types.models import ModelProfile


@pytest.mark.parametrize(
    ("reply", "line"),
    [
        ("ls -S", "ls -S"),
        ("```bash\nls -S\n```", "ls -S"),
        ("`ls -S`", "ls -S"),
        ("CMD: ls", "ls"),
        ("$ ls", "ls"),
        ("\n\nls\n\nThis lists files.", "ls"),
        ("", ""),
    ],
)
def test_only_the_command_is_left_of_a_reply(reply, line):
    assert extract_command(reply) == line


@pytest.mark.parametrize("shell", SNIPPETS)
def test_the_lines_for_a_start_up_file_are_good_shell(shell, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    file = tmp_path / "rc"
    file.write_text(SNIPPETS[shell])
    assert subprocess.run([shell, "-n", str(file)], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(("command", "example"), [("explain", "tar xzf"), ("suggest", "list files")])
def test_without_words_an_example_of_that_command_is_given(command, example):
    with pytest.raises(UsageError) as caught:
        run(argparse.Namespace(command=command, text=[], model=""), None)
    assert example in caught.value.hint


@pytest.mark.parametrize("has_model", [True, False])
def test_a_small_model_is_not_asked_where_a_line_is_known_to_work_nor_is_one_needed(capsys, has_model):
    """It would make one up."""
    line = "du -ah . | sort -rh | head -20"

    async def find(text):
        return [CommandHint("du", "how much space files take", line)]

    async def resolve(model):
        if not has_model:
            raise ModelNotFound("no model to ask")
        return SimpleNamespace(info=ModelProfile("embedded", "small", parameters=135_000_000))

    @asynccontextmanager
    async def engine(**options):
        yield SimpleNamespace(router=SimpleNamespace(resolve=resolve))  # it has no `turn` to ask with

    runtime = SimpleNamespace(
        config=Config(), find_commands=find, engine=engine, launch_context=SimpleNamespace(env={})
    )
    asked = argparse.Namespace(command="suggest", text=["how do I find the biggest files here?"], model="")
    assert run(asked, runtime) == 0
    assert capsys.readouterr().out == f"{line}\n"
