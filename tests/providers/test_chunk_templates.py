"""What stands around the words of a chunk is learned from one, and never taken for more than it is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish.providers.openai.chunk_templates import ChunkTemplate
from aish.providers.openai.response import arguments_template, decode_chunk, text_template


def chunk(content: Any, *, spaced: bool = False, **more: Any) -> bytes:
    body = {"id": "c1", "choices": [{"index": 0, "delta": {"content": content}, "finish_reason": None}], **more}
    return json.dumps(body, separators=None if spaced else (",", ":")).encode()


def learned(data: bytes) -> ChunkTemplate:
    """From a chunk that was read in full, as an answer's reader does it."""
    frame = text_template()
    try:
        text = decode_chunk(data).plain_text()
    except ValueError:
        return frame
    if text:
        frame.learn(data, text)
    return frame


def read(frame: ChunkTemplate, data: bytes) -> str:
    return frame.text(data) if frame.text else ""


def call_chunk(arguments: Any, *, spaced: bool = False, **more: Any) -> bytes:
    call = {"index": 1, "function": {"arguments": arguments}, **more}
    body = {"id": "c1", "choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}]}
    return json.dumps(body, separators=None if spaced else (",", ":")).encode()


def test_a_frame_that_has_learned_nothing_reads_nothing() -> None:
    assert text_template().text is None
    assert text_template().event_text is None


@pytest.mark.parametrize("spaced", [False, True])
@given(text=st.text(min_size=1))
def test_every_text_in_the_frame_is_read_as_the_whole_chunk_is(*, spaced: bool, text: str) -> None:
    frame = learned(chunk("first", spaced=spaced))
    data = chunk(text, spaced=spaced)
    assert read(frame, data) == decode_chunk(data).plain_text() == text


def event(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


@given(text=st.text(min_size=1), other=st.text(min_size=1))
def test_an_event_that_comes_alone_is_read_without_finding_its_ends_and_several_are_not(text: str, other: str) -> None:
    frame = learned(chunk("first"))
    assert frame.event_text is not None
    assert frame.event_text(event(chunk(text))) == text
    assert frame.event_text(event(chunk(text)) + event(chunk(other))) == ""
    assert frame.event_text(event(chunk(text))[:-1]) == ""
    assert frame.event_text(chunk(text)) == ""


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
    assert read(learned(chunk("first")), data) == ""


def test_words_elsewhere_in_a_chunk_are_not_taken_for_the_answer() -> None:
    """The first place that looks right may be another's."""
    misleading = b'{"note":{"content":"x"},"choices":[{"delta":{"content":"first"}}]}'
    frame = learned(misleading)
    other = misleading.replace(b'"x"', b'"not the answer"')
    assert decode_chunk(other).plain_text() == "first"
    assert read(frame, other) == ""
    assert read(frame, misleading) == ""


def test_nothing_is_learned_from_the_very_words_that_are_tried() -> None:
    """They stand there whatever is put in the other place."""
    misleading = b'{"note":{"content":"x"},"choices":[{"delta":{"content":"other words"}}]}'
    assert read(learned(misleading), misleading) == ""


def test_of_two_contents_in_one_place_the_one_that_counts_is_read() -> None:
    doubled = b'{"choices":[{"delta":{"content":"lost","content":"kept"}}]}'
    frame = learned(doubled)
    other = doubled.replace(b'"lost"', b'"changed"')
    assert read(frame, other) in ("", decode_chunk(other).plain_text())


def test_a_backend_that_changes_its_frame_with_each_chunk_is_learned_a_few_times_only() -> None:
    frame = text_template()
    for number in range(20):
        frame.learn(chunk("word", created=number), "word")
    assert read(frame, chunk("other", created=19)) == ""
    assert read(frame, chunk("other", created=7)) == "other"


def test_a_backend_that_changes_its_frame_now_and_then_is_learned_each_time() -> None:
    """Some say in each chunk at which second it was made."""
    frame = text_template()
    for second in range(20):
        frame.learn(chunk("word", created=second), "word")
        assert read(frame, chunk("other", created=second)) == "other"


@given(st.binary(max_size=100), st.binary(max_size=100))
def test_bytes_of_any_kind_are_survived(before: bytes, after: bytes) -> None:
    frame = text_template()
    frame.learn(before + b'"content":"' + after, "word")
    assert read(frame, before + b'"content":"' + after) == ""


WORDS = st.sampled_from(["other words", "and on", 'a "content":"b"', "\\", "\u00e9\n", "}"]) | st.text(min_size=1)
BESIDES = st.dictionaries(
    st.sampled_from(["content", "note", 'a "content', "role"]),
    WORDS | st.fixed_dictionaries({"content": WORDS}),
    max_size=2,
)


def around(words: str, besides: list[dict[str, Any]], *, ascii: bool, spaced: bool) -> bytes:
    """A chunk of these words, with other things in every place that has room for them."""
    delta = {**besides[0], "content": words}
    body = {**besides[1], "choices": [{**besides[2], "delta": delta}], **besides[3]}
    return json.dumps(body, ensure_ascii=ascii, separators=None if spaced else (",", ":")).encode()


@given(
    words=st.lists(WORDS, min_size=2, max_size=2),
    besides=st.lists(BESIDES, min_size=4, max_size=4),
    changed=st.lists(BESIDES, min_size=4, max_size=4),
    ascii=st.booleans(),
    spaced=st.booleans(),
)
def test_whatever_is_learned_agrees_with_the_full_reading(
    *, words: list[str], besides: list[dict[str, Any]], changed: list[dict[str, Any]], ascii: bool, spaced: bool
) -> None:
    frame = learned(around(words[0], besides, ascii=ascii, spaced=spaced))
    for said in words:
        for more in (besides, changed):
            data = around(said, more, ascii=ascii, spaced=spaced)
            assert read(frame, data) in ("", decode_chunk(data).plain_text())


@pytest.mark.parametrize("spaced", [False, True])
@given(text=st.text(min_size=1))
def test_pieces_of_arguments_in_the_frame_are_read_as_the_whole_chunk_is(*, spaced: bool, text: str) -> None:
    frame = arguments_template()
    assert frame.learn(call_chunk("1", spaced=spaced), "1")
    data = call_chunk(text, spaced=spaced)
    assert read(frame, data) == decode_chunk(data).plain_arguments() == text


@pytest.mark.parametrize(
    "data",
    [
        call_chunk("x", id="call_2"),
        call_chunk("x", index=0),
        call_chunk("x", index="1"),
        call_chunk("x").replace(b'"arguments"', b'"name":"other","arguments"'),
        call_chunk({"an": "object"}),
        call_chunk(None),
        call_chunk("x").replace(b'"finish_reason":null', b'"finish_reason":"tool_calls"'),
        call_chunk("x").replace(b'"delta":{', b'"delta":{"content":"a word",'),
        call_chunk("x").replace(b"]}}", b',{"index":2}]}}') + b" ",
    ],
)
def test_a_piece_of_another_call_or_with_more_to_it_is_not_in_the_frame(data: bytes) -> None:
    frame = arguments_template()
    assert frame.learn(call_chunk("1"), "1")
    assert read(frame, data) == ""
