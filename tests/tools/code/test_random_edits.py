"""Edit after edit, each followed by diagnostics: they are about the new text, or say that they are not."""

from __future__ import annotations

import random
import re

import pytest

from support.code_projects import PROJECTS
from support.ide_tools import LANGUAGE_OF, field, ide_with

EDITS = 200
LINES = 12
# A line that is right, and the same one wrong.
FILES = {
    "python": ("bank/edited.py", "v{n}: int = {n}", "v{n}: int = 'wrong'"),
    "typescript": ("src/edited.ts", "export const v{n}: number = {n};", "export const v{n}: number = 'wrong';"),
    "c": ("src/decoy.c", "int v{n} = {n};", "int v{n} = wrong{n};"),
}


@pytest.mark.parametrize("server", ["basedpyright", "ty", "typescript", "typescript-language-server", "clangd"])
async def test_diagnostics_after_an_edit_are_right_or_marked(server, tmp_path):
    language = LANGUAGE_OF[server]
    root = PROJECTS[language]().write(tmp_path / "root")
    path, right, wrong = FILES[language]
    chance = random.Random(20)
    fresh = 0
    async with ide_with(root, server) as tools:
        for number in range(EDITS):
            bad = {n for n in range(LINES) if chance.random() < 0.2}
            text = "".join(f"{(wrong if n in bad else right).format(n=n)}\n" for n in range(LINES))
            await _change(tools, root / path, path, text, by_tool=bool(number % 2))
            result = await tools("diagnostics", path=path)
            status = field(result, "status")
            assert status in ("fresh", "partial", "pending", "stale"), result
            if status == "fresh":
                fresh += 1
                found = {int(line) - 1 for line in re.findall(rf"^{path}:(\d+): error", result, re.MULTILINE)}
                assert found == bad, f"edit {number}: {result}"
    assert fresh > EDITS * 0.9, f"only {fresh} of {EDITS} were fresh"


async def _change(tools, file, path, text, *, by_tool):
    """By somebody on disk, or by the tool itself."""
    if not by_tool:
        file.write_text(text)
        return
    before = await tools("read_file", path=path)
    count = int(field(before, "total"))
    edit = {"path": path, "revision": field(before, "revision"), "start_line": 1, "end_line": count, "new": text}
    result = await tools("edit", edits=[edit])
    assert "done: edit" in result or "nothing changes" in result, result
