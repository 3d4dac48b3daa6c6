"""Programs found by everyday words: the right one among the first, and none that is not here."""

from __future__ import annotations

import gzip
import os
import shutil
import tomllib
from pathlib import Path

import pytest

from aish.tools.command_index.index import CommandIndex
from aish.tools.command_index.sources import find_programs, program_table

QUESTIONS: dict[str, list[str]] = tomllib.loads(
    (Path(__file__).parents[2] / "data" / "shell_questions.toml").read_text()
)["questions"]
BAR = 0.85


def folder_with(place: Path, *names: str) -> str:
    place.mkdir()
    for name in names:
        (place / name).write_text("#!/bin/sh\n")
        (place / name).chmod(0o755)
    return str(place)


def right(index: CommandIndex, path: str) -> float:
    here = find_programs(path)
    answerable = {text: set(names) & here for text, names in QUESTIONS.items() if set(names) & here}
    found = [
        bool({hint.program for hint in index.search(text, 5) if hint.here} & names)
        for text, names in answerable.items()
    ]
    return sum(found) / len(found)


def test_the_right_program_is_among_the_first_five_on_this_machine(tmp_path: Path) -> None:
    path = os.environ["PATH"]
    assert right(CommandIndex(tmp_path / "commands.db", path), path) >= BAR


def test_the_same_where_every_program_is_and_no_manual(tmp_path: Path) -> None:
    path = folder_with(tmp_path / "bin", *program_table().programs)
    assert right(CommandIndex(tmp_path / "commands.db", path, manuals=()), path) >= BAR


def test_the_package_manager_of_this_machine_is_told_of_and_no_other(tmp_path: Path) -> None:
    path = folder_with(tmp_path / "bin", "apt", "pip", "which", "install")
    found = CommandIndex(tmp_path / "commands.db", path, manuals=()).search("how do I install nginx")
    assert found[0].program == "apt" and found[0].example == "sudo apt install NAME"
    assert {"dnf", "pacman", "apk", "zypper", "brew"}.isdisjoint(hint.program for hint in found)


def test_a_program_that_is_not_here_says_so_and_what_to_install(tmp_path: Path) -> None:
    path = folder_with(tmp_path / "bin", "ls")
    index = CommandIndex(tmp_path / "commands.db", path, manuals=())
    for question in QUESTIONS:
        for hint in index.search(question):
            assert hint.here == (hint.program in find_programs(path))
            assert not hint.is_ready or hint.here
    [ping] = [hint for hint in index.search("is this host reachable?") if hint.program == "ping"]
    assert (ping.here, ping.package) == (False, "iputils-ping")


def test_manual_pages_tell_of_programs_we_do_not_know(tmp_path: Path) -> None:
    path = folder_with(tmp_path / "bin", "frobnicate", "mdocish")
    manuals = tmp_path / "man1"
    manuals.mkdir()
    page = ".TH FROB 1\n.SH NAME\nfrobnicate \\- knit woollen \\fBsweaters\\fR\n.SH SYNOPSIS\n"
    with gzip.open(manuals / "frobnicate.1.gz", "wb") as file:
        file.write(page.encode())
    (manuals / "mdocish.1").write_text(".Dd x\n.Sh NAME\n.Nm mdocish\n.Nd paint fences\n.Sh SYNOPSIS\n")
    index = CommandIndex(tmp_path / "commands.db", path, manuals=(manuals,))
    assert index.search("knit a sweater")[0].program == "frobnicate"
    assert index.search("knit a sweater")[0].about == "knit woollen sweaters"
    assert index.search("painting fences")[0].program == "mdocish"


def test_a_program_that_comes_or_goes_is_noticed(tmp_path: Path) -> None:
    path = folder_with(tmp_path / "bin", "ls")
    index = CommandIndex(tmp_path / "commands.db", path, manuals=())
    assert not index.search("unpack a tar archive")[0].here
    (tmp_path / "bin" / "tar").write_text("")
    (tmp_path / "bin" / "tar").chmod(0o755)
    assert index.search("unpack a tar archive")[0].program == "tar"
    shutil.rmtree(tmp_path / "bin")
    assert not any(hint.here for hint in index.search("unpack a tar archive"))


@pytest.mark.parametrize(
    "question", ["", "the of and", '"', "' OR 1=1 --", "*", "NEAR(", "x" * 100_000, "größe der datei", "\0"]
)
def test_odd_questions_find_something_or_nothing_and_never_fail(tmp_path: Path, question: str) -> None:
    CommandIndex(tmp_path / "commands.db", os.environ["PATH"], manuals=()).search(question)


def test_a_file_that_cannot_be_made_or_read_finds_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert CommandIndex(tmp_path / "file" / "commands.db", "/usr/bin").search("unpack a tar") == ()
    (tmp_path / "bad.db").write_bytes(b"not a database" * 100)
    index = CommandIndex(tmp_path / "bad.db", "/usr/bin:/bin", manuals=())
    assert index.search("unpack a tar archive")  # made anew
