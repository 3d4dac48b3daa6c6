"""A process that dies in the middle of a change of many files: what is left is mended, and never a mixed tree."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import aish
from aish.errors import ToolError
from aish.tools.code.edits.journaled import JournaledApplier
from aish.tools.code.edits.records import FileEdit
from aish.tools.code.files.source import content_hash
from aish.tools.workspace import Workspace
from support.ide_tools import field, ide_with

CHILD = Path(__file__).parents[2] / "support" / "killed_edits.py"
PYTHONPATH = os.pathsep.join([str(Path(aish.__file__).parents[1]), str(CHILD.parents[1])])


@pytest.mark.parametrize(("kind", "points"), [("rename", 50), ("files", 20), ("undo", 20)])
def test_killed_at_any_step_of_sixty_files_and_again_while_recovering_no_tree_is_mixed(tmp_path, kind, points):
    command = [sys.executable, str(CHILD), str(tmp_path / "root"), str(tmp_path / "state"), kind, str(points)]
    env = {**os.environ, "PYTHONPATH": PYTHONPATH}
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=env, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    whole, *found = map(json.loads, done.stdout.splitlines())
    assert whole["changed"] >= 60 and len(found) == points
    assert all(one["killed"] for one in found)
    assert sum(one["was_mixed"] for one in found) >= points // 4  # or the kills prove nothing
    assert sum(one["killed_again"] for one in found) >= points // 2
    assert [one for one in found if one["now"] == "mixed"] == []
    assert {one["now"] for one in found} == {"old", "new"}


class Dies(BaseException):
    """What ends a process, as far as files are concerned."""


class Left:
    """A workspace in which a change of `a`, `b` and `c` stopped before a step."""

    def __init__(self, folder, stopped_before):
        self.root = folder / "root"
        self.state = folder / "state"
        self.root.mkdir()
        for name in "abc":
            (self.root / name).write_bytes(name.encode())
        self.space = Workspace(self.root)

        def step(what):
            if what == stopped_before:
                raise Dies

        edits = [FileEdit(name, content_hash(name.encode()), name.upper().encode()) for name in "abc"]
        with pytest.raises(Dies):
            JournaledApplier(self.space, self.state, step=step)._apply(edits, "to capitals")
        self.applier = JournaledApplier(self.space, self.state)

    def texts(self):
        return {path.name: path.read_text() for path in self.root.iterdir()}

    def stages(self):
        return sorted(self.root.glob(".aish-*"))


async def test_what_had_begun_is_finished_and_said_and_can_be_undone(tmp_path):
    left = Left(tmp_path, "place b")
    assert left.texts()["a"] == "A" and left.texts()["b"] == "b"
    assert await left.applier.recover() == "an interrupted change was finished: to capitals (3 files)"
    assert left.texts() == {"a": "A", "b": "B", "c": "C"}
    assert await left.applier.recover() == ""
    await left.applier.undo()
    assert left.texts() == {"a": "a", "b": "b", "c": "c"}


@pytest.mark.parametrize("damage", ["removed", "changed", "link"])
async def test_what_cannot_be_finished_because_a_stage_is_not_as_it_was_is_taken_back(tmp_path, damage):
    left = Left(tmp_path, "place b")
    stage = left.stages()[0]
    match damage:
        case "removed":
            stage.unlink()
        case "changed":
            stage.write_text("evil")
        case "link":
            stage.unlink()
            stage.symlink_to("/etc/passwd")
    assert await left.applier.recover() == "an interrupted change was taken back: to capitals"
    assert left.texts() == {"a": "a", "b": "b", "c": "c"}


async def test_what_somebody_wrote_after_the_crash_is_never_lost(tmp_path):
    left = Left(tmp_path, "place b")
    (left.root / "c").write_text("somebody's")
    said = await left.applier.recover()
    assert said.endswith("changed by another program and left so: c")
    assert left.texts() == {"a": "a", "b": "b", "c": "somebody's"}


async def test_what_was_in_place_and_written_to_since_does_not_keep_the_rest_from_being_finished(tmp_path):
    left = Left(tmp_path, "place b")
    (left.root / "a").write_text("A and more")
    assert "finished" in await left.applier.recover()
    assert left.texts() == {"a": "A and more", "b": "B", "c": "C"}


async def test_a_crash_while_it_is_taken_back_is_taken_back_further(tmp_path):
    left = Left(tmp_path, "place c")
    left.stages()[0].unlink()

    def step(what):
        if what == "take back a":
            raise Dies

    with pytest.raises(Dies):
        JournaledApplier(left.space, left.state, step=step)._recover()
    assert left.texts()["a"] == "A" and left.texts()["b"] == "b"
    assert "taken back" in await left.applier.recover()
    assert left.texts() == {"a": "a", "b": "b", "c": "c"}


async def test_the_next_edit_mends_first_and_says_so(tmp_path):
    left = Left(tmp_path, "place b")
    outcome = await left.applier.apply([FileEdit("b", content_hash(b"B"), b"next")], title="next")
    assert outcome.note.startswith("an interrupted change was finished") and not outcome.conflicts
    assert left.texts() == {"a": "A", "b": "next", "c": "C"}


@pytest.mark.parametrize("content", [b"", b"\x00garbage", b"\x80"])
async def test_a_journal_that_cannot_be_read_stops_edits_and_says_what_to_do(tmp_path, content):
    left = Left(tmp_path, "place b")
    (journal,) = left.state.glob("*/journal")
    journal.write_bytes(content)
    with pytest.raises(ToolError, match="cannot be read; look at the workspace, then remove that file"):
        await left.applier.recover()


async def test_a_journal_that_cannot_be_read_does_not_keep_files_from_being_looked_at(tmp_path):
    left = Left(tmp_path, "place b")
    left.state.rename(tmp_path / "edits")
    (journal,) = (tmp_path / "edits").glob("*/journal")
    journal.write_bytes(b"")
    statuses = []
    async with ide_with(left.root, diagnostics_wait_s=0.2) as tools:
        revision = field(await tools.ide.serve("read_file", {"path": "a"}, statuses.append), "revision")
        with pytest.raises(ToolError, match="cannot be read; look at the workspace"):
            await tools("edit", edits=[{"path": "a", "revision": revision, "old": "A", "new": "x"}])
    assert len(statuses) == 1 and "then remove that file" in statuses[0]


async def test_what_cannot_be_taken_back_yet_is_said_kept_and_tried_again(tmp_path):
    left = Left(tmp_path, "place b")
    left.stages()[0].unlink()  # so that it cannot be finished
    (left.root / f"{left.stages()[0].name[:-1]}0").mkdir()  # nor taken back: where the old `a` would be staged
    with pytest.raises(ToolError, match=r"half done and could not be taken back yet: to capitals .* tries again"):
        await left.applier.recover()
    with pytest.raises(ToolError, match="half done"):
        await left.applier.apply([FileEdit("c", content_hash(b"c"), b"x")], title="another")
    next(left.root.glob(".aish-*0")).rmdir()
    assert "taken back" in await left.applier.recover()
    assert left.texts() == {"a": "a", "b": "b", "c": "c"}


async def test_an_intent_that_was_only_half_written_is_nothing(tmp_path):
    left = Left(tmp_path, "stage a")
    (staging,) = left.state.glob("*/staging")
    staging.write_bytes(staging.read_bytes()[:20])
    assert await left.applier.recover() == ""
    assert left.texts() == {"a": "a", "b": "b", "c": "c"}


async def test_the_tools_mend_a_workspace_before_they_first_look_at_it(tmp_path):
    left = Left(tmp_path, "place b")
    left.state.rename(tmp_path / "edits")  # where the tools of tests keep theirs
    statuses = []
    async with ide_with(left.root) as tools:
        read = await tools.ide.serve("read_file", {"path": "b"}, statuses.append)
    assert field(read, "revision") == content_hash(b"B")[:16]
    assert statuses == ["an interrupted change was finished: to capitals (3 files)"]
