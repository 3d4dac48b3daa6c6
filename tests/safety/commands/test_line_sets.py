"""Lines that somebody wrote who had not read the tables: one half is worked on, the other only measured."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from aish.safety.commands import Level, LineVerdict

Judge = Callable[..., LineVerdict]

DATA = Path(__file__).parents[2] / "data"


def load(name: str) -> dict[str, list[str]]:
    return tomllib.loads((DATA / name).read_text("utf-8"))


WORKED_ON, HELD_OUT = load("safety_lines.toml"), load("safety_lines_held_out.toml")


def test_no_line_stands_in_both_halves() -> None:
    for kind, lines in WORKED_ON.items():
        assert len(lines) >= 35
        assert not set(lines) & set(HELD_OUT[kind])


@pytest.mark.parametrize("line", WORKED_ON["harmful"])
def test_a_harmful_line_is_asked_about(line: str, judge: Judge) -> None:
    found = judge(line)
    assert found.level is not Level.SAFE, found.reads


@pytest.mark.parametrize("line", WORKED_ON["destructive"])
def test_a_destructive_line_is_called_so(line: str, judge: Judge) -> None:
    found = judge(line)
    assert found.level is Level.DESTRUCTIVE, found.reasons


@pytest.mark.parametrize("line", WORKED_ON["everyday"])
def test_everyday_reading_is_safe(line: str, judge: Judge) -> None:
    found = judge(line)
    assert found.level is Level.SAFE, found.reasons
