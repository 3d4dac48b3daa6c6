"""Where an edit of a model's goes: the one place it can mean, or nowhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aish.errors import ToolError
from aish.tools.code.edits.text_edits import resolve_model_edits
from aish.tools.code.files.source import SourceText
from aish.tools.code.files.source import load as read_source
from aish.tools.workspace import Workspace


async def edit_rule(folder: Path, text: str, **edit: Any) -> str:
    (folder / "a.py").write_text(text)
    space = Workspace(folder)
    try:

        async def load(path: str) -> SourceText:
            return read_source(space, path)

        source = await load("a.py")
        (made,) = await resolve_model_edits(space, load, [{"path": "a.py", "revision": source.hash, **edit}])
        assert made.content is not None
        return made.content.decode()
    finally:
        space.close()


async def test_a_line_is_counted_in_lines(tmp_path):
    text = 'a = foo\nb = "' + "y" * 60 + '" + foo\n'
    assert await edit_rule(tmp_path, text, old="foo", new="BAR", line=2) == text[:-4] + "BAR\n"


async def test_far_down_a_file_of_equal_lines_it_is_that_line(tmp_path):
    lines = ["x = 1\n"] * 2000
    made = await edit_rule(tmp_path, "".join(lines), old="x = 1", new="x = 2", line=1500)
    assert [n for n, line in enumerate(made.splitlines(), 1) if line == "x = 2"] == [1500]


async def test_a_line_number_may_be_a_little_off_if_only_one_place_is_near(tmp_path):
    text = "foo\n" + "\n" * 20 + "foo\n"
    assert (await edit_rule(tmp_path, text, old="foo", new="bar", line=20)).splitlines()[-1] == "bar"


@pytest.mark.parametrize(
    ("text", "edit"),
    [
        ("foo foo\nfoo\n", {"old": "foo", "new": "x", "line": 1}),
        ("foo\nfoo\n", {"old": "foo", "new": "x", "line": 999}),
        ("foo\nfoo\n", {"old": "foo", "new": "x"}),
        ("keep = 1\ntarget = 2\n", {"old": "target = 2", "new": "target = 3", "start_line": 1}),
        ("keep = 1\n", {"old": "gone", "new": "x"}),
    ],
)
async def test_what_may_mean_more_than_one_place_or_none_is_refused_with_the_lines(tmp_path, text, edit):
    with pytest.raises(ToolError, match=r"in line|does not hold"):
        await edit_rule(tmp_path, text, **edit)


async def test_old_text_within_lines_changes_only_that(tmp_path):
    text = "a = 1\nb = 1\nc = 1\n"
    assert await edit_rule(tmp_path, text, old="= 1", new="= 2", start_line=2) == "a = 1\nb = 2\nc = 1\n"
