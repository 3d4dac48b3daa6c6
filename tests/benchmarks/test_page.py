"""The page of the benchmarks: made between its markers, its charts well-formed, nobody's lead left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from bench import page
from bench.rows import Bar, Row, row

FACTS = {
    "date": "2026-01-01 00:00 UTC", "commit": "abc", "cpu": "a CPU", "cores": 2, "memory_gb": 8, "system": "Linux 6",
    "python": "3.11.7", "node": "v20", "load": 0.5, "aish": "0.1.0", "peers": {"llm": "0.36"},
}  # fmt: skip


def results(*rows: Row, part: str = "startup", failed: str = "") -> dict[str, Any]:
    told = {"rows": [each.to_json() for each in rows], "failed": failed, "missed": [], "load": 0.5, "date": "now"}
    return {"machine": FACTS, "quick": False, "parts": {part: told}}


@pytest.fixture(autouse=True)
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A page of its own: the real one is not touched."""
    file = tmp_path / "benchmarks.md"
    file.write_text(f"# Ours\n\nbefore\n\n{page.BEGIN}\nold\n{page.END}\n\nafter\n")
    reasons = tmp_path / "reasons.toml"
    reasons.write_text('[startup."first prompt"]\ncodex = "it is compiled"\n')
    for name, value in {"PAGE": file, "CHARTS": tmp_path / "bench", "REASONS": reasons}.items():
        monkeypatch.setattr(page, name, value)
    return file


def test_only_what_stands_between_the_markers_is_made_anew(written: Path) -> None:
    page.write(results(row("startup", "--version", "ms", 30.0, peers={"llm": 900.0})))
    text = written.read_text()
    assert text.startswith("# Ours\n\nbefore\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    assert "| --version, ms | **30** | 900 (30×) |" in text


def test_writing_it_twice_changes_nothing(written: Path) -> None:
    found = results(row("startup", "--version", "ms", 30.0, peers={"llm": 900.0}))
    page.write(found)
    once = written.read_text()
    page.write(found)
    assert written.read_text() == once


def test_a_page_without_its_markers_is_left_alone(written: Path) -> None:
    written.write_text("# Ours\n")
    with pytest.raises(page.PageError, match="markers"):
        page.write(results())
    assert written.read_text() == "# Ours\n"


def test_a_row_that_is_behind_says_by_how_much_and_why(written: Path) -> None:
    page.write(results(row("startup", "first prompt", "ms", 300.0, peers={"codex": 150.0})))
    assert "- Behind codex: first prompt (2 times). It is compiled." in written.read_text()


def test_a_lead_of_others_without_a_reason_is_not_kept_quiet(written: Path) -> None:
    page.write(results(row("startup", "--version", "ms", 300.0, peers={"codex": 150.0})))
    assert "- Behind codex: --version (2 times). Why is not known yet." in written.read_text()


def test_missed_bars_missing_peers_and_failed_parts_are_told(written: Path) -> None:
    missed = row("startup", "--version", "ms", 9.0, bar=Bar(most=5), notes={"aider": "it cannot be installed"})
    page.write(results(missed, failed="it was not through"))
    text = written.read_text()
    assert "- Missed: --version, 9 ms (≤ 5)." in text
    assert "- No figure for aider: it cannot be installed" in text
    assert "did not come to its end: it was not through" in text


def test_charts_are_well_formed_whatever_names_hold(written: Path) -> None:
    page.write(results(row("startup", "<a> & 'b'", "ms", 3.0, peers={"<&>": 0.002, "x": 40_000.0})))
    drawn = ElementTree.parse(page.CHARTS / "startup.svg")
    assert len(drawn.findall(".//{http://www.w3.org/2000/svg}circle")) == 4  # two in the legend, two in the row


def test_growth_is_drawn_as_lines_and_told_with_its_sizes(written: Path) -> None:
    curve = {"10": 5.0, "100": 50.0, "1000": 500.0}
    page.write(results(row("growth", "turns", "exponent", 1.0, limits=curve, bar=Bar(most=1.15)), part="growth"))
    assert "| turns | 10 / 100 / 1,000 | 5 / 50 / 500 | **1** | ≤ 1.15 held |" in written.read_text()
    drawn = ElementTree.parse(page.CHARTS / "growth.svg")
    assert len(drawn.findall(".//{http://www.w3.org/2000/svg}polyline")) == 2  # the curve, and what linear would be


def test_the_table_for_the_terminal_names_everybody() -> None:
    text = page.text_table(results(row("startup", "--version", "ms", 30.0, peers={"llm": 900.0}, notes={"x": "why"})))
    assert "llm 900 (30×)" in text
    assert "No figure for x: why" in text
