"""Marks, screens and captures: the same whatever way the bytes are cut, and never without bounds."""

from __future__ import annotations

import itertools
import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from aish.tools.bash.capture import OutputCapture, ScreenWatch
from aish.tools.bash.markers import Mark, MarkParser

NONCE = "00112233445566ff"
PARTS = (
    b"\x1b]133;C;aish=00112233445566ff\x07",
    b"\x1b]133;D;aish=00112233445566ff\x07",
    b"\x1b]133;P;aish=00112233445566ff\x07",
    b"\x1b]133;D;aish=0011223344556600\x07",
    b"\x1b]133;D\x07",
    b"\x1b[?1049h",
    b"\x1b[?1049l",
    b"\x1b[31m",
    b"\x1b]0;title\x07",
    b"\x1b",
    b"\r",
    b"\n",
    b"\r\n",
    b"text",
    b"\xc3\xa9",
    b" typed echo\r\n",
    b"\0",
    b"\x08",
)
streams = st.lists(st.sampled_from(PARTS) | st.binary(max_size=6), max_size=24).map(b"".join)
cuts = st.lists(st.integers(0, 200), max_size=12)


def cut_up(data: bytes, at: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(min(each, len(data)) for each in at)})
    return [data[start:end] for start, end in itertools.pairwise(edges)]


def parse(pieces: list[bytes]) -> tuple[bytes, list[tuple[int, Mark]]]:
    parser = MarkParser()
    parser.expect(NONCE, echo=b" typed echo\r\n")
    output, marks = b"", []
    for piece in pieces:
        for found in parser.feed(piece):
            if isinstance(found, Mark):
                marks.append((len(output), found))
            else:
                output += found
    return output + parser.flush(), marks


@given(data=streams, at=cuts)
def test_marks_are_found_wherever_the_bytes_are_cut(data: bytes, at: list[int]) -> None:
    assert parse(cut_up(data, at)) == parse([data])


@given(data=streams)
def test_no_mark_of_ours_and_nothing_but_marks_of_ours_is_taken_out(data: bytes) -> None:
    output, marks = parse([data])
    ours = sum(data.count(part) for part in PARTS[:3])
    assert len(marks) == ours
    removed = len(data) - len(output) - sum(len(PARTS[0]) for _ in marks)
    assert removed in (0, len(b" typed echo\r\n"))


def test_an_echo_is_left_out_once_only() -> None:
    assert parse([b" typed echo\r\n typed echo\r\n"]) == (b" typed echo\r\n", [])


@given(data=streams, at=cuts)
def test_a_capture_reads_the_same_wherever_the_bytes_are_cut(data: bytes, at: list[int]) -> None:
    whole, pieces = OutputCapture(), OutputCapture()
    whole.add(data)
    for piece in cut_up(data, at):
        pieces.add(piece)
    whole.finish()
    pieces.finish()
    assert whole.text("x", 0) == pieces.text("x", 0)
    assert whole.screen.restore_sequence() == pieces.screen.restore_sequence()
    assert "\x1b" not in whole.text("x", 0) or data.count(b"\x1b") > 0


@given(data=streams)
def test_what_a_screen_keeps_on_is_what_it_undoes(data: bytes) -> None:
    watch = ScreenWatch()
    watch.feed(data)
    watch.feed(watch.restore_sequence())
    assert not watch.in_full_screen and watch.restore_sequence() == b""


def test_a_capture_stays_small_whatever_comes() -> None:
    for piece in (
        b"x" * 4096,
        b"\rprogress 12%" * 300,
        b"\x1b[?25" * 500,
        b"\x1b]0;" + b"t" * 4000,
        b"ab\x08\x08" * 1000,
        b"\n" * 4096,
    ):
        tracemalloc.start()
        capture = OutputCapture()
        for _ in range(1000):
            capture.add(piece)
        capture.finish()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 8_000_000, piece[:20]
        assert len(capture.text("x", 0)) < 140_000


def test_output_before_and_after_the_full_screen_is_kept() -> None:
    capture = OutputCapture()
    capture.add(b"building\r\n\x1b[?1049hlots of drawing\x1b[?1049ldone\r\n")
    capture.finish()
    assert capture.text("make menu", 2) == "building\ndone\nran make menu, exit 2"
