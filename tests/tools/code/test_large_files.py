"""`ide__read_file` on files that are too large to be read whole: some of their lines, in bounded memory."""

from __future__ import annotations

import asyncio
import threading
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish.errors import ToolError
from aish.tools.code.files.source import MAX_SOURCE_BYTES, split_lines
from aish.tools.code.read_tools import Bounds, read_part
from aish.tools.workspace import Workspace
from support.ide_tools import field

LINES = 100_000
WIDTH = 60


@pytest.fixture
def log(root):
    """Of six megabytes."""
    path = root / "app.log"
    path.write_text("".join(f"{f'line {number}':{WIDTH}}\n" for number in range(1, LINES + 1)))
    assert path.stat().st_size > MAX_SOURCE_BYTES
    return path


def shown(result):
    return [line.rstrip() for line in result.split("\n") if "\t" in line]


async def test_lines_are_read_by_their_numbers_and_the_total_is_told(tools, log):
    result = await tools("read_file", path="app.log", start_line=70_001, end_line=70_003)
    assert shown(result) == [f"{number}\tline {number}" for number in (70_001, 70_002, 70_003)]
    assert field(result, "lines") == "70001-70003"
    assert (field(result, "total"), field(result, "truncated")) == (str(LINES), "false")


async def test_the_whole_is_refused_with_how_to_ask_for_lines(tools, log):
    with pytest.raises(ToolError, match=r"6100000 bytes, more than .*; give start_line and end_line to read some"):
        await tools("read_file", path="app.log")


async def test_lines_up_to_one_begin_with_the_first(tools, log):
    assert shown(await tools("read_file", path="app.log", end_line=2)) == ["1\tline 1", "2\tline 2"]


async def test_from_a_line_on_it_comes_in_pieces_that_join(tools, log):
    at, numbers = LINES - 900, []
    while True:
        result = await tools("read_file", path="app.log", start_line=at)
        numbers += [int(line.partition("\t")[0]) for line in shown(result)]
        assert len(result) < 16_000
        if field(result, "truncated") == "false":
            break
        at = int(field(result, "next_line"))
    assert numbers == list(range(LINES - 900, LINES + 1))


async def test_a_line_that_is_not_there_says_what_there_is(tools, log):
    with pytest.raises(ToolError, match=f"has lines 1 to {LINES}, not {LINES + 1} to {LINES + 5}"):
        await tools("read_file", path="app.log", start_line=LINES + 1, end_line=LINES + 5)
    with pytest.raises(ToolError, match="there are no lines 9 to 8"):
        await tools("read_file", path="app.log", start_line=9, end_line=8)


async def test_it_has_no_revision_and_is_not_edited(tools, log):
    result = await tools("read_file", path="app.log", start_line=1, end_line=1)
    assert "revision=" not in result and "there is no revision" in result
    with pytest.raises(ToolError, match="more than the 4194304"):
        edit = {"path": "app.log", "revision": "0" * 16, "start_line": 1, "end_line": 1, "new": "x\n"}
        await tools("edit", edits=[edit])


async def test_a_line_without_an_end_is_shown_by_its_beginning(tools, root):
    (root / "one.json").write_bytes(b"[" + b"1," * 3_000_000 + b"1]\nlast\n")
    result = await tools("read_file", path="one.json", start_line=1, end_line=2)
    assert "1,1… (more than 800000 characters)" in result and len(result) < 1500
    assert (field(result, "lines"), field(result, "next_line"), field(result, "total")) == ("1-1", "2", "2")
    assert shown(await tools("read_file", path="one.json", start_line=2)) == ["2\tlast"]


async def test_what_is_binary_or_not_utf8_is_told(tools, root):
    (root / "a.bin").write_bytes(b"\x7fELF\0" * 1_000_000)
    result = await tools("read_file", path="a.bin", start_line=1, end_line=2)
    assert field(result, "status") == "unsupported" and "binary file of 5000000 bytes" in result
    (root / "latin.log").write_bytes(b"caf\xe9\n" * 1_000_000)
    result = await tools("read_file", path="latin.log", start_line=5, end_line=5)
    assert field(result, "status") == "partial" and shown(result) == ["5\tcaf\ufffd"]


