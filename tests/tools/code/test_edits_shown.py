"""What a person is shown before they agree to an edit, and that exactly this is done."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish.errors import ToolError
from aish.tools.code.rendering import MAX_CHARS, MAX_LINES, format_diff
from support.ide_tools import field, ide_with


def test_a_diff_names_the_file_and_shows_what_changes_with_a_little_around_it():
    before = "".join(f"{n}\n" for n in range(20)).encode()
    assert format_diff([("a.py", before, before.replace(b"10\n", b"ten\n"))]).splitlines() == [
        "--- a/a.py", "+++ b/a.py", "@@ -9,5 +9,5 @@", " 8", " 9", "-10", "+ten", " 11", " 12",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("before", "after", "seen"),
    [
        (None, b"x\n", ["--- /dev/null", "+++ b/f", "@@ -0,0 +1 @@", "+x"]),
        (b"x\n", None, ["--- a/f", "+++ /dev/null", "@@ -1 +0,0 @@", "-x"]),
        (None, b"", ["--- /dev/null", "+++ b/f"]),
        (b"x", b"x\n", ["--- a/f", "+++ b/f", "@@ -1 +1 @@", "-x", "\\ no newline at the end", "+x"]),
        (b"a\0", b"b", ["--- f: 2 bytes become 1, too many or no text to show"]),
        (b"x" * 300_000, b"", ["--- f: 300000 bytes become 0, too many or no text to show"]),
    ],
)
def test_files_that_come_go_or_cannot_be_shown(before, after, seen):
    assert format_diff([("f", before, after)]).splitlines() == seen


@given(st.lists(st.tuples(st.text(max_size=2000), st.text(max_size=2000)), max_size=20))
def test_a_diff_has_a_size_and_begins_as_one(pairs):
    shown = format_diff((f"{n}.py", old.encode(), new.encode()) for n, (old, new) in enumerate(pairs))
    assert len(shown) <= MAX_CHARS + 300 and len(shown.split("\n")) <= MAX_LINES + 1 + shown.count("\r")
    assert not shown or shown.startswith("--- ")


def test_of_many_files_it_says_which_are_not_shown():
    files = [(f"{n}.py", b"old\n" * 10, b"new\n" * 10) for n in range(60)]
    last = format_diff(files).splitlines()[-1]
    assert last.startswith("… and more, in 52 files: 8.py, 9.py, 10.py, ") and last.endswith(" 27.py, …")


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "root"
    folder.mkdir()
    (folder / "a.py").write_text("one\n")
    return folder


async def edit_of(tools, new="two"):
    revision = field(await tools("read_file", path="a.py"), "revision")
    return {"edits": [{"path": "a.py", "revision": revision, "old": "one", "new": new}]}


async def test_showing_changes_nothing_and_the_call_does_what_was_shown(root):
    async with ide_with(root, diagnostics_wait_s=0.2) as tools:
        arguments = await edit_of(tools)
        shown = await tools.ide.preview("edit", arguments, "c1")
        assert "-one\n+two" in shown and (root / "a.py").read_text() == "one\n"
        await tools.ide.serve("edit", arguments, lambda text: None, call="c1")
        assert (root / "a.py").read_text() == "two\n"


async def test_what_only_reads_or_lists_has_nothing_to_show(root):
    async with ide_with(root, diagnostics_wait_s=0.2) as tools:
        assert await tools.ide.preview("read_file", {"path": "a.py"}, "c") == ""
        assert await tools.ide.preview("code_action", {"path": "a.py", "line": 1}, "c") == ""


async def test_an_edit_that_cannot_be_is_not_shown_as_if_it_could(root):
    async with ide_with(root, diagnostics_wait_s=0.2) as tools:
        arguments = await edit_of(tools)
        (root / "a.py").write_text("other\n")
        with pytest.raises(ToolError, match="read it again"):
            await tools.ide.preview("edit", arguments, "c")


async def test_a_change_that_came_to_be_another_than_was_shown_is_not_made(root):
    """A formatter stands for whatever decides anew: between the question and the yes it wants something else."""
    async with ide_with(root, "ruff", format_on_edit=True, diagnostics_wait_s=5.0) as tools:
        arguments = await edit_of(tools, new="x = [1,2,3]")
        assert "+x = [1, 2, 3]" in await tools.ide.preview("edit", arguments, "c1")
        (root / "ruff.toml").write_text("[format]\nskip-magic-trailing-comma = true\nline-ending = 'cr-lf'\n")
        with pytest.raises(ToolError, match="no longer be what the user was shown"):
            await tools.ide.serve("edit", arguments, lambda text: None, call="c1")
        assert (root / "a.py").read_text() == "one\n"
        await tools.ide.serve("edit", arguments, lambda text: None, call="c2")  # of a call that nobody was shown
        assert (root / "a.py").read_bytes() == b"x = [1, 2, 3]\r\n"


def test_nothing_hides_behind_blanks_at_the_end_of_a_long_line():
    payload = "foo()" + " " * 320 + "; evil()"
    shown = format_diff([("a.py", b"foo()\n", f"{payload}\n".encode())])
    assert "evil()" in shown and "[320 blanks]" in shown
    long = "x" * 1000 + "END"
    assert "END" in format_diff([("a.py", b"", long.encode())])
