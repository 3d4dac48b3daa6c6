"""From results to figures, a table, a page and a comparison."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish.errors import UsageError
from aish.frontends.eval.page import page
from aish.frontends.eval.report import (
    GotCall,
    Report,
    Result,
    Share,
    compare_results,
    describe_changes,
    load_report,
    make_rows,
    result_lines,
)


def result(case: str = "c1", outcome: str = "right", **fields: Any) -> Result:
    given = {"suite": "s", "model": "m", "mode": "native", "digest": "d", "wants_call": True, **fields}
    return Result(case=case, outcome=outcome, **given)  # type: ignore[arg-type]


def report(*results: Result, **fields: Any) -> Report:
    given: dict[str, Any] = {"aish": "1", "python": "3", "platform": "x", "started": "then", "options": {}}
    return Report(**given, complete=True, results=results, **fields)


CALL = GotCall("add", "{}")


def test_errors_and_what_was_skipped_are_counted_apart_from_answers() -> None:
    (row,) = make_rows([result(), result("c2", "wrong"), result("c3", "error"), result("c4", "skipped")])
    assert (row.exact, row.errors) == (Share(1, 2), 1)


def test_each_share_is_of_what_it_is_about() -> None:
    (row,) = make_rows(
        [
            result(right_tool=True, calls=(CALL,)),
            result("c2", "wrong", calls=(GotCall("add", "{", "no JSON"),), right_tool=True),
            result("c3", "wrong"),
            result("c4", "right", wants_call=False, wants_none=True),
            result("c5", "wrong", wants_call=False, wants_none=True, calls=(CALL,)),
        ]
    )
    assert (row.tool, row.called, row.valid) == (Share(2, 3), Share(2, 3), Share(1, 2))
    assert row.refused == Share(1, 2)


def test_several_suites_have_a_row_each_and_one_over_all() -> None:
    made = make_rows([result(), result("c2", suite="t"), result("c3", suite="t", mode="auto")])
    assert [(row.suite, row.mode) for row in made] == [
        ("s", "native"), ("t", "native"), ("t", "auto"), ("all", "native"), ("all", "auto"),
    ]  # fmt: skip


def test_the_interval_is_wilsons() -> None:
    low, high = Share(8, 10).interval
    assert (round(low, 1), round(high, 1)) == (49.0, 94.3)
    assert Share(0, 20).interval[0] == 0.0 and 0 < Share(0, 20).interval[1] < 20


@given(st.integers(1, 500).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of))))
def test_an_interval_holds_its_share_and_stays_within_bounds(counts: tuple[int, int]) -> None:
    share = Share(*counts)
    low, high = share.interval
    assert -1e-9 <= low <= share.percent + 1e-9 and share.percent - 1e-9 <= high <= 100 + 1e-9


def test_the_table_has_a_line_for_each_row_and_a_dash_for_what_does_not_apply() -> None:
    lines = result_lines(make_rows([result(), result("c2", wants_call=False, wants_none=True, suite="none")]))
    assert len(lines) == 5
    assert "100.0 %" in lines[2] and " - " in lines[2]


def test_only_cases_in_both_runs_that_still_ask_the_same_are_compared() -> None:
    before = [result("a"), result("b"), result("c"), result("d", "wrong"), result("e", "error")]
    now = [result("a"), result("b", "wrong"), result("c", "wrong", digest="new"), result("d"), result("e"), result("f")]
    (change,) = compare_results(before, now)
    assert (change.compared, change.lost, change.won) == (3, ("b",), ("d",))


def test_a_loss_beyond_the_tolerance_is_worse_and_within_it_is_not() -> None:
    before = [result(f"c{at}") for at in range(10)]
    now = [result(f"c{at}", "wrong" if at == 0 else "right") for at in range(10)]
    (change,) = compare_results(before, now)
    assert change.is_worse(9.9) and not change.is_worse(10.0)
    assert list(describe_changes([change], 2)) == ["✗ s m native: 100.0 % → 90.0 % over 10 cases", "    now wrong: c0"]


def test_nothing_in_common_is_said() -> None:
    assert "nothing to compare" in next(describe_changes(compare_results([result()], [result(mode="auto")]), 2))


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"format": 1}'])
def test_a_file_that_is_no_report_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "x.json"
    file.write_text(text)
    with pytest.raises(UsageError, match="no report of aish eval"):
        load_report(file)


def test_a_report_of_another_format_and_a_missing_one_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_bytes(msgspec.json.encode(report(result(), format=99)))
    with pytest.raises(UsageError, match="another version"):
        load_report(file)
    with pytest.raises(UsageError, match="cannot read the baseline"):
        load_report(tmp_path / "none.json")


class Reader(HTMLParser):
    """Collects what a browser would see."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text.append(data)


HOSTILE = '</pre><script>alert(1)</script><img src=x onerror="alert(2)">\x1b[31m\u202e&amp;'


def read(markup: str) -> Reader:
    reader = Reader()
    reader.feed(markup)
    return reader


def test_hostile_text_stays_text_on_the_page() -> None:
    bad = result(
        HOSTILE, "wrong", suite=HOSTILE, model=HOSTILE, calls=(GotCall(HOSTILE, HOSTILE),), reason=HOSTILE,
        question=HOSTILE, expected=HOSTILE,
    )  # fmt: skip
    seen = read(page(report(bad), report(result(HOSTILE, suite=HOSTILE, model=HOSTILE))))
    assert seen.tags.isdisjoint({"script", "img", "iframe", "link", "object"})
    assert [name for name, _ in seen.attributes if name.startswith("on") or name in ("src", "href")] == []
    text = "".join(seen.text)
    assert "<script>alert(1)</script>" in text
    assert "\x1b" not in text and "\u202e" not in text


@given(st.text(), st.text())
def test_no_text_of_a_model_makes_a_tag(said: str, reason: str) -> None:
    plain = read(page(report(result("c", "wrong", text="said", reason="why"))))
    seen = read(page(report(result("c", "wrong", text=said, reason=reason))))
    assert seen.tags == plain.tags and len(seen.attributes) == len(plain.attributes)


def test_the_page_needs_nothing_from_elsewhere_and_shows_the_figures() -> None:
    markup = page(report(result(), result("c2", "wrong", reason="a is 2, not 1")))
    assert not re.search(r"https?://|@import|url\(", markup)
    assert "<svg" in markup and "50.0 %" in markup and "a is 2, not 1" in markup
    assert "prefers-color-scheme: dark" in markup


def test_a_long_list_of_failures_is_cut_and_says_so() -> None:
    markup = page(report(*(result(f"c{at}", "wrong") for at in range(600))))
    assert "Not right: 600, the first 500" in markup and "c499<" in markup and "c500<" not in markup