async def test_a_link_out_of_the_workspace_is_not_followed_for_lines_either(tools, root, tmp_path):
    (tmp_path / "outside.log").write_text("secret\n" * 1_000_000)
    (root / "link.log").symlink_to(tmp_path / "outside.log")
    with pytest.raises(ToolError, match="outside"):
        await tools("read_file", path="link.log", start_line=1, end_line=1)


async def test_whoever_no_longer_waits_ends_the_reading(tools, root, monkeypatch):
    begun, ended, told = threading.Event(), threading.Event(), []

    def endless(space, path, start, end, stop):
        begun.set()
        told.append(stop.wait(10))
        ended.set()

    (root / "a.log").write_bytes(b"x\n" * MAX_SOURCE_BYTES)
    monkeypatch.setattr("aish.tools.code.read_tools.read_part", endless)
    reading = asyncio.create_task(tools("read_file", path="a.log", start_line=1))
    assert await asyncio.to_thread(begun.wait, 10)
    reading.cancel()
    await asyncio.wait({reading})
    assert await asyncio.to_thread(ended.wait, 10)
    assert told == [True]


@pytest.fixture
def space(root):
    made = Workspace(root)
    yield made
    made.close()


def test_memory_does_not_grow_with_the_file(space, root):
    with (root / "a.log").open("wb") as file:
        for _ in range(64):
            file.write(b"a line of text\n" * 70_000)
    tracemalloc.start()
    part = read_part(space, "a.log", 4_000_000, None, threading.Event())
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert part.total == 64 * 70_000
    assert peak_bytes < 16 * 1024 * 1024


def test_what_is_too_far_on_is_not_looked_for_and_the_total_is_the_least_it_can_be(space, root):
    (root / "a.log").write_bytes(b"line\n" * 100)
    bounds = Bounds(block_bytes=10, scanned_bytes=250)
    part = read_part(space, "a.log", 49, 50, threading.Event(), bounds)
    assert (part.text, part.total, part.counted) == ("line\nline\n", 50, False)
    with pytest.raises(ToolError, match=r"line 51 of a\.log is too far on: its first 50 lines"):
        read_part(space, "a.log", 51, None, threading.Event(), bounds)


async def test_a_total_that_was_not_counted_is_marked(tools, log, monkeypatch):
    few = Bounds(scanned_bytes=610_000)
    monkeypatch.setattr("aish.tools.code.read_tools.read_part", lambda *given: read_part(*given, few))
    result = await tools("read_file", path="app.log", start_line=9_999)
    assert (field(result, "total"), field(result, "truncated")) == ("10000+", "true")
    assert "more than 10000 lines" in result and "next_line" not in result  # which could not be read
    assert int(field(await tools("read_file", path="app.log", start_line=9_000), "next_line")) < 10_000


@given(
    st.lists(st.sampled_from(["a", "é€", "\r", "\n", "\r\n", "\u2028", "\x0b"]), min_size=1, max_size=30),
    st.integers(1, 5),
    st.integers(1, 40),
    st.data(),
)
def test_lines_are_those_of_the_whole_wherever_blocks_and_room_end(tmp_path_factory, pieces, block, room, data):
    root = tmp_path_factory.mktemp("root")
    text = "".join(pieces)
    (root / "a.txt").write_bytes(text.encode())
    lines = split_lines(text)
    start = data.draw(st.integers(1, len(lines)))
    end = data.draw(st.none() | st.integers(start, len(lines) + 2))
    space = Workspace(root)
    part = read_part(space, "a.txt", start, end, threading.Event(), Bounds(block_bytes=block, max_collected_bytes=room))
    space.close()
    assert part.total == len(lines) and part.counted
    if part.is_cut:
        assert lines[start - 1].startswith(part.text) and len(lines[start - 1].encode()) > room
        return
    read = split_lines(part.text)
    assert [line.rstrip("\r\n") for line in read] == [line.rstrip("\r\n") for line in lines[start - 1 :][: len(read)]]
    wanted = sum(len(line.encode()) for line in lines[start - 1 : end])
    assert read and (wanted > room or len(read) >= len(lines[start - 1 : end]))
