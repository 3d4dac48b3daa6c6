"""The one entry of the benchmarks: a part that fails or hangs takes no other with it; peers are pinned exactly."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path

import pytest
from bench import __main__ as entry
from bench import page, peers, perf_check
from bench.effort import Effort
from bench.parts import PARTS, peers_of

from support.eventually import eventually

ROOT = Path(__file__).parents[2]


def test_every_part_has_a_module() -> None:
    assert {name for name in PARTS if not (ROOT / "bench" / "parts" / f"{name}.py").exists()} == set()


def test_every_peer_is_pinned_to_one_version() -> None:
    exact = re.compile(r"[^=@\s]+==[\w.]+|@?[\w./-]+@[\w.-]+|[\w\[\]-]+==[\w.]+")
    for peer in peers.pinned().values():
        assert peer.wanted
        assert [word for word in peer.wanted if not exact.fullmatch(word)] == []


def test_reasons_are_given_for_parts_that_exist() -> None:
    assert set(tomllib.loads(page.REASONS.read_text("utf-8"))) <= set(PARTS)


def test_the_real_page_has_its_markers() -> None:
    text = page.PAGE.read_text("utf-8")
    assert text.count(page.BEGIN) == text.count(page.END) == 1


def test_a_part_that_fails_gives_its_last_words() -> None:
    told = entry._ended([sys.executable, "-c", "raise ValueError('the peer is ill')"], 30)
    assert told == "ValueError: the peer is ill"


def test_a_part_that_hangs_is_ended() -> None:
    assert "not through" in entry._ended([sys.executable, "-c", "import time; time.sleep(600)"], 1.0)


def test_rows_before_a_failure_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.parts import safety
    from bench.rows import Row, row

    def rows(effort: Effort) -> object:
        yield row("safety", "first", "ms", 1.0)
        raise ValueError("then it broke")

    monkeypatch.setattr(safety, "rows", rows)
    file = tmp_path / "rows.json"
    with pytest.raises(ValueError, match="then it broke"):
        entry._measure("safety", Effort(), file)
    assert [Row.of_json(each).what for each in json.loads(file.read_text())] == ["first"]


def test_a_peer_that_cannot_be_had_is_told_and_no_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pins = tmp_path / "peers.toml"
    pins.write_text('[ghost]\npypi = ["no-such-thing-of-ours==0"]\n')
    monkeypatch.setattr(peers, "PINS", pins)
    monkeypatch.setattr(peers, "CACHE", tmp_path / "peers")
    monkeypatch.setattr(peers, "_run", _refused)
    with pytest.raises(peers.PeerMissing, match="no network"):
        peers.installed("ghost")
    assert not (tmp_path / "peers" / "ghost.txt").exists()  # it is tried again next time


def _refused(*words: str) -> None:
    raise peers.PeerMissing("no network")


async def test_a_part_that_does_not_heed_its_end_is_killed_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry, "END_S", 0.5)
    code = (
        "import os, signal, subprocess, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "child = subprocess.Popen(['sleep', '600'], start_new_session=True, stderr=subprocess.DEVNULL); "
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid)); time.sleep(600)"
    )
    assert "not through" in entry._ended([sys.executable, "-c", code], 2.0)
    pid = int((tmp_path / "pid").read_text())
    await eventually(lambda: not Path(f"/proc/{pid}").exists() or "(sleep) Z" in Path(f"/proc/{pid}/stat").read_text())


# perf-check.


def test_what_is_dearer_by_more_than_the_bar_is_named() -> None:
    lines, dearer = perf_check.compared(
        {"chat": 1.16, "store": 1.14, "safety": 0.5}, dict.fromkeys(("chat", "store", "safety"), 1.0)
    )
    assert dearer == ["chat"]
    assert "+16.0%" in lines[1]


def test_work_that_the_baseline_does_not_know_is_new_and_not_dearer() -> None:
    lines, dearer = perf_check.compared({"chat": 9.0}, {})
    assert (dearer, "new" in lines[1]) == ([], True)


def test_the_baseline_knows_everything_that_is_counted() -> None:
    known = json.loads(perf_check.BASELINE.read_text())
    assert set(known) == {
        "safety", "recogniser", "session", "store", "mcp", "chat", "stream", "words", "toolround", *perf_check.STARTS
    }  # fmt: skip


def test_counts_are_read_from_dumps_by_their_names(tmp_path: Path) -> None:
    (tmp_path / "counts.7.1").write_text("desc: Trigger: Client Request: chat\nsummary: 3\n\nfn=x\ntotals: 120\n")
    (tmp_path / "counts.7").write_text("desc: Trigger: Program termination\nsummary: 9\ntotals: 10\n")
    assert perf_check.collected(tmp_path) == {"chat": 120}
    assert list(tmp_path.glob("counts.*")) == []


def test_a_peer_that_was_found_missing_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(peers.MISSING, json.dumps({"llm": "the index does not answer"}))
    with pytest.raises(peers.PeerMissing, match="the index does not answer"):
        peers.installed("llm")


def test_every_peer_belongs_to_a_part_and_every_part_s_peer_is_pinned() -> None:
    used = {peer for part in PARTS for peer in peers_of(part, Effort())}
    assert used == set(peers.pinned())
