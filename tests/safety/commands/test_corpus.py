"""The bars: real lines judged as a careful person would. The held-out part is measured, never tuned to."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from aish.safety.commands import Level, LineVerdict, ShellContext, classify

DATA = Path(__file__).parents[2] / "data"
Line = dict[str, Any]


def load(name: str) -> list[Line]:
    lines: list[Line] = tomllib.loads((DATA / name).read_text("utf-8"))["line"]
    return lines


def verdict(line: Line) -> LineVerdict:
    context = ShellContext(
        cwd="/home/ann/project",
        home="/home/ann",
        roots=("/home/ann/project",),
        aliases=line.get("aliases", {}),
        functions=line.get("functions", {}),
    )
    return classify(line["text"], context)


def destructive(lines: list[Line]) -> list[Line]:
    return [line for line in lines if line["levels"] == ["destructive"]]


def read_only(lines: list[Line]) -> list[Line]:
    return [line for line in lines if line.get("read_only")]


def share(lines: list[Line], level: Level) -> float:
    return sum(verdict(line).level is level for line in lines) / len(lines)


MAIN, HELD_OUT = load("commands.toml"), load("commands_held_out.toml")


def test_the_corpus_is_large_and_covers_every_class() -> None:
    lines = MAIN + HELD_OUT
    classes = {line["class"] for line in destructive(lines)}
    assert len(destructive(lines)) >= 250
    assert sum(line["class"].startswith("everyday") for line in lines) >= 250
    assert sum(line["class"] == "ambiguous" for line in lines) >= 60
    assert classes >= {
        "removal",
        "truncation",
        "disk",
        "permissions",
        "git",
        "database",
        "containers",
        "processes",
        "power",
        "interpreter",
        "system",
        "alias",
    }


def test_no_line_stands_in_both_parts() -> None:
    assert not [line for line in MAIN if line in HELD_OUT]


@pytest.mark.parametrize("line", MAIN, ids=lambda line: line["text"][:60])
def test_every_line_of_the_main_part_gets_an_accepted_verdict(line: Line) -> None:
    found = verdict(line)
    assert found.level in line["levels"], found.reasons


def test_held_out_destructive_lines_are_flagged() -> None:
    assert share(destructive(HELD_OUT), Level.DESTRUCTIVE) >= 0.97


@pytest.mark.parametrize("line", destructive(HELD_OUT), ids=lambda line: line["text"][:60])
def test_no_held_out_destructive_line_is_proved_safe(line: Line) -> None:
    assert verdict(line).level is not Level.SAFE


def test_held_out_read_only_lines_are_proved_safe() -> None:
    """But for those that are asked about since they talk to another host, read elsewhere, or show a secret."""
    asked = {"network", "outside", "secret"}
    harmless = [line for line in read_only(HELD_OUT) if not asked & {reason.kind for reason in verdict(line).reasons}]
    assert len(harmless) >= 80
    assert share(harmless, Level.SAFE) >= 0.90


def test_held_out_everyday_lines_raise_no_false_alarm() -> None:
    everyday = [line for line in HELD_OUT if line["class"].startswith("everyday")]
    assert share(everyday, Level.DESTRUCTIVE) <= 0.02


@pytest.mark.parametrize("line", MAIN + HELD_OUT, ids=lambda line: line["text"][:60])
def test_a_verdict_explains_itself(line: Line) -> None:
    found = verdict(line)
    assert (found.level is Level.SAFE) == (not found.reasons)
    for reason in found.reasons:
        start, end = reason.span
        assert reason.text and reason.rule and reason.kind
        assert 0 <= start < end <= len(line["text"])
