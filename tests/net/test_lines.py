"""Lines and server-sent events come out the same however the bytes are cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish.errors import TooLarge
from aish.net.lines import LineReader, SseEvent, SseReader


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in pairwise(edges)]


def lines_of(pieces: list[bytes], bound: int = 1000) -> list[bytes] | str:
    reader = LineReader(bound)
    try:
        return [line for piece in pieces for line in reader.feed(piece)] + reader.finish()
    except TooLarge:
        return "too large"


def events_of(pieces: list[bytes], bound: int = 1000) -> list[SseEvent] | str:
    reader = SseReader(bound)
    try:
        return [event for piece in pieces for event in reader.feed(piece)] + reader.finish()
    except TooLarge:
        return "too large"


def bytewise(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"a", [b"a"]),
        (b"a\n", [b"a"]),
        (b"a\r\n", [b"a"]),
        (b"a\nb\r\nc", [b"a", b"b", b"c"]),
        (b"\n\n", [b"", b""]),
        (b"\r\n", [b""]),
        (b"a\rb\n", [b"a\rb"]),
        (b"a\r\r\n", [b"a\r"]),
        (b"a\r", [b"a"]),
        ("ü\n€".encode(), ["ü".encode(), "€".encode()]),
    ],
)
def test_lines_lose_their_ends(data: bytes, lines: list[bytes]) -> None:
    assert lines_of([data]) == lines
    assert lines_of(bytewise(data)) == lines


def test_a_line_comes_as_soon_as_it_ends() -> None:
    reader = LineReader(100)
    assert reader.feed(b'{"a"') == []
    assert reader.feed(b':1}\n{"b"') == [b'{"a":1}']
    assert reader.feed(b":2}\n") == [b'{"b":2}']
    assert reader.finish() == []


TEXT = st.text(alphabet="ab\r\n: é€", max_size=60).map(str.encode)
BYTES = st.one_of(st.binary(max_size=60), TEXT)
PLACES = st.lists(st.integers(0, 1000), max_size=12)


@given(data=BYTES, places=PLACES, bound=st.integers(0, 12))
def test_any_cut_of_a_stream_gives_the_same_lines(data: bytes, places: list[int], bound: int) -> None:
    assert lines_of(cut(data, places)) == lines_of([data]) == lines_of(bytewise(data))
    assert lines_of(cut(data, places), bound) == lines_of([data], bound) == lines_of(bytewise(data), bound)


@given(data=BYTES)
def test_lines_joined_are_the_stream(data: bytes) -> None:
    expected = data.split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert lines_of([data]) == [line.removesuffix(b"\r") for line in expected]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_a_line_may_be_as_long_as_the_bound_and_no_longer(end: bytes) -> None:
    for pieces in ([b"12345" + end], bytewise(b"12345" + end)):
        assert lines_of(pieces, 5) == [b"12345"]
    for pieces in ([b"123456" + end], bytewise(b"123456" + end)):
        assert lines_of(pieces, 5) == "too large"


def test_an_endless_line_is_refused_before_it_is_held() -> None:
    reader = LineReader(1000)
    with pytest.raises(TooLarge, match="longer than 1000 bytes"):
        for _ in range(1001):
            reader.feed(b"x")
    assert reader.feed(b"next\n") == [b"next"]


def test_a_huge_line_in_small_pieces_is_put_together_once() -> None:
    reader = LineReader(8_000_000)
    for _ in range(1_000_000):
        assert reader.feed(b"1234567") == []
    assert reader.feed(b"\n") == [b"1234567" * 1_000_000]


def message(data: bytes, **more: object) -> SseEvent:
    return SseEvent("message", data, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("data", "events"),
    [
        (b"", []),
        (b"\n\n\n", []),
        (b"data: a\n\n", [message(b"a")]),
        (b"data:a\n\n", [message(b"a")]),
        (b"data:  a\n\n", [message(b" a")]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [message(b"a"), message(b"b")]),
        (b"data: a\r\rdata: b\r\r", [message(b"a"), message(b"b")]),
        (b"data: a\r\n\ndata: b\n\r\n", [message(b"a"), message(b"b")]),
        (b"data: a\n\n\n\n\ndata: b\n\n", [message(b"a"), message(b"b")]),
        (b"\xef\xbb\xbfdata: a\n\n", [message(b"a")]),
        (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", [message(b"a")]),
        (b": hello\n\ndata: a\n\n", [message(b"a")]),
        (b": hello\ndata: a\n: there\n\n", [message(b"a")]),
        (b"data: a\ndata: b\ndata:\ndata: c\n\n", [message(b"a\nb\n\nc")]),
        (b"data\n\n", [message(b"")]),
        (b"data:\n\n", [message(b"")]),
        (b"event: ping\n\n", []),
        (b"event: ping\ndata: a\n\ndata: b\n\n", [SseEvent("ping", b"a"), message(b"b")]),
        (b"id: 7\ndata: a\n\ndata: b\n\n", [message(b"a", id="7"), message(b"b", id="7")]),
        (b"id: 7\n\ndata: b\n\n", [message(b"b", id="7")]),
        (b"id: 7\0\ndata: b\n\n", [message(b"b")]),
        (b"retry: 250\ndata: a\n\n", [message(b"a", retry=250)]),
        (b"retry: soon\ndata: a\n\n", [message(b"a")]),
        (b"retry: " + b"9" * 900 + b"\ndata: a\n\n", [message(b"a")]),
        (b"what: ever\nnonsense\ndata: a\n\n", [message(b"a")]),
        (b"datax: a\n\n", []),
        ("data: ü€\n\n".encode(), [message("ü€".encode())]),
        (b"data: a", [message(b"a")]),
        (b"data: a\n", [message(b"a")]),
        (b"data: a\r", [message(b"a")]),
        (b"data: a\n\n: bye", [message(b"a")]),
        (b"data: [DONE]\n\n", [message(b"[DONE]")]),
    ],
)
def test_events_are_read_as_the_standard_says(data: bytes, events: list[SseEvent]) -> None:
    assert events_of([data]) == events
    assert events_of(bytewise(data)) == events


def test_an_event_comes_as_soon_as_it_ends() -> None:
    reader = SseReader(1000)
    assert reader.feed(b"data: a\n") == []
    assert reader.feed(b"\nda") == [message(b"a")]
    assert reader.feed(b"ta: b\r\n\r") == [message(b"b")]
    assert reader.feed(b"\ndata: c\n\n") == [message(b"c")]
    assert reader.feed(b"") == []
    assert reader.finish() == []


FIELDS = st.sampled_from(
    [b"data: x", b"data:y", b"data", b"event: e", b"id: 1", b"id", b"retry: 5", b": c", b"z", b"", "data: €".encode()]
)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r", b"\n\n", b"\r\n\r\n"])
STREAM = st.lists(st.tuples(FIELDS, ENDS).map(b"".join), max_size=20).map(b"".join)


@given(data=st.one_of(STREAM, BYTES), bom=st.booleans(), places=PLACES, bound=st.integers(0, 30))
def test_any_cut_of_a_stream_gives_the_same_events(data: bytes, bom: bool, places: list[int], bound: int) -> None:  # noqa: FBT001
    data = b"\xef\xbb\xbf" * bom + data
    assert events_of(cut(data, places)) == events_of([data]) == events_of(bytewise(data))
    assert events_of(cut(data, places), bound) == events_of([data], bound) == events_of(bytewise(data), bound)


def data_of(pieces: list[bytes], bound: int = 1000) -> list[bytes] | str:
    reader = SseReader(bound)
    try:
        told = [data for piece in pieces for data in reader.feed_data(piece)]
        return told + [event.data for event in reader.finish()]
    except TooLarge:
        return "too large"


PLAIN = st.lists(st.sampled_from([b"data: a\n\n", b"data: [DONE]\n\n", b"data: b\r\n\r\n", b": c\n\n", b"data: "]))


@given(data=st.one_of(PLAIN.map(b"".join), STREAM, BYTES), places=PLACES, bound=st.integers(0, 30))
def test_what_events_hold_is_the_same_without_the_events(data: bytes, places: list[int], bound: int) -> None:
    for pieces in ([data], cut(data, places), bytewise(data)):
        for most in (1000, bound):
            events = events_of(pieces, most)
            assert data_of(pieces, most) == (events if isinstance(events, str) else [event.data for event in events])


@given(data=STREAM)
def test_the_reader_agrees_with_a_plain_reading_of_the_standard(data: bytes) -> None:
    assert events_of([data]) == plainly(data)


def plainly(data: bytes) -> list[SseEvent]:
    """Line by line as WHATWG HTML 9.2.6 tells it, plus an event that the stream did not end."""
    events: list[SseEvent] = []
    name, last_id, retry = "", "", None
    held: list[bytes] = []
    for line in [*data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n"), b""]:
        if not line:
            if held:
                events.append(SseEvent(name or "message", b"\n".join(held), last_id, retry))
            name, retry, held = "", None, []
            continue
        field, _, value = line.partition(b":")
        value = value[1:] if value.startswith(b" ") else value
        if field == b"data":
            held.append(value)
        elif field == b"event":
            name = value.decode()
        elif field == b"id":
            last_id = value.decode()
        elif field == b"retry" and value.isdigit():
            retry = int(value)
    return events


def test_an_endless_event_is_refused_and_nothing_of_it_kept() -> None:
    for piece in (b"x", b"data: x\n", b":\n"):
        reader = SseReader(1000)
        with pytest.raises(TooLarge, match="larger than 1000 bytes"):
            for _ in range(1001):
                reader.feed(piece)
        assert reader.feed(b"data: a\n\n") == [message(b"a")]


def test_a_huge_event_in_small_pieces_is_put_together_once() -> None:
    reader = SseReader(8_000_000)
    reader.feed(b"data: ")
    for _ in range(500_000):
        assert reader.feed(b"1234567") == []
    assert reader.feed(b"\n\n") == [message(b"1234567" * 500_000)]
