"""Files that hold a person's answers: none is lost where several are given at once."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from aish.config import user_decisions
from aish.config.user_decisions import add_approval, change_file, load_approvals
from aish.errors import ConfigError

ADDING = """
import sys
from pathlib import Path
from aish.config.user_decisions import add_approval
for number in range(20):
    add_approval(Path(sys.argv[1]), {"tool": f"{sys.argv[2]}{number}"})
"""


def test_answers_given_at_once_in_several_processes_are_all_kept(tmp_path: Path) -> None:
    file = tmp_path / "data" / "approved.json"
    adding = [subprocess.Popen([sys.executable, "-c", ADDING, str(file), who]) for who in "abc"]
    assert [process.wait(timeout=60) for process in adding] == [0, 0, 0]
    kept = {rule["tool"] for rule in load_approvals(file)}
    assert kept == {f"{who}{number}" for who in "abc" for number in range(20)}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert sorted(path.name for path in file.parent.iterdir()) == ["approved.json"]


def test_a_change_that_fails_leaves_what_was_there_and_the_way_free(tmp_path: Path) -> None:
    file = tmp_path / "approved.json"
    file.write_text("not a list")
    with pytest.raises(ConfigError, match="is damaged"):
        add_approval(file, {"tool": "a"})
    assert file.read_text() == "not a list"
    change_file(file, lambda: b"[]")
    add_approval(file, {"tool": "a"})
    assert load_approvals(file) == [{"tool": "a"}]


def test_one_who_never_ends_a_change_is_not_waited_for_for_ever(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(user_decisions, "_WAIT_S", 0.05)
    file = tmp_path / "trust.json"
    held = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    with pytest.raises(ConfigError, match="cannot be written"):
        change_file(file, lambda: b"{}")
    os.close(held)
    assert not file.exists()
    change_file(file, lambda: b"{}")
    assert file.read_bytes() == b"{}"
