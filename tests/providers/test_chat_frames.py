"""What stands around the words of a chunk is learned from one, and never taken for more than it is."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish.providers.chat_frames import Frame
from aish.providers.chat_wire import decode_chunk


def chunk(content: Any, *, spaced: bool = False, **more: Any) -> bytes:
    body = {"id": "c1", "choices": [{"index": 0, "delta": {"content": content}, "finish_reason": None}], **more}
    return json.dumps(body, separators=None if spaced else (",", ":")).encode()


def learned(data: bytes) -> Frame:
    frame = Frame()
    frame.learn(data)
    return frame


def test_a_frame_that_has_learned_nothing_reads_nothing() -> None:
    assert Frame().text(chunk("word")) == ""


@pytest.mark.parametrize("spaced", [False, True])
@given(text=st.text(min_size=1))
def test_every_text_in_the_frame_is_read_as_the_whole_chunk_is(*, spaced: bool, text: str) -> None:
    frame = learned(chunk("first", spaced=spaced))
    data = chunk(text, spaced=spaced)
    assert frame.text(data) == decode_chunk(data).plain_text() == text


@pytest.mark.parametrize(
    "data",
    [
        chunk(None),
        chunk(""),
        chunk(["a", "list"]),
        chunk("word", usage={"prompt_tokens": 1}),
        chunk("word", error={"message": "broken"}),
        chunk("word").replace(b'"finish_reason":null', b'"finish_reason":"stop"'),
        chunk("word").replace(b'"content":"word"', b'"content":"word","tool_calls":[{"index":0}]'),
        chunk("word").replace(b'"content":"word"', b'"content":"one","content":"two"'),
        chunk("word")[:-1],
        chunk("word").replace(b'"word"', b'"wo\nrd"'),
        chunk("word").replace(b'"word"', b'"wo\xffrd"'),
        b"",
        b"[DONE]",
    ],
)
def test_what_is_more_or_less_than_a_text_is_left_to_be_read_in_full(data: bytes) -> None:
    assert learned(chunk("first")).text(data) == ""


def test_words_elsewhere_in_a_chunk_are_not_taken_for_the_answer() -> None:
    """The first place that looks right may be another's."""
    misleading = b'{"note":{"content":"x"},"choices":[{"delta":{"content":"first"}}]}'
    frame = learned(misleading)
    other = misleading.replace(b'"x"', b'"not the answer"')
    assert decode_chunk(other).plain_text() == "first"
    assert frame.text(other) == ""
    assert frame.text(misleading) == ""


def test_of_two_contents_in_one_place_the_one_that_counts_is_read() -> None:
    doubled = b'{"choices":[{"delta":{"content":"lost","content":"kept"}}]}'
    frame = learned(doubled)
    other = doubled.replace(b'"lost"', b'"changed"')
    assert frame.text(other) in ("", decode_chunk(other).plain_text())


def test_a_backend_that_changes_its_frame_is_learned_anew_a_few_times_only() -> None:
    frame = Frame()
    for number in range(20):
        frame.learn(chunk("word", created=number))
    assert frame.text(chunk("other", created=7)) == "other"
    assert frame.text(chunk("other", created=19)) == ""


@given(st.binary(max_size=200))
def test_bytes_of_any_kind_are_survived(data: bytes) -> None:
    frame = learned(data)
    for probe in (data, data + data, chunk("word")):
        read = frame.text(probe)
        if read:
            assert decode_chunk(probe).plain_text() == read


@given(st.text(min_size=1), st.dictionaries(st.text(), st.text(), max_size=3))
def test_whatever_is_learned_agrees_with_the_full_reading(text: str, more: dict[str, str]) -> None:
    first = chunk(text, **{f"x_{name}": value for name, value in more.items()})
    second = first.replace(msgspec.json.encode(text), b'"and on"', 1)
    read = learned(first).text(second)
    assert not read or read == decode_chunk(second).plain_text()
