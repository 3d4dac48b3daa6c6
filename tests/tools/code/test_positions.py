"""Columns in three encodings: there and back again, for any text; what does not fit is an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish.errors import BadResponse
from aish.tools.code.files.source import split_lines
from aish.tools.code.lsp.results import ENCODINGS, Position, Range, TextMap, column_of, units_before

LINE = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\r\n"), max_size=60)
TEXT = st.text(
    st.one_of(st.sampled_from("\r\na😀é\u2028\x0b"), st.characters(blacklist_categories=["Cs"])), max_size=200
)


@given(LINE, st.data(), st.sampled_from(ENCODINGS))
def test_a_column_survives_the_way_to_a_server_and_back(line, data, encoding):
    column = data.draw(st.integers(0, len(line)))
    assert column_of(line, units_before(line, column, encoding), encoding) == column


@given(TEXT, st.data(), st.sampled_from(ENCODINGS))
def test_every_offset_of_a_text_has_a_position_that_leads_back(text, data, encoding):
    lines = split_lines(text)
    assert "".join(lines) == text
    mapped = TextMap(lines, encoding)
    line = data.draw(st.integers(0, max(0, len(lines) - 1)))
    plain = lines[line].rstrip("\r\n") if lines else ""
    column = data.draw(st.integers(0, len(plain)))
    expected = sum(map(len, lines[:line])) + column
    assert mapped.offset(mapped.position(line, column)) == expected


@pytest.mark.parametrize(("encoding", "units"), [("utf-8", 6), ("utf-16", 4), ("utf-32", 3)])
def test_the_column_after_an_emoji_differs_by_encoding(encoding, units):
    assert units_before("😀 x", 2, "utf-32") == 2
    assert units_before("a😀x", 2, encoding) == units - 1


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_the_middle_of_a_character_is_no_column(encoding):
    with pytest.raises(BadResponse):
        column_of("😀", 1, encoding)


@given(LINE, st.integers(1, 100), st.sampled_from(ENCODINGS))
def test_past_the_end_of_a_line_there_is_no_column(line, more, encoding):
    with pytest.raises(BadResponse):
        column_of(line, units_before(line, len(line), encoding) + more, encoding)


def test_a_line_ends_at_three_places_and_no_other():
    assert split_lines("a\rb\r\nc\nd\u2028e\x0bf\x85g") == ["a\r", "b\r\n", "c\n", "d\u2028e\x0bf\x85g"]


def test_a_range_that_ends_before_it_begins_is_an_error():
    mapped = TextMap(["abc\n"], "utf-16")
    with pytest.raises(BadResponse):
        mapped.span(Range(Position(0, 2), Position(0, 1)))


def test_a_place_inside_the_end_of_a_line_is_before_it():
    mapped = TextMap(["ab\r\n", "c\n", "d"], "utf-16")
    assert [mapped.offset(Position(0, column)) for column in (2, 3, 4)] == [2, 2, 2]
    assert mapped.offset(Position(1, 2)) == 5
    for wrong in (Position(0, 5), Position(1, 3), Position(2, 2)):
        with pytest.raises(BadResponse):
            mapped.offset(wrong)


def test_the_end_of_a_whole_text_is_the_line_after_the_last():
    assert TextMap(["abc\n"], "utf-16").offset(Position(1, 0)) == 4
    assert TextMap([], "utf-16").offset(Position(0, 0)) == 0
    with pytest.raises(BadResponse):
        TextMap(["abc\n"], "utf-16").offset(Position(2, 0))
