"""Too long, too deep, too many: unknown, by bounds and not by a clock."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from aish.safety.commands import Level, LineVerdict, bounds, program_tables

Judge = Callable[..., LineVerdict]


@pytest.mark.parametrize(
    "unit", ["a ", "ls;", "ls|", "(", "$(", "`", '"', "{a,b}", "sudo ", "bash -c '", "<<A\n", "é", "if ", "\\", ">a "]
)
def test_a_very_long_line_is_unknown(unit: str, judge: Judge) -> None:
    found = judge(unit * (100_000 // len(unit)))
    assert found.level is Level.UNKNOWN
    assert found.reasons[0].rule == "too-big"


@pytest.mark.parametrize("depth", [50, 500, 1000])
@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("$(", ")"),
        ("(", ")"),
        ("{ ", "; }"),
        ('"$(', ')"'),
        ("if ", "; then ls; fi"),
    ],
)
def test_deep_nesting_is_not_safe_and_does_not_raise(opening: str, closing: str, depth: int, judge: Judge) -> None:
    assert judge("echo " + opening * depth + "touch x" + closing * depth).level is not Level.SAFE


def test_shell_in_shell_ends_at_the_depth(judge: Judge) -> None:
    line = "rm -rf x"
    for _ in range(bounds.MAX_TEXTS - 1):
        line = "eval " + "'" + line.replace("'", "'\\''") + "'"
    assert judge(line).level is Level.DESTRUCTIVE
    for _ in range(3):
        line = "eval " + "'" + line.replace("'", "'\\''") + "'"
    assert judge(line).level is Level.UNKNOWN


def test_many_commands_are_unknown(judge: Judge) -> None:
    assert judge("ls\n" * 600).level is Level.UNKNOWN


def test_a_catastrophe_is_not_crowded_out_by_other_reasons(judge: Judge) -> None:
    found = judge("\n".join(f"rm -rf a{number}" for number in range(100)) + "\nrm -rf /")
    assert found.catastrophe
    assert found.reasons[0].catastrophe


def test_importing_the_classifier_loads_no_parser_and_no_table() -> None:
    code = (
        "import sys, aish.safety.commands; print([m for m in ('tree_sitter', 'tree_sitter_bash') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_every_table_is_well_formed() -> None:
    rules = program_tables.destructive().rules
    found = {rule.id: rule for name in rules.names() for rule in rules.find(name)}
    assert len(found) > 150
    for rule in found.values():
        assert rule.says.format(program="x", verb="y", args="z")
    for permit in program_tables.read_only().permits.values():
        assert set(permit.uses) <= set(program_tables.read_only().sets)
    for name, permit in program_tables.read_only().permits.items():
        if permit.verbs:
            assert all(
                set(entry.uses) <= set(program_tables.read_only().sets)
                for _, entry in program_tables.verbs(name).entries
            )
