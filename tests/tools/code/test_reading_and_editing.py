"""`ide__read_file` and `ide__edit`: every kind of file, and edits that fit what was read or do nothing."""

from __future__ import annotations

import hashlib
import os

import pytest

from aish.errors import ToolError
from support.ide_tools import field


async def edit(tools, path, *edits, revision=None):
    revision = revision or field(await tools("read_file", path=path), "revision")
    return await tools("edit", edits=[{"path": path, "revision": revision, **one} for one in edits])


async def test_lines_are_numbered_and_the_revision_is_the_hash_of_the_content(tools, root):
    (root / "a.txt").write_text("one\ntwo\n")
    result = await tools("read_file", path="a.txt")
    assert result.endswith("\n1\tone\n2\ttwo")
    assert field(result, "revision") == hashlib.sha256(b"one\ntwo\n").hexdigest()[:16]
    assert field(result, "truncated") == "false"


async def test_a_part_is_read_by_its_lines_and_a_wrong_part_says_what_there_is(tools, root):
    (root / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 11)))
    assert (await tools("read_file", path="a.txt", start_line=4, end_line=5)).endswith("\n4\tline 4\n5\tline 5")
    with pytest.raises(ToolError, match="has lines 1 to 10, not 11 to 10"):
        await tools("read_file", path="a.txt", start_line=11)


async def test_a_long_file_comes_in_pieces_that_join_without_a_gap(tools, root):
    lines = [f"line {n} {'x' * 60}" for n in range(1, 1001)]
    (root / "a.txt").write_text("\n".join(lines) + "\n")
    read, at = [], 1
    while True:
        result = await tools("read_file", path="a.txt", start_line=at)
        assert len(result) < 16_000
        read += [line.partition("\t")[2] for line in result.split("\n")[1:]]
        if field(result, "truncated") == "false":
            break
        at = int(field(result, "next_line"))
    assert read == lines


async def test_an_empty_file_is_empty_and_has_a_revision(tools, root):
    (root / "a.txt").write_text("")
    result = await tools("read_file", path="a.txt")
    assert "the file is empty" in result and field(result, "total") == "0"
    await edit(tools, "a.txt", {"start_line": 1, "end_line": 1, "new": "filled\n"})
    assert (root / "a.txt").read_text() == "filled\n"


async def test_a_binary_file_is_named_and_not_shown(tools, root):
    (root / "a.bin").write_bytes(b"\x7fELF\0\0\xff")
    result = await tools("read_file", path="a.bin")
    assert field(result, "status") == "unsupported" and "binary file of 7 bytes" in result


async def test_a_file_that_is_not_utf8_is_shown_with_marks_and_cannot_be_edited(tools, root):
    (root / "a.txt").write_bytes(b"caf\xe9\n")
    result = await tools("read_file", path="a.txt")
    assert field(result, "status") == "partial" and "caf\ufffd" in result
    with pytest.raises(ToolError, match="not UTF-8"):
        await edit(tools, "a.txt", {"old": "caf", "new": "x"})
    assert (root / "a.txt").read_bytes() == b"caf\xe9\n"


async def test_a_huge_file_is_refused_with_its_size(tools, root):
    with (root / "a.txt").open("wb") as file:
        file.truncate(64 * 1024 * 1024)
    with pytest.raises(ToolError, match="67108864 bytes, more than"):
        await tools("read_file", path="a.txt")


async def test_a_fifo_a_folder_and_what_is_outside_are_refused_at_once(tools, root, tmp_path):
    os.mkfifo(root / "pipe")
    (tmp_path / "secret").write_text("secret")
    (root / "link").symlink_to(tmp_path / "secret")
    for path in ("pipe", ".", "link", "../secret", str(tmp_path / "secret"), "file:///etc/passwd", "a/../../secret"):
        with pytest.raises(ToolError):
            await tools("read_file", path=path)


async def test_text_is_replaced_where_it_stands_once(tools, root):
    (root / "a.py").write_text("a = 1\nb = 2\n")
    await edit(tools, "a.py", {"old": "1", "new": "10"}, {"old": "b = 2", "new": "b = 20"})
    assert (root / "a.py").read_text() == "a = 10\nb = 20\n"


