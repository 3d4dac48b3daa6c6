"""Programs that are timed: to their end and on a terminal, with deadlines, and nothing left of them."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from bench.children import Failed, drawn, ended

from support.eventually import eventually

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
    pytest.mark.skipif(not shutil.which("cc"), reason="compiles its launcher"),
]
PYTHON = sys.executable


def test_a_program_is_timed_to_its_end_with_what_it_used(tmp_path: Path) -> None:
    code = "x = bytearray(60 << 20); print('here'); sum(range(2_000_000))"
    timing = ended((PYTHON, "-c", code), tmp_path, {}, mark=b"here")
    assert timing.marked_ms is not None
    assert timing.marked_ms <= timing.wall_ms
    assert timing.memory_mb > 60
    assert timing.cpu_ms > 1


def test_memory_is_the_program_s_own_and_not_of_whoever_starts_it(tmp_path: Path) -> None:
    ballast = bytearray(80 << 20)
    timing = ended(("true",), tmp_path, {})
    assert timing.memory_mb < len(ballast) >> 20


def test_a_program_that_fails_says_so_in_its_own_words(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="exit code 3: no such thing"):
        ended((PYTHON, "-c", "print('no such thing'); raise SystemExit(3)"), tmp_path, {})


def test_a_program_that_does_not_say_what_it_should_is_not_timed(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="did not say"):
        ended((PYTHON, "-c", "print('something else')"), tmp_path, {}, mark=b"here")


async def test_what_is_late_is_ended_with_all_it_started(tmp_path: Path) -> None:
    code = f"sleep 600 & echo $! > {tmp_path}/pid; sleep 600"
    with pytest.raises(Failed, match="not through"):
        ended(("sh", "-c", code), tmp_path, {}, deadline_s=1.0)
    pid = int((tmp_path / "pid").read_text())
    await eventually(lambda: not _runs(pid))


def test_a_prompt_is_timed_until_it_stands_on_the_terminal(tmp_path: Path) -> None:
    code = "import os, sys; print('\\x1b[1mready\\x1b[0m>', end='', flush=True); sys.stdin.read()"
    timing = drawn((PYTHON, "-c", code), "ready>", tmp_path, {})
    assert timing.wall_ms > 0
    assert timing.memory_mb > 1


def test_a_program_that_asks_its_terminal_something_is_answered(tmp_path: Path) -> None:
    code = (
        "import sys, tty; tty.setraw(0); sys.stdout.write('\\x1b[6n'); sys.stdout.flush(); "
        "got = sys.stdin.read(6); print('answered', flush=True); sys.stdin.read()"
    )
    assert drawn((PYTHON, "-c", code), "answered", tmp_path, {}, deadline_s=20).wall_ms > 0


def test_a_program_that_ends_without_a_prompt_says_so(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="it ended instead: bye"):
        drawn((PYTHON, "-c", "print('bye')"), "ready>", tmp_path, {})


def test_a_prompt_that_does_not_come_is_given_up_and_its_program_ended(tmp_path: Path) -> None:
    code = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    with pytest.raises(Failed, match="was drawn"):
        drawn((PYTHON, "-c", code), "ready>", tmp_path, {}, deadline_s=1.0)
    assert not _runs(int((tmp_path / "pid").read_text()))


def _runs(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
