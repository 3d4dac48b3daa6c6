"""What a removal would lose is counted on the disk, and compared with what git has."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from aish.tools.removal_counts import count_loss, read_index


def git(folder: Path, *words: str) -> None:
    identity = ["-c", "user.name=u", "-c", "user.email=u@example.com"]
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, timeout=30)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("build/a.o", "build/sub/b.o", "src/a.py", "src/ä b.py", f"src/{'x' * 200}.py"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    (tmp_path / "empty").mkdir()
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "src")
    return tmp_path


def counted(project: Path, *names: str, **bounds: float) -> str:
    return count_loss([str(project / name) for name in names], **bounds)


def test_files_are_counted_and_those_that_git_does_not_have(project: Path) -> None:
    assert counted(project, "build") == "removes 2 files, none of them in git"
    assert counted(project, "src") == "removes 3 files, all in git"
    assert counted(project, "src", "build") == "removes 5 files, 2 not in git"
    assert counted(project, "build/a.o") == "removes 1 file, not in git"
    assert counted(project, "src/*.py") == "removes 3 files, all in git"
    assert counted(project, "empty") == "removes empty folders"
    assert counted(project, "nothing", "no*thing") == ""


def test_outside_a_repository_it_says_that_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    assert counted(tmp_path, "a") == "removes 1 file, and there is no git repository"


def test_a_link_is_removed_and_not_what_it_leads_to(project: Path) -> None:
    (project / "link").symlink_to(project / "src")
    (project / "loop").symlink_to(project)
    assert counted(project, "link", "loop") == "removes 2 files, none of them in git"


def test_it_stops_at_its_bounds_and_says_that_there_is_more(project: Path) -> None:
    many = project / "many"
    many.mkdir()
    for number in range(200):
        (many / f"f{number}").touch()
    assert counted(project, "many", max_entries=51) == "removes more than 50 files, none of them in git"
    assert counted(project, "many", max_s=-1).startswith("removes more than ")


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_an_index_of_any_form_is_read_or_counts_as_unknown(project: Path, version: str) -> None:
    git(project, "update-index", f"--index-version={version}")
    git(project, "add", "-N", "build/a.o")  # in version 3 with extended flags
    expected = {"src/a.py", "src/ä b.py", f"src/{'x' * 200}.py", "build/a.o"}
    assert read_index(project) == (None if version == "4" else expected)
    assert counted(project, "src") == "removes 3 files" + ("" if version == "4" else ", all in git")


@pytest.mark.parametrize("data", [b"", b"DIRC", b"DIRC\0\0\0\2\xff\xff\xff\xff", b"x" * 500, os.urandom(2000)])
def test_a_damaged_index_names_nothing_and_breaks_nothing(project: Path, data: bytes) -> None:
    (project / ".git" / "index").write_bytes(data)
    assert read_index(project) is None
    assert counted(project, "src") == "removes 3 files"