async def test_text_that_stands_twice_needs_a_line(tools, root):
    (root / "a.py").write_text("x = 1\ny = 2\nx = 1\n")
    with pytest.raises(ToolError, match=r"2 times, in line 1, 3; give more of it, or its `line`"):
        await edit(tools, "a.py", {"old": "x = 1", "new": "x = 3"})
    await edit(tools, "a.py", {"old": "x = 1", "new": "x = 3", "line": 3})
    assert (root / "a.py").read_text() == "x = 1\ny = 2\nx = 3\n"


async def test_lines_are_replaced_and_the_last_keeps_its_end(tools, root):
    (root / "a.py").write_text("1\n2\n3\n4\n")
    await edit(tools, "a.py", {"start_line": 2, "end_line": 3, "new": "two and three"})
    assert (root / "a.py").read_text() == "1\ntwo and three\n4\n"


async def test_crlf_and_the_byte_order_mark_and_the_mode_are_kept(tools, root):
    (root / "a.py").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    (root / "a.py").chmod(0o755)
    await edit(tools, "a.py", {"old": "one\ntwo", "new": "1\n2\n3"})
    assert (root / "a.py").read_bytes() == b"\xef\xbb\xbf1\r\n2\r\n3\r\n"
    assert (root / "a.py").stat().st_mode & 0o777 == 0o755


async def test_an_edit_of_a_file_that_changed_since_it_was_read_does_nothing(tools, root):
    (root / "a.py").write_text("one\n")
    revision = field(await tools("read_file", path="a.py"), "revision")
    (root / "a.py").write_text("two\n")
    with pytest.raises(ToolError, match="changed since; read it again"):
        await edit(tools, "a.py", {"start_line": 1, "new": "mine"}, revision=revision)
    assert (root / "a.py").read_text() == "two\n"


async def test_an_edit_of_a_file_that_is_gone_says_so(tools, root):
    (root / "a.py").write_text("one\n")
    revision = field(await tools("read_file", path="a.py"), "revision")
    (root / "a.py").unlink()
    with pytest.raises(ToolError, match="does not exist"):
        await edit(tools, "a.py", {"start_line": 1, "new": "mine"}, revision=revision)


async def test_of_edits_of_several_files_one_that_does_not_fit_stops_all(tools, root):
    (root / "a.py").write_text("a\n")
    (root / "b.py").write_text("b\n")
    revision = field(await tools("read_file", path="a.py"), "revision")
    edits = [
        {"path": "a.py", "revision": revision, "old": "a", "new": "A"},
        {"path": "b.py", "revision": "0" * 16, "old": "b", "new": "B"},
    ]
    with pytest.raises(ToolError):
        await tools("edit", edits=edits)
    assert (root / "a.py").read_text() == "a\n"


async def test_edits_that_overlap_are_refused(tools, root):
    (root / "a.py").write_text("abcdef\n")
    with pytest.raises(ToolError, match="overlap"):
        await edit(tools, "a.py", {"old": "abcd", "new": "1"}, {"old": "cdef", "new": "2"})


async def test_a_new_file_is_made_and_never_over_one_that_is_there(tools, root):
    await edit(tools, "new.py", {"new": "x = 1\n"}, revision="new")
    assert (root / "new.py").read_text() == "x = 1\n"
    with pytest.raises(ToolError, match="nothing was changed"):
        await edit(tools, "new.py", {"new": "x = 2\n"}, revision="new")


async def test_nothing_is_written_through_a_link_or_to_a_hard_link(tools, root, tmp_path):
    (tmp_path / "outside.py").write_text("x = 1\n")
    (root / "link.py").symlink_to(tmp_path / "outside.py")
    os.link(tmp_path / "outside.py", root / "hard.py")
    with pytest.raises(ToolError):
        await edit(tools, "link.py", {"old": "1", "new": "2"})
    with pytest.raises(ToolError, match="hard link"):
        await edit(tools, "hard.py", {"old": "1", "new": "2"})
    assert (tmp_path / "outside.py").read_text() == "x = 1\n"


async def test_the_same_file_by_another_name_is_the_same_file(tools, root):
    (root / "a.py").write_text("a = 1\nb = 2\n")
    revision = field(await tools("read_file", path=str(root / "a.py")), "revision")
    edits = [
        {"path": "./a.py", "revision": revision, "old": "1", "new": "10"},
        {"path": (root / "a.py").as_uri(), "revision": revision, "old": "2", "new": "20"},
    ]
    await tools("edit", edits=edits)
    assert (root / "a.py").read_text() == "a = 10\nb = 20\n"
