"""A short run of the fuzzer, and proof that it would see what it is there to see."""

from __future__ import annotations

import pytest

import fuzz_gate
from aish.safety.commands import classifier
from aish.safety.commands.syntax.agreement import Agreement
from support.fuzz_cell import Cell, is_available
from support.fuzz_lines import LineMaker

pytestmark = pytest.mark.skipif(not is_available(), reason="no namespace may be made here")

# The three ways in which a line was once proved that bash reads otherwise.
MISREAD = [
    "echo a == ; touch pwned ]",
    "cat <<E && cat <<F\nx\nE\ny\nF\nrm f\nE\n",
    "cat <<E\n E\necho '\nE\necho x > pwned\n#'\n",
]


@pytest.fixture
def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The classifier as it was: it believes the parser's tree alone."""
    monkeypatch.setattr(classifier, "compare_readings", lambda text, parsed: Agreement(""))


def test_no_line_proved_safe_has_an_effect_in_a_real_shell() -> None:
    outcome = fuzz_gate.fuzz(3_000, seed=20261115)
    assert outcome.effects == []
    assert outcome.safe > 250


@pytest.mark.usefixtures("trusting")
def test_the_fuzzer_sees_what_a_parser_alone_would_let_through() -> None:
    outcome = fuzz_gate.run_safe(["ls", *MISREAD, "pwd"])
    assert {line for line, _ in outcome.effects} == set(MISREAD)


@pytest.mark.usefixtures("trusting")
def test_the_lines_it_makes_hold_such_by_themselves() -> None:
    odd = [line for line in LineMaker(7).lines(12_000) if "<<" in line or "==" in line or "=~" in line]
    assert fuzz_gate.run_safe(odd).effects


def test_each_effect_is_told_of_the_line_that_had_it() -> None:
    lines = [
        "ls",
        "echo a > new",
        "true & wait",
        "touch x | cat",
        "echo >> f",
        "ls $(rm f)",
        "kill -STOP $BASHPID & true",
    ]
    with Cell() as cell:
        results = cell.run(lines)
    changed = [line for line, (effect, _) in zip(lines, results, strict=True) if effect]
    assert changed == ["echo a > new", "echo >> f"]
    assert results[0][1] == ["ls"]
    assert set(results[3][1]) == {"touch x", "cat"}
    assert set(results[5][1]) >= {"rm f"}


def test_a_program_that_the_verdict_does_not_name_is_an_effect() -> None:
    assert fuzz_gate.is_known("LC_ALL=C", ()) and fuzz_gate.is_known("for f in a b", ())
    assert fuzz_gate.is_known("/bin/ls -l", ("ls",)) and fuzz_gate.is_known("x=1", ())
    assert not fuzz_gate.is_known("rm f", ("ls",)) and not fuzz_gate.is_known("PATH=.", ("ls",))


def test_what_runs_after_a_line_that_writes_without_end_is_seen() -> None:
    with Cell() as cell:
        results = cell.run(["while read -r l <<< a; do echo $l; done", "touch x", "pwd"])
    flood, touched, last = [commands for _, commands in results]
    assert set(flood) <= {"read -r l", "echo a"} and (touched, last) == (["touch x"], ["pwd"])
