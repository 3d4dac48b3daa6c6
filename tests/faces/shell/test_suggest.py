"""A model at the prompt you already have."""

import shutil
import subprocess

import pytest

from aish.faces.shell.suggest import SNIPPETS, bare_command


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
    assert bare_command(reply) == line


@pytest.mark.parametrize("shell", SNIPPETS)
def test_the_lines_for_a_start_up_file_are_good_shell(shell, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    file = tmp_path / "rc"
    file.write_text(SNIPPETS[shell])
    assert subprocess.run([shell, "-n", str(file)], capture_output=True, check=False).returncode == 0
