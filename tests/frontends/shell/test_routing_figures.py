"""How many of 887 labelled lines go where they belong.

All lines were written and labelled before anything was measured, and split by a seed. The rules were made with one half
in view; the other half was only counted.
"""

import json
from pathlib import Path

import pytest

from aish.frontends.shell.prompt.routing import Destination, KnownNames, route_line
from aish.types.live_shell import WordKind

DATA = Path(__file__).parents[2] / "data" / "routing"
NAMES = json.loads((DATA / "names.json").read_text())
COMMANDS = frozenset(f"{NAMES['builtins']} {NAMES['programs']}".split())


def resolve(word):
    if word[:1] in ("(", "{"):
        return WordKind.KEYWORD
    name, equals, _ = word.partition("=")
    if equals and name.isidentifier():
        return WordKind.ASSIGNMENT
    return WordKind.FILE if word in COMMANDS else None


KNOWN = KnownNames(resolve, frozenset(NAMES["files"].split()).__contains__, lambda: COMMANDS)


def rows(half):
    return [json.loads(line) for line in (DATA / f"{half}.jsonl").read_text().splitlines()]


def is_right(row):
    is_question = route_line(row["line"], KNOWN).destination is Destination.MODEL
    return is_question == (row["label"] == "model")


@pytest.mark.parametrize(("half", "lines", "right"), [("tuning", 444, 442), ("held_out", 443, 435)])
def test_nearly_all_lines_go_where_they_belong(half, lines, right):
    found = [is_right(row) for row in rows(half)]
    assert len(found) == lines
    assert sum(found) >= right


@pytest.mark.parametrize("half", ["tuning", "held_out"])
def test_no_sentence_that_bash_would_take_with_an_effect_goes_to_it(half):
    effective = [row for row in rows(half) if row.get("effect")]
    assert effective
    assert [row["line"] for row in effective if not is_right(row)] == []


def test_the_labelled_lines_are_many_and_in_many_languages():
    lines = [row["line"] for half in ("tuning", "held_out") for row in rows(half)]
    assert len(set(lines)) == len(lines) >= 600
    for part in ("größte", "pourquoi", "cómo", "perché", "você", "waarom", "dlaczego", "почему", "エラー", "错误"):
        assert any(part in line for line in lines)
