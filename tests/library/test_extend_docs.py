"""The Python in docs/extend.md, in the README and in examples runs as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from aish.extensions.loading import load_source
from aish.extensions.manifest import PythonSource

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
DEADLINE_S = 60


def blocks(page: str) -> list[str]:
    return _BLOCK.findall((ROOT / page).read_text())


PROGRAMS = [
    block for page in ("docs/extend.md", "docs/providers.md") for block in blocks(page) if "asyncio.run" in block
]
DEFINITIONS = [block for block in blocks("docs/extend.md") if "asyncio.run" not in block]


def test_the_page_has_programs_and_definitions():
    assert len(PROGRAMS) == 3 and len(DEFINITIONS) == 5


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_programs_run(tmp_path: Path, number: int):
    file = tmp_path / "program.py"
    file.write_text(PROGRAMS[number])
    done = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, timeout=DEADLINE_S, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    if "reply.value" in PROGRAMS[number]:
        assert done.stdout.startswith("the printer is on fire sess_") and "TurnFinished" in done.stdout


@pytest.mark.parametrize("number", range(len(DEFINITIONS)))
def test_definitions_are_taken_up(tmp_path: Path, number: int):
    file = tmp_path / "definitions.py"
    file.write_text(DEFINITIONS[number])
    source = PythonSource("my", path=str(file), revision=sha256(file.read_bytes()).hexdigest())
    assert not load_source(source).manifest.is_empty


def test_the_readme_has_the_same_first_tool():
    assert DEFINITIONS[0].strip() in (ROOT / "README.md").read_text()


def test_the_bot_answers_closes_what_it_may_and_goes_on(tmp_path: Path):
    (tmp_path / "tickets.json").write_text('[{"id": 3, "title": "fire", "state": "open"}]')
    script = tmp_path / "run.py"
    script.write_text(
        "import asyncio, sys\n"
        f"sys.path.insert(0, {str(ROOT / 'examples')!r})\n"
        "import bot\n"
        "from aish.testing import Scripted, call\n"
        "model = Scripted(call('app__tickets'), 'Ticket 3.', call('app__close_ticket', id=3), 'Closed.')\n"
        "asyncio.run(bot.main(['what is open?', 'close it'], model))\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=DEADLINE_S, cwd=tmp_path, check=False
    )
    assert (done.returncode, done.stdout) == (0, "Ticket 3.\nClosed.\n"), done.stderr
    assert '"state": "closed"' in (tmp_path / "tickets.json").read_text()
