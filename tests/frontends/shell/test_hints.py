"""Questions that ask for commands, and commands whose program is not here."""

from __future__ import annotations

import pytest

from aish.frontends.shell.command_hints import (
    hint_lines,
    hints_for_model,
    is_command_question,
    program_of,
    ready_commands,
    split_by_availability,
)
from aish.frontends.shell.commands.suggest import choose_line
from aish.frontends.shell.repl import WHAT_WENT_WRONG
from aish.types.live_shell import CommandHint

DU = CommandHint("du", "how much space files take", "du -ah . | sort -rh | head -20")
TAR = CommandHint("tar", "unpack archives", "tar xzf FILE.tar.gz")
NCDU = CommandHint("ncdu", "browse what takes space", "ncdu", here=False, package="ncdu")


@pytest.mark.parametrize(
    "text", ["how do I find the biggest files here?", "what is the command for copying", "list all files by size"]
)
def test_a_question_for_a_command_is_recognised(text: str) -> None:
    assert is_command_question(text)


@pytest.mark.parametrize("text", ["tell me a joke", "what time is it?", "add 17 and 25", "x" * 5000, WHAT_WENT_WRONG])
def test_other_questions_are_left_alone(text: str) -> None:
    assert not is_command_question(text)


def test_only_what_is_here_is_told_and_run() -> None:
    told = hints_for_model([DU, NCDU])
    assert "du: how much space" in told and "ncdu" not in told
    assert hints_for_model([NCDU]) == ""
    assert ready_commands([NCDU, DU, TAR]) == ["du -ah . | sort -rh | head -20"]  # no gaps to fill in, and here
    assert ready_commands([NCDU, TAR, DU]) == []  # what fits less is not offered instead
    assert "apt install ncdu" in hint_lines([NCDU])[0]
    assert "apt" not in hint_lines([DU])[0]


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("ls -la", "ls"),
        ("sudo -n apt install x", "apt"),
        ("A=1 B=2 make", "make"),
        ("/usr/bin/env x", "/usr/bin/env"),
        ("$(x) y", ""),
        ("", ""),
    ],
)
def test_the_program_of_a_line(command: str, program: str) -> None:
    assert program_of(command) == program


def test_what_cannot_be_run_here_is_not_offered() -> None:
    there, missing = split_by_availability(["ls", "frobnicate --all", "./mine", "$EDITOR x"], lambda word: word == "ls")
    assert there == ["ls", "./mine", "$EDITOR x"]
    assert missing == ["frobnicate"]


def test_a_suggestion_begins_with_a_program_that_is_here() -> None:
    assert choose_line("ls -la", [DU]) == "ls -la"
    assert choose_line("cd ..", [DU]) == "cd .."
    assert choose_line("You can use the frobnicate tool.", [NCDU, DU]) == DU.example
    assert choose_line("frobnicate", []) == "frobnicate"
