"""What is proved safe is given to a real bash, in an empty directory: nothing may appear there.

The lines are made of pieces that try to write a file called `pwned` in every way a shell has. The seed is fixed.
"""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from aish.safety.commands import Level, ShellContext, classify

PIECES = [
    "ls",
    "cat f",
    "echo a",
    "sort f",
    "uniq f pwned",
    "touch pwned",
    ">pwned",
    "> pwned",
    "&>",
    "<",
    "<<<",
    "2>&1",
    "-o pwned",
    "$(touch pwned)",
    "`touch pwned`",
    "\\`touch pwned\\`",
    "<(touch pwned)",
    "$((a[$(touch pwned)]))",
    "${x:=`touch pwned`}",
    "${x:-$(touch pwned)}",
    "a[`touch pwned`]",
    "(touch pwned)",
    "tee pwned",
    "'",
    '"',
    "\\",
    "$'",
    "\\'",
    '$"',
    "$",
    "#",
    "!",
    "\n",
    "\\\n",
    "\t",
    ";",
    "|",
    "&&",
    "&",
    "(",
    ")",
    "{ ",
    " }",
    "<<E\n",
    "<<'E'\n",
    "<<\\E\n",
    "<<-E\n",
    "\nE\n",
    "\tE\n",
    "sed -n ",
    "'w pwned'",
    "p ",
    "awk ",
    "'{print>\"pwned\"}'",
    "find . ",
    "-exec ",
    "touch pwned {} \\;",
    "-fprint pwned",
    "xargs ",
    "env ",
    "time ",
    "command ",
    "nice ",
    "timeout 1 ",
    "for i in a;do ",
    "done",
    "if ",
    "then ",
    "fi;",
    "case a in a)",
    ";;esac",
    "[[ a ",
    "-eq ",
    "]] ",
    "[ ",
    "] ",
    "printf ",
    "-v x ",
    "read ",
    "x=1 ",
    "x ",
    "$x",
    "$@",
    "${#x}",
    "*",
    "{a,b}",
    "~",
    "é",
]


def lines(seed: int, count: int) -> list[str]:
    rng = random.Random(seed)
    return [
        "".join(rng.choice(PIECES) + rng.choice(["", " "]) for _ in range(rng.choice([2, 3, 4, 5, 6, 8])))
        for _ in range(count)
    ]


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_no_line_proved_safe_writes_anything_in_a_real_shell(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    context = ShellContext(cwd=str(here), home=str(here))
    tried = [line for line in lines(20261115, 25_000) if "pwned" in line]
    safe = [line for line in tried if classify(line, context).level is Level.SAFE]
    assert len(safe) > 100
    (here / "f").write_text("a\n")
    for line in safe:
        subprocess.run(
            ["bash", "-c", line],
            cwd=here,
            env={"PATH": "/usr/bin:/bin", "HOME": str(here)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=20,
            check=False,
        )
        assert [path.name for path in here.iterdir()] == ["f"], line
